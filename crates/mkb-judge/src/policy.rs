//! The source policy: what a submission's syntax tree may not refer to, each finding with its line and rule.
//!
//! It works on meaning, not on text: names are resolved through the file's imports, so that
//! `import torch as t; t.compile` is found and a variable called `compile`, a comment or a string
//! is not. What a tree cannot show (a kernel whose result is thrown away, say) is the business of
//! the replay; what the sandbox forbids anyway is named here so that the report explains it.

use std::collections::HashMap;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{self as ast, Expr, Stmt};
use ruff_source_file::LineIndex;
use ruff_text_size::{Ranged, TextSize};
use serde::{Deserialize, Serialize};

use crate::scopes::Scopes;

/// A rule of the protocol ("What a submission may do").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The task's own reference, `make_inputs` or helpers.
    TaskCode,
    /// Any other kernel language or compiler, and what starts one.
    OtherCompiler,
    /// Kernels from a DSL kernel library.
    KernelLibrary,
    /// CUDA graphs.
    CudaGraph,
    /// Seeds, frames, call order and evaluator state.
    EvaluatorState,
    /// Code that this policy cannot read: `exec`, `eval`, computed imports and attributes.
    HiddenCode,
    /// Replacing parts of torch, the DSL or the standard library.
    Patching,
    /// The network.
    Network,
    /// A call that ran no kernel of the task's DSL.
    NoKernel,
    /// Outputs that do not depend on the DSL's kernels.
    WithheldResult,
    /// DSL kernels that only copy what eager operations computed.
    CopiedResult,
    /// Data computed on the host and sent to the device during a call.
    HostData,
}

impl Rule {
    /// The rule's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Rule::TaskCode => "task-code",
            Rule::OtherCompiler => "other-compiler",
            Rule::KernelLibrary => "kernel-library",
            Rule::CudaGraph => "cuda-graph",
            Rule::EvaluatorState => "evaluator-state",
            Rule::HiddenCode => "hidden-code",
            Rule::Patching => "patching",
            Rule::Network => "network",
            Rule::NoKernel => "no-kernel",
            Rule::WithheldResult => "withheld-result",
            Rule::CopiedResult => "copied-result",
            Rule::HostData => "host-data",
        }
    }
}

/// A place where a submission breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// Line in the file, from 1; 0 where it is not about one line.
    pub line: u32,
    /// What was found.
    pub what: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        write!(f, "{} [{}]", self.what, self.rule.name())
    }
}

/// Why a submission's text is no Python.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Not UTF-8.
    #[error("kernel.py is not UTF-8: byte {0} is no character")]
    NotUtf8(usize),
    /// Does not parse.
    #[error("kernel.py does not parse: line {line}: {message}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// The parser's words.
        message: String,
    },
    /// Nests deeper than the parser's stack bears.
    #[error("kernel.py nests brackets deeper than {0}")]
    TooDeep(usize),
    /// The system has no memory to read so long a text.
    #[error("kernel.py has {0} bytes, and there is no memory to read it")]
    TooLong(usize),
    /// No top-level `solve`.
    #[error("kernel.py defines no function solve at top level")]
    NoSolve,
}

/// Bracket depth past which a file is refused before it is parsed; CPython's own limit is 200.
const MAX_DEPTH: usize = 200;

/// Parts of the longest dotted name that is followed; no module lies so deep.
const LONGEST_NAME: usize = 64;

/// Stack to read a text on, in bytes: what any text takes, and what each of its bytes may add. Only
/// what is used of it takes memory.
const LEAST_STACK: usize = 64 << 20;
const STACK_PER_BYTE: usize = 4 << 10;

