//! Programs: modules in executable form.

use super::Code;
use super::structure::Lowerer;
use crate::exec::Isa;
use crate::ir::{self, Module, VerifyError};
use std::fmt;

/// Why a module has no executable form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It breaks the IR's rules.
    #[error("the module is not valid: {}", list(.0))]
    Invalid(Vec<VerifyError>),
}

fn list(errors: &[VerifyError]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// A module in executable form.
pub struct Program {
    kernels: Vec<Code>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.kernels.iter().map(|code| &*code.name).collect();
        f.debug_struct("Program").field("kernels", &names).finish()
    }
}

/// A kernel of a [`Program`], as a launch needs to know it.
#[derive(Debug, Clone, Copy)]
pub struct KernelInfo<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its parameters.
    pub params: &'a [ir::Param],
    /// Bytes of its parameters' layout.
    pub param_bytes: u32,
    /// Static shared bytes.
    pub shared_bytes: u32,
    /// Registers of a thread, declared or estimated.
    pub registers: u32,
    /// Why its CTAs run on a serial schedule, where they do.
    pub ordered: Option<&'static str>,
}

impl Program {
    /// Verifies a module and brings it into executable form.
    ///
    /// # Errors
    /// Where the module breaks the IR's rules.
    pub fn compile(module: &Module) -> Result<Self, CompileError> {
        Self::compile_for(module, Isa::detect())
    }

    pub(crate) fn compile_for(module: &Module, isa: Isa) -> Result<Self, CompileError> {
        ir::verify(module).map_err(CompileError::Invalid)?;
        let kernels = module.kernels.iter();
        let kernels = kernels.map(|kernel| Lowerer::new(module, kernel, isa).finish());
        Ok(Self {
            kernels: kernels.collect(),
        })
    }

    /// The kernels, in the module's order.
    pub fn kernels(&self) -> impl Iterator<Item = KernelInfo<'_>> {
        self.kernels.iter().map(|code| KernelInfo {
            name: &code.name,
            params: &code.params,
            param_bytes: code.param_bytes,
            shared_bytes: code.shared_bytes,
            registers: code.registers_per_thread,
            ordered: code.ordered,
        })
    }

    pub(crate) fn kernel(&self, name: &str) -> Option<&Code> {
        self.kernels.iter().find(|code| code.name == name)
    }
}
