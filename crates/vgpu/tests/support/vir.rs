//! A file test: a module in the text form, and in `#!` lines how to launch it and what must come of it.
//!
//! ```text
//! #! launch 2 blocks 64 threads 1024 shared   shape; also `8x4 threads`, `3x2 blocks`, `budget N`
//! #! in NAME TYPE: VALUES                     a buffer with values; its address is the next parameter
//! #! out NAME TYPE COUNT                      a buffer of zeros, likewise
//! #! arg TYPE VALUE                           a parameter by value
//! #! expect NAME: VALUES                      the buffer's values afterwards, bit for bit; `?` is any
//! #! expect NAME within RELATIVE: VALUES      near enough (floats)
//! #! printed "TEXT"                           what it printed
//! #! fault "PART", #! incomplete "PART"       it ends so, with a message that has the part
//! ```
//! Values: integers, `0x` bits, floats, `inf`, `nan` (the canonical one), `V*N` (N times), `A..B`.

use vgpu::ir::{self, Type};
use vgpu::{GlobalMemory, Gpu, LaunchConfig, LaunchError, Options, Program};

/// A buffer of a test.
struct Buffer {
    name: String,
    ty: Type,
    values: Vec<u64>,
}

/// What must come of a launch.
enum Expected {
    Memory {
        buffer: usize,
        values: Vec<Option<u64>>,
        within: Option<f64>,
    },
    Printed(String),
    Fault(String),
    Incomplete(String),
}

struct Test {
    config: LaunchConfig,
    budget: u64,
    buffers: Vec<Buffer>,
    /// Parameters in order: a buffer's address, or bytes.
    args: Vec<Result<usize, Vec<u8>>>,
    expected: Vec<Expected>,
}

/// Runs a file's test with several seeds and numbers of host threads.
///
/// # Errors
/// What was expected and what came instead, or what is wrong with the file.
pub fn run(text: &str) -> Result<(), String> {
    let test = read(text)?;
    let module = ir::parse(text).map_err(|error| error.to_string())?;
    let again = ir::parse(&ir::print(&module)).map_err(|error| format!("as printed: {error}"))?;
    if module != again {
        return Err("the text printed and read again is another module".into());
    }
    let program = Program::compile(&module).map_err(|error| error.to_string())?;
    for (threads, seed) in [(1, 0), (3, 1), (2, 0x1234_5678_9abc)] {
        let options = Options {
            threads,
            seed,
            step_budget: test.budget,
            ..Options::default()
        };
        launch(&test, &program, &module.kernels[0].name, &options)
            .map_err(|error| format!("with {threads} host threads and seed {seed}: {error}"))?;
    }
    Ok(())
}

fn launch(test: &Test, program: &Program, kernel: &str, options: &Options) -> Result<(), String> {
    let mut memory = GlobalMemory::new(1 << 16).map_err(|error| error.to_string())?;
    let mut addresses = Vec::new();
    for buffer in &test.buffers {
        let bytes = encode(buffer);
        let address = memory
            .allocate(bytes.len() as u64)
            .map_err(|error| error.to_string())?;
        memory.write(address, &bytes);
        addresses.push(address);
    }
    let mut params = Vec::new();
    for arg in &test.args {
        let bytes = match arg {
            Ok(buffer) => addresses[*buffer].to_le_bytes().to_vec(),
            Err(bytes) => bytes.clone(),
        };
        params.resize(params.len().next_multiple_of(bytes.len()), 0);
        params.extend(bytes);
    }
    let result = Gpu::default().launch(program, kernel, test.config, &params, &mut memory, options);
    let mut fails = test
        .expected
        .iter()
        .any(|expected| matches!(expected, Expected::Fault(_) | Expected::Incomplete(_)));
    for expected in &test.expected {
        match (expected, &result) {
            (
                Expected::Memory {
                    buffer,
                    values,
                    within,
                },
                Ok(_),
            ) => {
                let buffer = &test.buffers[*buffer];
                let address = addresses[test
                    .buffers
                    .iter()
                    .position(|b| b.name == buffer.name)
                    .unwrap_or(0)];
                let size = buffer.ty.memory_bytes().unwrap_or(1) as usize;
                let bytes = memory.read(address, (values.len() * size) as u64);
                compare(buffer, values, *within, &bytes)?;
            }
            (Expected::Printed(text), Ok(report)) if report.printed != *text => {
                return Err(format!("printed {:?}, expected {text:?}", report.printed));
            }
            (Expected::Printed(_), Ok(_)) => {}
            (Expected::Fault(part), Err(LaunchError::Fault(fault))) => {
                fails = false;
                contains(&fault.to_string(), part)?;
            }
            (Expected::Incomplete(part), Err(LaunchError::Incomplete(incomplete))) => {
                fails = false;
                contains(&incomplete.to_string(), part)?;
            }
            (_, Err(error)) => return Err(error.to_string()),
            (Expected::Fault(part) | Expected::Incomplete(part), Ok(_)) => {
                return Err(format!("ended well, expected {part:?}"));
            }
        }
    }
    if fails {
        Err("did not fail as expected".into())
    } else {
        Ok(())
    }
}