/// Module prefixes and names that a submission may not refer to, with the rule.
const FORBIDDEN: &[(&str, Rule)] = &[
    ("task", Rule::TaskCode),
    ("contract", Rule::TaskCode),
    ("grader", Rule::TaskCode),
    ("mkb_worker", Rule::EvaluatorState),
    ("mkb_shim", Rule::EvaluatorState),
    ("mkb_tirx", Rule::EvaluatorState),
    ("torch.compile", Rule::OtherCompiler),
    ("torch.compiler", Rule::OtherCompiler),
    ("torch.jit", Rule::OtherCompiler),
    ("torch.export", Rule::OtherCompiler),
    ("torch.fx", Rule::OtherCompiler),
    ("torch.library", Rule::OtherCompiler),
    ("torch._C", Rule::EvaluatorState),
    ("torch._dynamo", Rule::OtherCompiler),
    ("torch._inductor", Rule::OtherCompiler),
    ("torch._export", Rule::OtherCompiler),
    ("torch.utils.cpp_extension", Rule::OtherCompiler),
    ("torch.cuda.jiterator", Rule::OtherCompiler),
    ("torch.cuda._compile_kernel", Rule::OtherCompiler),
    ("torch.classes", Rule::OtherCompiler),
    ("torch.ops.load_library", Rule::OtherCompiler),
    ("triton", Rule::OtherCompiler),
    ("numba", Rule::OtherCompiler),
    ("cupy", Rule::OtherCompiler),
    ("pycuda", Rule::OtherCompiler),
    ("cuda", Rule::OtherCompiler),
    ("jax", Rule::OtherCompiler),
    ("taichi", Rule::OtherCompiler),
    ("tilelang", Rule::OtherCompiler),
    ("warp", Rule::OtherCompiler),
    ("pallas", Rule::OtherCompiler),
    ("mojo", Rule::OtherCompiler),
    ("cffi", Rule::OtherCompiler),
    ("ctypes", Rule::OtherCompiler),
    ("subprocess", Rule::OtherCompiler),
    ("multiprocessing", Rule::OtherCompiler),
    ("pty", Rule::OtherCompiler),
    ("os.system", Rule::OtherCompiler),
    ("os.popen", Rule::OtherCompiler),
    ("os.fork", Rule::OtherCompiler),
    ("os.forkpty", Rule::OtherCompiler),
    ("os.execl", Rule::OtherCompiler),
    ("os.execle", Rule::OtherCompiler),
    ("os.execlp", Rule::OtherCompiler),
    ("os.execv", Rule::OtherCompiler),
    ("os.execve", Rule::OtherCompiler),
    ("os.execvp", Rule::OtherCompiler),
    ("os.execvpe", Rule::OtherCompiler),
    ("os.posix_spawn", Rule::OtherCompiler),
    ("os.posix_spawnp", Rule::OtherCompiler),
    ("os.spawnl", Rule::OtherCompiler),
    ("os.spawnv", Rule::OtherCompiler),
    ("os.spawnve", Rule::OtherCompiler),
    ("flashinfer", Rule::KernelLibrary),
    ("flash_attn", Rule::KernelLibrary),
    ("fla", Rule::KernelLibrary),
    ("xformers", Rule::KernelLibrary),
    ("vllm", Rule::KernelLibrary),
    ("sgl_kernel", Rule::KernelLibrary),
    ("sglang", Rule::KernelLibrary),
    ("quack", Rule::KernelLibrary),
    ("tirx_kernels", Rule::KernelLibrary),
    ("deep_gemm", Rule::KernelLibrary),
    ("liger_kernel", Rule::KernelLibrary),
    ("apex", Rule::KernelLibrary),
    ("transformer_engine", Rule::KernelLibrary),
    ("causal_conv1d", Rule::KernelLibrary),
    ("mamba_ssm", Rule::KernelLibrary),
    ("cutlass_library", Rule::KernelLibrary),
    ("torch.cuda.CUDAGraph", Rule::CudaGraph),
    ("torch.cuda.graph", Rule::CudaGraph),
    ("torch.cuda.graphs", Rule::CudaGraph),
    ("torch.cuda.make_graphed_callables", Rule::CudaGraph),
    ("torch.cuda.graph_pool_handle", Rule::CudaGraph),
    ("torch.initial_seed", Rule::EvaluatorState),
    ("torch.seed", Rule::EvaluatorState),
    ("torch.get_rng_state", Rule::EvaluatorState),
    ("torch.random", Rule::EvaluatorState),
    ("torch.cuda.initial_seed", Rule::EvaluatorState),
    ("torch.cuda.get_rng_state", Rule::EvaluatorState),
    ("torch.cuda.random", Rule::EvaluatorState),
    ("torch.default_generator", Rule::EvaluatorState),
    ("torch.cuda.default_generators", Rule::EvaluatorState),
    ("torch.cuda.memory", Rule::EvaluatorState),
    ("sys._getframe", Rule::EvaluatorState),
    ("sys._current_frames", Rule::EvaluatorState),
    ("sys.settrace", Rule::EvaluatorState),
    ("sys.setprofile", Rule::EvaluatorState),
    ("sys.modules", Rule::EvaluatorState),
    ("sys.meta_path", Rule::EvaluatorState),
    ("inspect.stack", Rule::EvaluatorState),
    ("inspect.currentframe", Rule::EvaluatorState),
    ("inspect.trace", Rule::EvaluatorState),
    ("traceback.walk_stack", Rule::EvaluatorState),
    ("gc.get_objects", Rule::EvaluatorState),
    ("gc.get_referrers", Rule::EvaluatorState),
    ("gc.get_referents", Rule::EvaluatorState),
    ("__main__", Rule::EvaluatorState),
    ("builtins.exec", Rule::HiddenCode),
    ("builtins.eval", Rule::HiddenCode),
    ("builtins.compile", Rule::HiddenCode),
    ("builtins.__import__", Rule::HiddenCode),
    ("pickle", Rule::HiddenCode),
    ("marshal", Rule::HiddenCode),
    ("runpy", Rule::HiddenCode),
    ("codeop", Rule::HiddenCode),
    ("types.CodeType", Rule::HiddenCode),
    ("types.FunctionType", Rule::HiddenCode),
    ("importlib.util", Rule::HiddenCode),
    ("importlib.machinery", Rule::HiddenCode),
    ("importlib.reload", Rule::HiddenCode),
    ("unittest.mock", Rule::Patching),
    ("socket", Rule::Network),
    ("ssl", Rule::Network),
    ("http", Rule::Network),
    ("urllib", Rule::Network),
    ("requests", Rule::Network),
    ("httpx", Rule::Network),
    ("aiohttp", Rule::Network),
    ("ftplib", Rule::Network),
    ("smtplib", Rule::Network),
];

