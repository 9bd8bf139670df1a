//! Entries to a segment's bytes, for tests and tools: the recorder is C++.

use super::{Dtype, Entry, Launch, Tensor, Value};

/// The bytes of `entries`, as a segment; [`super::parse`] gives them back.
pub fn write(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for entry in entries {
        let mut body = Writer::default();
        let kind = body.entry(entry);
        out.push(kind);
        let mut length = Writer::default();
        length.varint(body.0.len() as u64);
        out.extend(length.0);
        out.extend(body.0);
    }
    out
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn entry(&mut self, entry: &Entry) -> u8 {
        match entry {
            Entry::Alloc { allocation, bytes } => {
                self.varint(*allocation);
                self.varint(*bytes);
                1
            }
            Entry::Free { allocation } => {
                self.varint(*allocation);
                2
            }
            Entry::Op(op) => {
                self.bytes(op.name.as_bytes());
                self.0.push(op.random.is_some().into());
                if let Some((seed, offset)) = op.random {
                    self.0.extend(seed.to_le_bytes());
                    self.0.extend(offset.to_le_bytes());
                }
                self.values(&op.arguments);
                self.values(&op.results);
                3
            }
            Entry::Read(value) => {
                self.value(value);
                4
            }
            Entry::Sync => 5,
            Entry::Module {
                module,
                format,
                source,
            } => {
                self.varint(*module);
                self.0.push(*format);
                self.bytes(source);
                6
            }
            Entry::Launch(launch) => {
                self.launch(launch);
                7
            }
            Entry::Begin(value) => {
                self.value(value);
                8
            }
            Entry::End(value) => {
                self.value(value);
                9
            }
        }
    }

    fn launch(&mut self, launch: &Launch) {
        self.varint(launch.module);
        self.bytes(launch.kernel.as_bytes());
        self.bytes(launch.dsl.as_bytes());
        for word in [launch.grid, launch.block, launch.cluster].concat() {
            self.varint(word.into());
        }
        self.varint(launch.dynamic_shared_bytes.into());
        self.varint(launch.arguments.len() as u64);
        for argument in &launch.arguments {
            self.bytes(argument.bytes);
            self.varint(argument.pointers.len() as u64);
            for pointer in &argument.pointers {
                self.varint(pointer.position.into());
                self.varint(pointer.allocation);
                self.varint(pointer.offset);
            }
        }
    }

    fn values(&mut self, values: &[Value]) {
        self.varint(values.len() as u64);
        for value in values {
            self.value(value);
        }
    }

    fn shape(&mut self, dtype: Dtype, sizes: &[u64]) {
        self.0.push(dtype.0);
        self.varint(sizes.len() as u64);
        for &size in sizes {
            self.varint(size);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::None => self.0.push(0),
            Value::Tensor(tensor) => {
                self.0.push(1);
                self.tensor(tensor);
            }
            Value::HostTensor(host) => {
                self.0.extend([2, u8::from(host.wrapped_number) * 16]);
                self.shape(host.dtype, &host.sizes);
                self.bytes(host.data);
            }
            Value::Undefined => self.0.push(3),
            Value::Int(v) => {
                self.0.push(4);
                self.varint(((v << 1) ^ (v >> 63)) as u64);
            }
            Value::Float(v) => {
                self.0.push(5);
                self.0.extend(v.to_le_bytes());
            }
            Value::Bool(v) => self.0.extend([6, u8::from(*v)]),
            Value::Text(text) => {
                self.0.push(7);
                self.bytes(text.as_bytes());
            }
            Value::Complex(real, imaginary) => {
                self.0.push(8);
                self.0.extend(real.to_le_bytes());
                self.0.extend(imaginary.to_le_bytes());
            }
            Value::List(items) => {
                self.0.push(9);
                self.values(items);
            }
            Value::Device(name) => {
                self.0.push(10);
                self.bytes(name.as_bytes());
            }
            Value::Generator => self.0.push(11),
            Value::Same(argument) => {
                self.0.push(12);
                self.varint(*argument);
            }
            Value::Dict(pairs) => {
                self.0.push(13);
                self.varint(pairs.len() as u64);
                for (key, item) in pairs {
                    self.value(key);
                    self.value(item);
                }
            }
            Value::Tuple(items) => {
                self.0.push(14);
                self.values(items);
            }
            Value::Other(name) => {
                self.0.push(15);
                self.bytes(name.as_bytes());
            }
            Value::HostResult { dtype, sizes } => {
                self.0.push(16);
                self.shape(*dtype, sizes);
            }
        }
    }

    fn tensor(&mut self, tensor: &Tensor) {
        let flags = u8::from(tensor.written)
            | u8::from(tensor.conjugate) << 1
            | u8::from(tensor.negative) << 2
            | u8::from(tensor.born.is_some()) << 3
            | u8::from(tensor.wrapped_number) << 4;
        self.0.push(flags);
        self.shape(tensor.dtype, &tensor.sizes);
        for &stride in &tensor.strides {
            self.varint(stride);
        }
        self.varint(tensor.allocation);
        self.varint(tensor.offset);
        if let Some(bytes) = tensor.born {
            self.varint(bytes);
        }
    }
}
