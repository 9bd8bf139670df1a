//! A segment's bytes to its entries; every bound is checked.

use super::{
    Argument, Dtype, Entry, HostTensor, Launch, MAGIC, Op, Pointer, TapeError, Tensor, Value,
};

/// Values nest at most this deep.
const DEEPEST: usize = 64;
/// A tensor has at most this many dimensions.
const MOST_DIMENSIONS: u64 = 64;

/// Reads a segment: bytes that begin and end between entries, without the file's [`MAGIC`].
///
/// Time and memory are linear in the segment, whatever its bytes are.
pub fn parse(segment: &[u8]) -> Result<Vec<Entry<'_>>, TapeError> {
    let mut reader = Reader { bytes: segment };
    let mut entries = Vec::new();
    while !reader.bytes.is_empty() {
        let entry = segment.len() - reader.bytes.len();
        entries.push(reader.entry().map_err(|what| TapeError { entry, what })?);
    }
    Ok(entries)
}

/// What follows a whole file's [`MAGIC`], or what is wrong with its beginning.
pub fn body(file: &[u8]) -> Result<&[u8], TapeError> {
    file.strip_prefix(&MAGIC).ok_or(TapeError {
        entry: 0,
        what: "the file does not begin as a tape of version 1 does",
    })
}

type Read<T> = Result<T, &'static str>;

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, size: u64) -> Read<&'a [u8]> {
        let size = usize::try_from(size)
            .ok()
            .filter(|&size| size <= self.bytes.len())
            .ok_or("it ends too early")?;
        let (taken, rest) = self.bytes.split_at(size);
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        Ok(self
            .take(N as u64)?
            .try_into()
            .expect("take gives what is asked for"))
    }

    fn u8(&mut self) -> Read<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn varint(&mut self) -> Read<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let part = u64::from(byte & 0x7F);
            if shift == 63 && part > 1 {
                break;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number is longer than 64 bits")
    }

    /// A number of things that take at least a byte each.
    fn count(&mut self) -> Read<u64> {
        let count = self.varint()?;
        if count > self.bytes.len() as u64 {
            return Err("a count is larger than the entry");
        }
        Ok(count)
    }

    fn bytes(&mut self) -> Read<&'a [u8]> {
        let size = self.varint()?;
        self.take(size)
    }

    fn text(&mut self) -> Read<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| "a text is not UTF-8")
    }

    fn f64(&mut self) -> Read<f64> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Read<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Read<u32> {
        u32::try_from(self.varint()?).map_err(|_| "a number is longer than 32 bits")
    }

    fn three(&mut self) -> Read<[u32; 3]> {
        Ok([self.u32()?, self.u32()?, self.u32()?])
    }

    fn entry(&mut self) -> Read<Entry<'a>> {
        let kind = self.u8()?;
        let mut body = Reader {
            bytes: self.bytes()?,
        };
        let entry = match kind {
            1 => Entry::Alloc {
                allocation: body.varint()?,
                bytes: body.varint()?,
            },
            2 => Entry::Free {
                allocation: body.varint()?,
            },
            3 => Entry::Op(body.op()?),
            4 => Entry::Read(body.value(0)?),
            5 => Entry::Sync,
            6 => Entry::Module {
                module: body.varint()?,
                format: body.u8()?,
                source: body.bytes()?,
            },
            7 => Entry::Launch(body.launch()?),
            8 => Entry::Begin(body.value(0)?),
            9 => Entry::End(body.value(0)?),
            _ => return Err("it is of no known kind"),
        };
        if !body.bytes.is_empty() {
            return Err("bytes are left over");
        }
        Ok(entry)
    }

    fn op(&mut self) -> Read<Op<'a>> {
        Ok(Op {
            name: self.text()?,
            random: match self.u8()? {
                0 => None,
                1 => Some((self.u64()?, self.u64()?)),
                _ => return Err("a flag is neither 0 nor 1"),
            },
            arguments: self.values(0)?,
            results: self.values(0)?,
        })
    }

    fn launch(&mut self) -> Read<Launch<'a>> {
        Ok(Launch {
            module: self.varint()?,
            kernel: self.text()?,
            dsl: self.text()?,
            grid: self.three()?,
            block: self.three()?,
            cluster: self.three()?,
            dynamic_shared_bytes: self.u32()?,
            arguments: {
                let count = self.count()?;
                (0..count).map(|_| self.argument()).collect::<Read<_>>()?
            },
        })
    }

    fn argument(&mut self) -> Read<Argument<'a>> {
        let bytes = self.bytes()?;
        let count = self.count()?;
        let pointers = (0..count)
            .map(|_| {
                let pointer = Pointer {
                    position: self.u32()?,
                    allocation: self.varint()?,
                    offset: self.varint()?,
                };
                if u64::from(pointer.position) + 8 > bytes.len() as u64 {
                    return Err("a pointer does not fit its argument");
                }
                Ok(pointer)
            })
            .collect::<Read<_>>()?;
        Ok(Argument { bytes, pointers })
    }

    fn values(&mut self, depth: usize) -> Read<Vec<Value<'a>>> {
        let count = self.count()?;
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(self.value(depth)?);
        }
        Ok(values)
    }

    fn value(&mut self, depth: usize) -> Read<Value<'a>> {
        if depth > DEEPEST {
            return Err("values are nested too deep");
        }
        Ok(match self.u8()? {
            0 => Value::None,
            1 => Value::Tensor(self.tensor()?),
            2 => Value::HostTensor(self.host_tensor()?),
            3 => Value::Undefined,
            4 => {
                let raw = self.varint()?;
                Value::Int((raw >> 1) as i64 ^ -((raw & 1) as i64))
            }
            5 => Value::Float(self.f64()?),
            6 => match self.u8()? {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                _ => return Err("a boolean is neither 0 nor 1"),
            },
            7 => Value::Text(self.text()?),
            8 => Value::Complex(self.f64()?, self.f64()?),
            9 => Value::List(self.values(depth + 1)?),
            10 => Value::Device(self.text()?),
            11 => Value::Generator,
            12 => Value::Same(self.varint()?),
            13 => {
                let count = self.count()?;
                let mut pairs = Vec::new();
                for _ in 0..count {
                    pairs.push((self.value(depth + 1)?, self.value(depth + 1)?));
                }
                Value::Dict(pairs)
            }
            14 => Value::Tuple(self.values(depth + 1)?),
            15 => Value::Other(self.text()?),
            16 => {
                let (dtype, sizes) = self.shape()?;
                Value::HostResult { dtype, sizes }
            }
            _ => return Err("a value is of no known kind"),
        })
    }

    fn shape(&mut self) -> Read<(Dtype, Vec<u64>)> {
        let dtype = Dtype::from_code(self.u8()?).ok_or("a tensor is of no known type")?;
        let dimensions = self.varint()?;
        if dimensions > MOST_DIMENSIONS {
            return Err("a tensor has more than 64 dimensions");
        }
        let sizes = (0..dimensions)
            .map(|_| self.varint())
            .collect::<Read<_>>()?;
        Ok((dtype, sizes))
    }

    fn tensor(&mut self) -> Read<Tensor> {
        let flags = self.u8()?;
        let (dtype, sizes) = self.shape()?;
        let strides = (0..sizes.len())
            .map(|_| self.varint())
            .collect::<Read<_>>()?;
        Ok(Tensor {
            dtype,
            sizes,
            strides,
            allocation: self.varint()?,
            offset: self.varint()?,
            written: flags & 1 != 0,
            conjugate: flags & 2 != 0,
            negative: flags & 4 != 0,
            wrapped_number: flags & 16 != 0,
            born: match flags & 8 {
                0 => None,
                _ => Some(self.varint()?),
            },
        })
    }

    fn host_tensor(&mut self) -> Read<HostTensor<'a>> {
        let flags = self.u8()?;
        let (dtype, sizes) = self.shape()?;
        let data = self.bytes()?;
        let wanted = sizes
            .iter()
            .try_fold(dtype.size(), |n, &size| n.checked_mul(size));
        let empty = sizes.contains(&0) && data.is_empty();
        if wanted != Some(data.len() as u64) && !empty {
            return Err("a host tensor's data has another size than its shape");
        }
        Ok(HostTensor {
            dtype,
            sizes,
            wrapped_number: flags & 16 != 0,
            data,
        })
    }
}