/// Modules that are forbidden, in part or whole, also where another module's attribute leads to them.
const REACHED: &[&str] = &[
    "sys",
    "os",
    "builtins",
    "subprocess",
    "multiprocessing",
    "ctypes",
    "cffi",
    "inspect",
    "gc",
    "importlib",
    "types",
    "pickle",
    "marshal",
    "runpy",
    "traceback",
    "socket",
    "urllib",
    "mkb_worker",
    "mkb_shim",
    "mkb_tirx",
];

/// Builtins that hide code or reach outside the file's own names.
const BUILTINS: &[(&str, Rule)] = &[
    ("exec", Rule::HiddenCode),
    ("eval", Rule::HiddenCode),
    ("compile", Rule::HiddenCode),
    ("__import__", Rule::HiddenCode),
    ("__builtins__", Rule::HiddenCode),
    ("__loader__", Rule::HiddenCode),
    ("__spec__", Rule::HiddenCode),
];

/// Attributes that reach from any object to interpreter internals.
const INTERNALS: &[(&str, Rule)] = &[
    ("__globals__", Rule::EvaluatorState),
    ("__subclasses__", Rule::EvaluatorState),
    ("__builtins__", Rule::HiddenCode),
    ("__code__", Rule::HiddenCode),
    ("__loader__", Rule::HiddenCode),
    ("f_back", Rule::EvaluatorState),
    ("f_globals", Rule::EvaluatorState),
    ("f_locals", Rule::EvaluatorState),
    ("tb_frame", Rule::EvaluatorState),
    ("gi_frame", Rule::EvaluatorState),
];