fn contains(message: &str, part: &str) -> Result<(), String> {
    if message.contains(part) {
        Ok(())
    } else {
        Err(format!("{part:?} is not in {message:?}"))
    }
}

fn compare(
    buffer: &Buffer,
    values: &[Option<u64>],
    within: Option<f64>,
    bytes: &[u8],
) -> Result<(), String> {
    let size = buffer.ty.memory_bytes().unwrap_or(1) as usize;
    for (index, expected) in values.iter().enumerate() {
        let mut word = [0; 8];
        word[..size].copy_from_slice(&bytes[index * size..(index + 1) * size]);
        let got = u64::from_le_bytes(word);
        let Some(expected) = *expected else { continue };
        let near = within.is_some_and(|within| {
            let (got, expected) = (float(got, buffer.ty), float(expected, buffer.ty));
            (got - expected).abs() <= within * expected.abs().max(1e-30)
        });
        if got != expected && !near {
            return Err(format!(
                "{}[{index}] is 0x{got:x} ({}), expected 0x{expected:x} ({})",
                buffer.name,
                show(got, buffer.ty),
                show(expected, buffer.ty)
            ));
        }
    }
    Ok(())
}

fn float(bits: u64, ty: Type) -> f64 {
    match ty {
        Type::F16 => half::f16::from_bits(bits as u16).to_f64(),
        Type::BF16 => half::bf16::from_bits(bits as u16).to_f64(),
        Type::F32 => f64::from(f32::from_bits(bits as u32)),
        Type::F64 => f64::from_bits(bits),
        _ => bits as f64,
    }
}

fn show(bits: u64, ty: Type) -> String {
    if ty.is_float_scalar() {
        return float(bits, ty).to_string();
    }
    match ty {
        Type::S32 => (bits as u32 as i32).to_string(),
        Type::S64 => (bits as i64).to_string(),
        _ => bits.to_string(),
    }
}

fn encode(buffer: &Buffer) -> Vec<u8> {
    let size = buffer.ty.memory_bytes().unwrap_or(1) as usize;
    buffer
        .values
        .iter()
        .flat_map(|value| value.to_le_bytes()[..size].to_vec())
        .collect()
}

// ---- reading ----

fn read(text: &str) -> Result<Test, String> {
    let mut test = Test {
        config: LaunchConfig::linear(1, 32),
        budget: 1 << 20,
        buffers: Vec::new(),
        args: Vec::new(),
        expected: Vec::new(),
    };
    for line in text.lines() {
        if let Some(line) = line.trim().strip_prefix("#!") {
            directive(&mut test, line.trim())
                .map_err(|error| format!("`#! {}`: {error}", line.trim()))?;
        }
    }
    if test.expected.is_empty() {
        return Err("the file expects nothing".into());
    }
    Ok(test)
}

