//! Kernels from text, run on small memories.

use vgpu::{GlobalMemory, Gpu, LaunchConfig, LaunchError, LaunchReport, Options, Program};

/// A device with a few allocations.
pub struct Bench {
    pub gpu: Gpu,
    pub memory: GlobalMemory,
    pub options: Options,
}

#[allow(dead_code)] // Not every test file uses all of it.
impl Bench {
    pub fn new() -> Self {
        Self {
            gpu: Gpu::default(),
            memory: GlobalMemory::new(1 << 24).expect("16 MiB are there"),
            options: Options::default(),
        }
    }

    /// An allocation that holds `values`.
    pub fn place<T: Copy>(&mut self, values: &[T]) -> u64 {
        let address = self
            .memory
            .allocate(size_of_val(values) as u64)
            .expect("it fits");
        // SAFETY: numbers are read as bytes.
        let bytes = unsafe {
            std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values))
        };
        self.memory.write(address, bytes);
        address
    }

    /// `count` values from an address.
    pub fn read<T: Copy>(&self, address: u64, count: usize) -> Vec<T> {
        let bytes = self.memory.read(address, (count * size_of::<T>()) as u64);
        let chunks = bytes.chunks_exact(size_of::<T>());
        // SAFETY: each chunk has the size of a number.
        chunks
            .map(|chunk| unsafe { chunk.as_ptr().cast::<T>().read_unaligned() })
            .collect()
    }

    /// Runs the only kernel of a module.
    pub fn run(
        &mut self,
        text: &str,
        config: LaunchConfig,
        params: &[u8],
    ) -> Result<LaunchReport, LaunchError> {
        let module = vgpu::ir::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let program = Program::compile(&module).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let name = module.kernels[0].name.clone();
        let Self {
            gpu,
            memory,
            options,
        } = self;
        gpu.launch(&program, &name, config, params, memory, options)
    }
}

/// Parameters' bytes from 64-bit values.
#[allow(dead_code)]
pub fn params(values: &[u64]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}