/// Reads a submission: UTF-8, the syntax tree, a top-level `solve`; then all that breaks a rule, in
/// the order of lines. `other_dsls` are the import roots of the DSLs that are not the task's
/// (importing one is another kernel language).
pub fn check(source: &[u8], other_dsls: &[&str]) -> Result<Vec<Finding>, SourceError> {
    let text = std::str::from_utf8(source).map_err(|e| SourceError::NotUtf8(e.valid_up_to()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    refuse_deep_nesting(text)?;
    // `a.b.b.b...` nests without brackets, a level for every other byte, and parser, visitors and
    // the tree's end go down it by recursion: their stack is as deep as the text may ask for.
    let stack = LEAST_STACK + text.len() * STACK_PER_BYTE;
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(stack)
            .spawn_scoped(scope, || check_text(text, other_dsls))
            .map_err(|_| SourceError::TooLong(text.len()))?
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn check_text(text: &str, other_dsls: &[&str]) -> Result<Vec<Finding>, SourceError> {
    let index = LineIndex::from_source_text(text);
    let module = ruff_python_parser::parse_module(text).map_err(|e| SourceError::Syntax {
        line: index.line_index(e.location.start()).get(),
        message: e.error.to_string(),
    })?;
    let module = module.into_syntax();
    if !defines_solve(&module.body) {
        return Err(SourceError::NoSolve);
    }
    let mut walk = Walk {
        index: &index,
        other_dsls,
        names: HashMap::new(),
        scopes: Scopes::of(&module.body),
        findings: Vec::new(),
    };
    Bindings { walk: &mut walk }.visit_body(&module.body);
    walk.visit_body(&module.body);
    walk.findings.sort_by_key(|f| (f.line, f.rule));
    walk.findings.dedup();
    Ok(walk.findings)
}

/// Refuses what would overflow the parser's stack: brackets, or operators and indents, nested past the limit.
fn refuse_deep_nesting(text: &str) -> Result<(), SourceError> {
    let (mut depth, mut run) = (0usize, 0usize);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        // Chains of unary operators recurse as well.
        run = if matches!(byte, b'-' | b'~' | b'+' | b' ') {
            run + 1
        } else {
            0
        };
        if depth > MAX_DEPTH || run > 4_000 {
            return Err(SourceError::TooDeep(MAX_DEPTH));
        }
    }
    Ok(())
}

fn defines_solve(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match stmt {
        Stmt::FunctionDef(f) => f.name.as_str() == "solve",
        Stmt::Assign(a) => a
            .targets
            .iter()
            .any(|t| matches!(t, Expr::Name(n) if n.id.as_str() == "solve")),
        Stmt::AnnAssign(a) => matches!(&*a.target, Expr::Name(n) if n.id.as_str() == "solve"),
        Stmt::ImportFrom(i) => i
            .names
            .iter()
            .any(|n| n.asname.as_ref().unwrap_or(&n.name).as_str() == "solve"),
        Stmt::If(s) => {
            defines_solve(&s.body) || s.elif_else_clauses.iter().any(|c| defines_solve(&c.body))
        }
        Stmt::Try(s) => {
            defines_solve(&s.body)
                || s.handlers
                    .iter()
                    .any(|ast::ExceptHandler::ExceptHandler(h)| defines_solve(&h.body))
                || defines_solve(&s.orelse)
        }
        Stmt::With(s) => defines_solve(&s.body),
        _ => false,
    })
}

/// First pass: which local names stand for which qualified ones, over the whole file.
struct Bindings<'w, 'i> {
    walk: &'w mut Walk<'i>,
}

impl<'a> Visitor<'a> for Bindings<'_, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    let full = alias.name.as_str();
                    let (local, target) = match &alias.asname {
                        Some(name) => (name.as_str(), full),
                        None => {
                            let root = full.split('.').next().unwrap_or(full);
                            (root, root)
                        }
                    };
                    self.walk.names.insert(local.to_owned(), target.to_owned());
                }
            }
            Stmt::ImportFrom(import) => {
                let module = import.module.as_ref().map_or("", |m| m.as_str());
                for alias in &import.names {
                    let local = alias.asname.as_ref().unwrap_or(&alias.name);
                    self.walk
                        .names
                        .insert(local.to_string(), format!("{module}.{}", alias.name));
                }
            }
            Stmt::Assign(assign) => {
                // `t = torch` is another name for it.
                if let (Some(target), [Expr::Name(name)]) = (
                    self.walk.qualified(&assign.value),
                    assign.targets.as_slice(),
                ) {
                    self.walk.names.entry(name.id.to_string()).or_insert(target);
                }
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }
}