fn directive(test: &mut Test, line: &str) -> Result<(), String> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim();
    match word {
        "launch" => {
            let words: Vec<&str> = rest.split_whitespace().collect();
            for pair in words.chunks(2) {
                let &[value, what] = pair else {
                    return Err("a number and what it counts".into());
                };
                let mut shape = [1; 3];
                for (place, number) in shape.iter_mut().zip(value.split('x')) {
                    *place = number
                        .parse()
                        .map_err(|_| format!("{number} is no number"))?;
                }
                match what {
                    "blocks" => test.config.grid = shape,
                    "threads" => test.config.block = shape,
                    "shared" => test.config.dynamic_shared = shape[0],
                    "budget" => test.budget = u64::from(shape[0]),
                    _ => return Err(format!("unknown {what}")),
                }
            }
        }
        "in" => {
            let (head, values) = rest.split_once(':').ok_or("values stand after a colon")?;
            let (name, ty) = head.trim().split_once(' ').ok_or("a name and a type")?;
            let ty = type_of(ty)?;
            let values = values_of(values, ty)?
                .into_iter()
                .map(|value| value.ok_or("an input is a value"));
            let values = values.collect::<Result<Vec<u64>, _>>()?;
            add_buffer(test, name, ty, values);
        }
        "out" => {
            let words: Vec<&str> = rest.split_whitespace().collect();
            let &[name, ty, count] = words.as_slice() else {
                return Err("a name, a type and a count".into());
            };
            let count: usize = count.parse().map_err(|_| "the count is no number")?;
            add_buffer(test, name, type_of(ty)?, vec![0; count]);
        }
        "arg" => {
            let (ty, value) = rest.split_once(' ').ok_or("a type and a value")?;
            let ty = type_of(ty)?;
            let value = values_of(value, ty)?
                .first()
                .copied()
                .flatten()
                .ok_or("a value")?;
            let size = ty.memory_bytes().ok_or("a type in memory")? as usize;
            test.args.push(Err(value.to_le_bytes()[..size].to_vec()));
        }
        "expect" => {
            let (head, values) = rest.split_once(':').ok_or("values stand after a colon")?;
            let mut words = head.split_whitespace();
            let name = words.next().ok_or("a buffer's name")?;
            let buffer = test
                .buffers
                .iter()
                .position(|buffer| buffer.name == name)
                .ok_or_else(|| format!("there is no buffer {name}"))?;
            let within = match (words.next(), words.next()) {
                (None, _) => None,
                (Some("within"), Some(bound)) => {
                    Some(bound.parse().map_err(|_| "the bound is no number")?)
                }
                _ => return Err("`within` and a bound".into()),
            };
            let values = values_of(values, test.buffers[buffer].ty)?;
            if values.len() > test.buffers[buffer].values.len() {
                return Err("more values than the buffer has".into());
            }
            test.expected.push(Expected::Memory {
                buffer,
                values,
                within,
            });
        }
        "printed" => test.expected.push(Expected::Printed(quoted(rest)?)),
        "fault" => test.expected.push(Expected::Fault(quoted(rest)?)),
        "incomplete" => test.expected.push(Expected::Incomplete(quoted(rest)?)),
        _ => return Err("unknown directive".into()),
    }
    Ok(())
}

fn add_buffer(test: &mut Test, name: &str, ty: Type, values: Vec<u64>) {
    test.args.push(Ok(test.buffers.len()));
    test.buffers.push(Buffer {
        name: name.to_owned(),
        ty,
        values,
    });
}

fn quoted(text: &str) -> Result<String, String> {
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    Ok(inner.ok_or("a text in double quotes")?.replace("\\n", "\n"))
}

fn type_of(name: &str) -> Result<Type, String> {
    Type::ALL
        .into_iter()
        .find(|ty| ty.name() == name.trim() && ty.memory_bytes().is_some())
        .ok_or_else(|| format!("{name} is no type in memory"))
}

fn values_of(text: &str, ty: Type) -> Result<Vec<Option<u64>>, String> {
    let mut values = Vec::new();
    for word in text.split_whitespace() {
        let (word, count) = match word.split_once('*') {
            Some((word, count)) => (
                word,
                count.parse().map_err(|_| format!("{count} is no number"))?,
            ),
            None => (word, 1usize),
        };
        if let Some((first, last)) = word.split_once("..") {
            let bound = |text: &str| {
                text.parse::<i64>()
                    .map_err(|_| format!("{text} is no number"))
            };
            for value in bound(first)?..bound(last)? {
                values.push(Some(value_of(&value.to_string(), ty)?));
            }
            continue;
        }
        let value = if word == "?" {
            None
        } else {
            Some(value_of(word, ty)?)
        };
        values.extend(std::iter::repeat_n(value, count));
    }
    Ok(values)
}

fn value_of(word: &str, ty: Type) -> Result<u64, String> {
    let wrong = || format!("{word} is no value of type {}", ty.name());
    let mask = u64::MAX >> (64 - ty.bits());
    if let Some(digits) = word.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16)
            .ok()
            .filter(|bits| *bits <= mask)
            .ok_or_else(wrong);
    }
    if ty.is_float_scalar() {
        let value: f64 = word.parse().map_err(|_| wrong())?;
        return Ok(match ty {
            Type::F16 | Type::BF16 if value.is_nan() => 0x7fff,
            Type::F32 if value.is_nan() => 0x7fff_ffff,
            Type::F64 if value.is_nan() => 0x7fff_ffff_ffff_ffff,
            Type::F16 => u64::from(half::f16::from_f64(value).to_bits()),
            Type::BF16 => u64::from(half::bf16::from_f64(value).to_bits()),
            Type::F32 => u64::from(word.parse::<f32>().map_err(|_| wrong())?.to_bits()),
            _ => value.to_bits(),
        });
    }
    let value: i128 = word.parse().map_err(|_| wrong())?;
    let fits = value >= -(1 << (ty.bits() - 1)) && value <= i128::from(mask);
    if fits {
        Ok(value as u64 & mask)
    } else {
        Err(wrong())
    }
}