/// Second pass: looks at every reference.
struct Walk<'i> {
    index: &'i LineIndex,
    other_dsls: &'i [&'i str],
    names: HashMap<String, String>,
    scopes: Scopes,
    findings: Vec<Finding>,
}

impl Walk<'_> {
    fn find(&mut self, rule: Rule, at: TextSize, what: impl Into<String>) {
        let line = self.index.line_index(at).get() as u32;
        self.findings.push(Finding {
            rule,
            line,
            what: what.into(),
        });
    }

    /// The dotted name that an expression refers to, through imports: `t.compile` is `torch.compile`.
    fn qualified(&self, expr: &Expr) -> Option<String> {
        self.qualified_within(expr, LONGEST_NAME)
    }

    fn qualified_within(&self, expr: &Expr, parts: usize) -> Option<String> {
        let parts = parts.checked_sub(1)?;
        match expr {
            Expr::Name(name) => self.names.get(name.id.as_str()).cloned(),
            Expr::Attribute(attribute) => Some(format!(
                "{}.{}",
                self.qualified_within(&attribute.value, parts)?,
                attribute.attr
            )),
            // getattr(torch, "compile") is torch.compile.
            Expr::Call(call) if matches!(&*call.func, Expr::Name(n) if n.id.as_str() == "getattr") =>
            {
                let object = self.qualified_within(call.arguments.args.first()?, parts)?;
                let Expr::StringLiteral(text) = call.arguments.args.get(1)? else {
                    return None;
                };
                Some(format!("{object}.{}", text.value.to_str()))
            }
            _ => None,
        }
    }

    fn refer(&mut self, qualified: &str, at: TextSize) {
        let hit = |qualified: &str| FORBIDDEN.iter().find(|(name, _)| covers(name, qualified));
        // `torch.sys` is `sys`: modules are attributes of those that import them.
        let reached = REACHED.iter().filter_map(|module| {
            let at = qualified.find(&format!(".{module}"))? + 1;
            covers(module, &qualified[at..]).then_some(&qualified[at..])
        });
        let hit = std::iter::once(qualified).chain(reached).find_map(hit);
        if let Some((name, rule)) = hit {
            self.find(*rule, at, format!("{qualified} is not allowed ({name})"));
        } else if qualified.split('.').skip(1).any(|part| part == "__dict__") {
            let what = format!("{qualified} gives computed access to a module");
            self.find(Rule::HiddenCode, at, what);
        } else if let Some(dsl) = self.other_dsls.iter().find(|dsl| covers(dsl, qualified)) {
            let what = format!("{qualified} is not allowed: {dsl} is not this task's DSL");
            self.find(Rule::OtherCompiler, at, what);
        }
    }
}

/// Whether `qualified` is `name` or something inside it.
fn covers(name: &str, qualified: &str) -> bool {
    qualified
        .strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl<'a> Visitor<'a> for Walk<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    self.refer(alias.name.as_str(), alias.start());
                }
            }
            Stmt::ImportFrom(import) => {
                if import.level > 0 {
                    self.find(
                        Rule::TaskCode,
                        import.start(),
                        "a relative import reaches outside kernel.py",
                    );
                }
                let module = import.module.as_ref().map_or("", |m| m.as_str());
                for alias in &import.names {
                    self.refer(&format!("{module}.{}", alias.name), alias.start());
                }
            }
            Stmt::Assign(assign) => {
                for target in &assign.targets {
                    self.patching(target);
                }
            }
            Stmt::FunctionDef(function) => {
                for decorator in &function.decorator_list {
                    self.visit_decorator(decorator);
                }
                // Defaults and annotations stand outside the function's scope.
                self.visit_parameters(&function.parameters);
                if let Some(returns) = &function.returns {
                    self.visit_annotation(returns);
                }
                self.scopes.enter(&function.parameters, &function.body);
                self.visit_body(&function.body);
                self.scopes.leave();
                return;
            }
            Stmt::AugAssign(assign) => self.patching(&assign.target),
            Stmt::Delete(delete) => {
                for target in &delete.targets {
                    self.patching(target);
                }
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Attribute(attribute) => {
                if let Some((name, rule)) = INTERNALS
                    .iter()
                    .find(|(name, _)| attribute.attr.as_str() == *name)
                {
                    self.find(
                        *rule,
                        attribute.start(),
                        format!("the attribute {name} is not allowed"),
                    );
                }
                if let Some(qualified) = self.qualified(expr) {
                    self.refer(&qualified, attribute.start());
                    return; // The parts of a chain are the same reference.
                }
            }
            Expr::Name(name) if name.ctx.is_load() => {
                let id = name.id.as_str();
                if let Some(qualified) = self.names.get(id).cloned() {
                    self.refer(&qualified, name.start());
                } else if let Some((_, rule)) = BUILTINS.iter().find(|(b, _)| *b == id)
                    && !self.scopes.bind(id, name.start())
                {
                    self.find(
                        *rule,
                        name.start(),
                        format!("the builtin {id} is not allowed"),
                    );
                }
            }
            Expr::Call(call) => self.call(call),
            Expr::Lambda(lambda) if lambda.parameters.is_some() => {
                if let Some(parameters) = &lambda.parameters {
                    self.visit_parameters(parameters);
                    self.scopes.enter(parameters, &[]);
                }
                self.visit_expr(&lambda.body);
                self.scopes.leave();
                return;
            }
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}

/// Settings that belong to whoever calls torch; assigning them is no patching.
const SETTINGS: &[&str] = &["torch.backends"];

impl Walk<'_> {
    /// An assignment to an attribute or item of an imported module replaces a part of it.
    fn patching(&mut self, target: &Expr) {
        let object = match target {
            Expr::Attribute(attribute) => self.qualified(&attribute.value),
            Expr::Subscript(subscript) => self.qualified(&subscript.value),
            Expr::Tuple(tuple) => return tuple.elts.iter().for_each(|e| self.patching(e)),
            Expr::List(list) => return list.elts.iter().for_each(|e| self.patching(e)),
            _ => None,
        };
        if let Some(object) = object
            && !SETTINGS.iter().any(|s| covers(s, &object))
            && object != "os.environ"
        {
            self.find(
                Rule::Patching,
                target.start(),
                format!("assigning into {object} replaces a part of it"),
            );
        }
    }

    fn call(&mut self, call: &ast::ExprCall) {
        let argument = |n: usize| call.arguments.args.get(n);
        let text = |e: Option<&Expr>| match e {
            Some(Expr::StringLiteral(s)) => Some(s.value.to_str().to_owned()),
            _ => None,
        };
        let builtin = match &*call.func {
            Expr::Name(name) if !self.scopes.bind(name.id.as_str(), name.start()) => {
                name.id.as_str()
            }
            _ => "",
        };
        let qualified = self.qualified(&call.func).unwrap_or_default();
        match (builtin, qualified.as_str()) {
            ("getattr", _) => {
                if let Some(object) = argument(0).and_then(|o| self.qualified(o)) {
                    match text(argument(1)) {
                        Some(name) => self.refer(&format!("{object}.{name}"), call.start()),
                        None => self.find(
                            Rule::HiddenCode,
                            call.start(),
                            format!("getattr on {object} with a computed name"),
                        ),
                    }
                }
            }
            ("setattr" | "delattr", _) => {
                if let Some(object) = argument(0).and_then(|o| self.qualified(o)) {
                    self.find(
                        Rule::Patching,
                        call.start(),
                        format!("{builtin} on {object} replaces a part of it"),
                    );
                }
            }
            ("vars" | "globals", _)
                if builtin == "vars" && argument(0).and_then(|o| self.qualified(o)).is_some() =>
            {
                self.find(
                    Rule::HiddenCode,
                    call.start(),
                    "vars of a module gives computed access to it",
                );
            }
            ("open", _) => {
                if let Some(path) = text(argument(0))
                    && (path.starts_with("/proc")
                        || path.starts_with("/sys")
                        || path.starts_with("/dev"))
                {
                    self.find(
                        Rule::EvaluatorState,
                        call.start(),
                        format!("opening {path}"),
                    );
                }
            }
            (_, "importlib.import_module") => match text(argument(0)) {
                Some(name) => self.refer(&name, call.start()),
                None => self.find(
                    Rule::HiddenCode,
                    call.start(),
                    "import_module with a computed name",
                ),
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(source: &str) -> Vec<(Rule, u32)> {
        let source = format!("{source}\ndef solve(x):\n    return x\n");
        check(source.as_bytes(), &["tvm"])
            .unwrap()
            .iter()
            .map(|f| (f.rule, f.line))
            .collect()
    }

    #[test]
    fn honest_code_that_looks_similar_passes() {
        for honest in [
            "import re\npattern = re.compile('a')",
            "import torch\ndef compile(x):\n    return x\ny = compile(1)",
            "try:\n    import numpy\nexcept ImportError:\n    pass",
            "# torch.compile would be faster\nNOTE = 'torch.jit triton subprocess'",
            "import cutlass.cute as cute\nk = cute.compile",
            "import torch\ntorch.backends.cuda.matmul.allow_tf32 = False",
            "import os\nos.environ['X'] = '1'",
            "import threading\nlock = threading.Lock()",
            "import torch\nclass A:\n    pass\nA.cache = {}\na = A()\na.x = torch.empty(1)",
            "import functools\n@functools.lru_cache\ndef f(n):\n    return n",
            "import torch\ngraph = {}\ngraph['a'] = torch.ops.aten.add",
        ] {
            assert_eq!(rules(honest), [], "{honest}");
        }
    }

    #[test]
    fn compilers_are_found_through_aliases_strings_and_assignments() {
        assert_eq!(
            rules("import torch as t\nf = t.compile"),
            [(Rule::OtherCompiler, 2)]
        );
        assert_eq!(
            rules("from torch import compile as c"),
            [(Rule::OtherCompiler, 1)]
        );
        assert_eq!(
            rules("import torch\nu = torch\nu.jit.script(1)"),
            [(Rule::OtherCompiler, 3)]
        );
        assert_eq!(
            rules("import torch\nf = getattr(torch, 'compile')"),
            [(Rule::OtherCompiler, 2)]
        );
        assert_eq!(
            rules("import torch\nn = 'comp' + 'ile'\nf = getattr(torch, n)"),
            [(Rule::HiddenCode, 3)]
        );
        assert_eq!(
            rules("import triton.language as tl"),
            [(Rule::OtherCompiler, 1)]
        );
        assert_eq!(
            rules("from torch.utils import cpp_extension"),
            [(Rule::OtherCompiler, 1)]
        );
        assert_eq!(rules("import subprocess"), [(Rule::OtherCompiler, 1)]);
        assert_eq!(
            rules("import os\nos.system('nvcc')"),
            [(Rule::OtherCompiler, 2)]
        );
        assert_eq!(
            rules("import importlib\nimportlib.import_module('triton')"),
            [(Rule::OtherCompiler, 2)]
        );
    }

    #[test]
    fn another_dsl_than_the_tasks_is_another_kernel_language() {
        assert_eq!(rules("import tvm.tirx"), [(Rule::OtherCompiler, 1)]);
        assert_eq!(rules("import cutlass"), []);
    }

    #[test]
    fn patching_frames_graphs_task_code_and_the_network_are_found() {
        assert_eq!(
            rules("import torch\ntorch.cuda.synchronize = None"),
            [(Rule::Patching, 2)]
        );
        assert_eq!(
            rules("import torch\nsetattr(torch.cuda, 'Event', None)"),
            [(Rule::Patching, 2)]
        );
        assert_eq!(
            rules("import sys\nf = sys._getframe(1)"),
            [(Rule::EvaluatorState, 2)]
        );
        assert_eq!(
            rules("def g(e):\n    return e.__traceback__.tb_frame"),
            [(Rule::EvaluatorState, 2)]
        );
        assert_eq!(
            rules("import torch\ng = torch.cuda.CUDAGraph()"),
            [(Rule::CudaGraph, 2)]
        );
        assert_eq!(rules("from task import reference"), [(Rule::TaskCode, 1)]);
        assert_eq!(rules("import socket"), [(Rule::Network, 1)]);
        assert_eq!(rules("exec('x = 1')"), [(Rule::HiddenCode, 1)]);
        assert_eq!(
            rules("from flashinfer import norm"),
            [(Rule::KernelLibrary, 1)]
        );
        assert_eq!(
            rules("f = open('/proc/self/maps')"),
            [(Rule::EvaluatorState, 1)]
        );
    }

    #[test]
    fn a_name_bound_elsewhere_does_not_cover_a_builtin() {
        for hidden in [
            "def never(exec):\n    pass\nexec('x')",
            "class A:\n    eval = 1\ny = eval('1')",
            "if False:\n    exec = 1\nexec('x')",
            "def f():\n    global exec\n    exec = 1\nexec('x')",
            "y = eval('1')\ndef eval(x):\n    return x",
            "def eval(x):\n    return x\ndel eval\ny = eval('1')",
            "f = lambda exec: 1\nexec('x')",
            "g = [1 for eval in (1, 2)]\neval('x')",
        ] {
            let found = rules(hidden);
            assert!(
                found.iter().any(|(rule, _)| *rule == Rule::HiddenCode),
                "{hidden}: {found:?}"
            );
        }
        for honest in [
            "def compile(x):\n    return x\ny = compile(1)",
            "def f(compile):\n    return compile(1)",
            "def f():\n    compile = 1\n    return lambda: compile",
            "f = lambda compile: compile(1)",
        ] {
            assert_eq!(rules(honest), [], "{honest}");
        }
    }

    #[test]
    fn modules_are_found_through_the_modules_that_hold_them() {
        for (source, rule) in [
            ("import torch\ntorch.sys.modules", Rule::EvaluatorState),
            (
                "import torch\ns = torch.sys\ns.modules",
                Rule::EvaluatorState,
            ),
            ("import torch\ntorch.os.system('x')", Rule::OtherCompiler),
            (
                "import torch\ntorch.utils.data.os.fork()",
                Rule::OtherCompiler,
            ),
            ("import torch\ntorch.__dict__['sys']", Rule::HiddenCode),
            ("from torch import sys\nsys.modules", Rule::EvaluatorState),
        ] {
            let found = rules(source);
            assert!(found.iter().any(|(r, _)| *r == rule), "{source}: {found:?}");
        }
        for honest in [
            "import torch\nx: torch.types.Number = 1",
            "import torch\ntorch.cuda.synchronize()",
            "import torch\ntorch.ops.aten.add",
            "import torch\ntorch.special.gammaln",
        ] {
            assert_eq!(rules(honest), [], "{honest}");
        }
    }

    #[test]
    fn chains_without_brackets_do_not_overflow_the_stack() {
        let long = |start: &str, link: &str, end: &str| {
            let links = (250_000 - start.len() - end.len()) / link.len();
            format!("{start}{}{end}", link.repeat(links))
        };
        for chain in [
            long("x = a", ".b", ""),
            long("x = a", "()", ""),
            long("x = a", "[0]", ""),
            long("x = a", "+a", ""),
            long("x = a", "**a", ""),
            long("x = ", "not ", "a"),
            long("x = ", "lambda:", "a"),
            long("x = ", "a if a else ", "a"),
            long("def f():\n  return ", "await ", "a"),
        ] {
            let shown = &chain[..24];
            // Refused or read; nothing else may happen.
            match check(format!("{chain}\ndef solve():\n    pass\n").as_bytes(), &[]) {
                Ok(found) => assert_eq!(found, [], "{shown}"),
                Err(error) => assert!(!error.to_string().is_empty(), "{shown}"),
            }
        }
    }

    #[test]
    fn what_is_no_python_says_where() {
        let error = check(b"def solve(x):\n    return (\n", &[]).unwrap_err();
        assert!(
            matches!(error, SourceError::Syntax { line: 2 | 3, .. }),
            "{error}"
        );
        assert_eq!(check(b"\xff", &[]).unwrap_err(), SourceError::NotUtf8(0));
        assert_eq!(check(b"x = 1\n", &[]).unwrap_err(), SourceError::NoSolve);
        let deep = format!("x = {}1{}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(matches!(
            check(deep.as_bytes(), &[]).unwrap_err(),
            SourceError::TooDeep(_)
        ));
    }

    #[test]
    fn modern_syntax_parses() {
        assert_eq!(
            rules(
                "type X = int\nmatch 1:\n    case 1 if (y := 2):\n        pass\nz = f'{'a' + f\"{1}\"}'"
            ),
            []
        );
    }
}
