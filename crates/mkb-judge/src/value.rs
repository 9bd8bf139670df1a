//! What crosses a worker's control socket: nested values with tensors by address, and their comparison.

use serde::{Deserialize, Serialize};

use crate::contract::{self, TensorView};
use crate::dtype::Dtype;

/// A Python value as a worker describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "lowercase")]
pub enum Value {
    /// A tensor in the worker's arena.
    Tensor(Tensor),
    /// `int`.
    Int {
        /// Python integers have no bound; the text form is JSON's number.
        v: serde_json::Number,
    },
    /// `float`, as `float.hex()` writes it.
    Float {
        /// The text.
        v: String,
    },
    /// `bool`.
    Bool {
        /// The value.
        v: bool,
    },
    /// `str`.
    Str {
        /// The value.
        v: String,
    },
    /// `None`.
    None,
    /// `list`.
    List {
        /// Its items.
        items: Vec<Value>,
    },
    /// `tuple`.
    Tuple {
        /// Its items.
        items: Vec<Value>,
    },
    /// `dict` in insertion order.
    Dict {
        /// Keys and values.
        items: Vec<(Value, Value)>,
    },
    /// Anything else, by its type's qualified name.
    Other {
        /// The type's name.
        #[serde(rename = "type")]
        type_name: String,
    },
}

/// A tensor in a worker's arena.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tensor {
    /// torch's name of the element type.
    pub dtype: String,
    /// Extents.
    pub shape: Vec<usize>,
    /// Distances between neighbours along each axis, in elements.
    pub stride: Vec<usize>,
    /// Device address of the first element; absent in a request to place one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<u64>,
    /// The type's qualified name, where it is not exactly `torch.Tensor`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// The device, where it is not the task's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

impl Tensor {
    /// Bytes from the first element to past the last; `None` where that overflows or the type is unknown.
    pub fn span(&self) -> Option<usize> {
        let size = Dtype::from_name(&self.dtype)?.size();
        if self.shape.contains(&0) {
            return Some(0);
        }
        let mut last = 0usize;
        for (&extent, &stride) in self.shape.iter().zip(&self.stride) {
            last = last.checked_add((extent - 1).checked_mul(stride)?)?;
        }
        last.checked_add(1)?.checked_mul(size)
    }
}

/// Where a worker's tensors lie, to read them.
pub trait Memory {
    /// `len` bytes at a device address; `None` where they are not all inside.
    fn bytes(&self, address: u64, len: usize) -> Option<&[u8]>;
}

/// The first difference between an output and what was expected: where it is, and what differs.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{path}: {what}")]
pub struct OutputMismatch {
    /// `output`, `output[1]`, `output['key']`...
    pub path: String,
    /// What differs there.
    pub what: String,
}

/// A returned tree with the memory that its tensors lie in.
#[derive(Clone, Copy)]
pub struct Outputs<'a> {
    /// The tree.
    pub value: &'a Value,
    /// The memory.
    pub memory: &'a dyn Memory,
}

/// Compares a returned tree with the reference's and its anchor's, depth first.
pub fn compare(actual: Outputs, reference: Outputs, anchor: Outputs) -> Result<(), OutputMismatch> {
    Comparison {
        actual: actual.memory,
        reference: reference.memory,
        anchor: anchor.memory,
    }
    .values("output", actual.value, reference.value, anchor.value)
}

struct Comparison<'a> {
    actual: &'a dyn Memory,
    reference: &'a dyn Memory,
    anchor: &'a dyn Memory,
}

impl Comparison<'_> {
    fn values(
        &self,
        path: &str,
        actual: &Value,
        reference: &Value,
        anchor: &Value,
    ) -> Result<(), OutputMismatch> {
        let fail = |what: String| {
            Err(OutputMismatch {
                path: path.to_owned(),
                what,
            })
        };
        match (actual, reference, anchor) {
            (Value::Tensor(a), Value::Tensor(r), Value::Tensor(x)) => {
                self.tensors(a, r, x).or_else(fail)
            }
            (Value::List { items: a }, Value::List { items: r }, Value::List { items: x })
            | (Value::Tuple { items: a }, Value::Tuple { items: r }, Value::Tuple { items: x }) => {
                if a.len() != r.len() || x.len() != r.len() {
                    return fail(format!("has {} items, expected {}", a.len(), r.len()));
                }
                for (i, ((a, r), x)) in a.iter().zip(r).zip(x).enumerate() {
                    self.values(&format!("{path}[{i}]"), a, r, x)?;
                }
                Ok(())
            }
            (Value::Dict { items: a }, Value::Dict { items: r }, Value::Dict { items: x }) => {
                if a.len() != r.len() || x.len() != r.len() {
                    return fail(format!("has {} keys, expected {}", a.len(), r.len()));
                }
                for (key, r) in r {
                    let find = |items: &[(Value, Value)]| {
                        items.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone())
                    };
                    let name = key_text(key);
                    let (Some(a), Some(x)) = (find(a), find(x)) else {
                        return fail(format!("has no key {name}"));
                    };
                    self.values(&format!("{path}[{name}]"), &a, r, &x)?;
                }
                Ok(())
            }
            // A scalar has no anchor: equality with the reference, NaN never.
            (Value::Float { v: a }, Value::Float { v: r }, _) if a == r && a != "nan" => Ok(()),
            (Value::Int { v: a }, Value::Int { v: r }, _) if a == r => Ok(()),
            (Value::Bool { v: a }, Value::Bool { v: r }, _) if a == r => Ok(()),
            (Value::Str { v: a }, Value::Str { v: r }, _) if a == r => Ok(()),
            (Value::None, Value::None, _) => Ok(()),
            _ => fail(format!(
                "is {}, expected {}",
                describe(actual),
                describe(reference)
            )),
        }
    }

    fn tensors(&self, actual: &Tensor, reference: &Tensor, anchor: &Tensor) -> Result<(), String> {
        if let Some(type_name) = &actual.type_name {
            return Err(format!("is a {type_name}, expected torch.Tensor"));
        }
        if let Some(device) = &actual.device {
            return Err(format!("is on {device}, expected the task's device"));
        }
        let actual = view(actual, self.actual)?;
        let reference = view(reference, self.reference).map_err(|e| format!("reference: {e}"))?;
        let anchor = view(anchor, self.anchor).map_err(|e| format!("anchor: {e}"))?;
        contract::compare(&actual, &reference, &anchor).map_err(|e| e.to_string())
    }
}

/// The bytes and layout of a tensor, checked.
pub fn view<'m>(tensor: &Tensor, memory: &'m dyn Memory) -> Result<TensorView<'m>, String> {
    let dtype = Dtype::from_name(&tensor.dtype)
        .ok_or_else(|| format!("has dtype {}, which no output may have", tensor.dtype))?;
    let span = tensor.span().ok_or("has extents that overflow")?;
    let bytes = match (span, tensor.address) {
        (0, _) => &[],
        (_, Some(address)) => memory
            .bytes(address, span)
            .ok_or_else(|| format!("lies outside device memory at {address:#x}"))?,
        (_, None) => return Err("has no address".to_owned()),
    };
    let view = TensorView {
        dtype,
        shape: tensor.shape.clone(),
        strides: tensor.stride.clone(),
        bytes,
    };
    view.check().map_err(|e| e.to_string())?;
    Ok(view)
}

fn key_text(key: &Value) -> String {
    match key {
        Value::Str { v } => format!("'{v}'"),
        Value::Int { v } => v.to_string(),
        other => describe(other),
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Tensor(t) => format!("a {} tensor of shape {:?}", t.dtype, t.shape),
        Value::Int { v } => format!("the int {v}"),
        Value::Float { v } => format!("the float {v}"),
        Value::Bool { v } => format!("the bool {v}"),
        Value::Str { .. } => "a str".to_owned(),
        Value::None => "None".to_owned(),
        Value::List { items } => format!("a list of {}", items.len()),
        Value::Tuple { items } => format!("a tuple of {}", items.len()),
        Value::Dict { items } => format!("a dict of {}", items.len()),
        Value::Other { type_name } => format!("a {type_name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes(Vec<u8>);

    impl Memory for Bytes {
        fn bytes(&self, address: u64, len: usize) -> Option<&[u8]> {
            let start = usize::try_from(address).ok()?;
            self.0.get(start..start.checked_add(len)?)
        }
    }

    fn parse(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    fn check(actual: &str, reference: &str) -> Result<(), OutputMismatch> {
        let memory = Bytes((0..64).collect());
        let (a, r) = (parse(actual), parse(reference));
        let outputs = |value| Outputs {
            value,
            memory: &memory,
        };
        compare(outputs(&a), outputs(&r), outputs(&r))
    }

    const INTS: &str = r#"{"t":"tensor","dtype":"uint8","shape":[2,3],"stride":[3,1],"address":0}"#;

    #[test]
    fn a_tuple_is_no_list_and_lengths_count() {
        let tuple = format!(r#"{{"t":"tuple","items":[{INTS},{INTS}]}}"#);
        let list = format!(r#"{{"t":"list","items":[{INTS},{INTS}]}}"#);
        assert_eq!(check(&tuple, &tuple), Ok(()));
        assert_eq!(
            check(&list, &tuple).unwrap_err().to_string(),
            "output: is a list of 2, expected a tuple of 2"
        );
        let short = format!(r#"{{"t":"tuple","items":[{INTS}]}}"#);
        assert!(check(&short, &tuple).is_err());
        assert!(check(INTS, &tuple).is_err());
    }

    #[test]
    fn a_difference_names_its_path() {
        let moved = INTS.replace("\"address\":0", "\"address\":1");
        let actual = format!(
            r#"{{"t":"dict","items":[[{{"t":"str","v":"a"}},{{"t":"tuple","items":[{moved}]}}]]}}"#
        );
        let expected = format!(
            r#"{{"t":"dict","items":[[{{"t":"str","v":"a"}},{{"t":"tuple","items":[{INTS}]}}]]}}"#
        );
        let error = check(&actual, &expected).unwrap_err();
        assert_eq!(error.path, "output['a'][0]");
    }

    #[test]
    fn subclasses_other_devices_and_addresses_outside_are_refused() {
        for (from, to) in [
            ("\"uint8\"", "\"uint8\",\"type\":\"torch.nn.Parameter\""),
            ("\"uint8\"", "\"uint8\",\"device\":\"cpu\""),
            ("\"address\":0", "\"address\":60"),
            ("\"address\":0", "\"address\":18446744073709551615"),
            ("[2,3]", "[2,9223372036854775807]"),
        ] {
            assert!(check(&INTS.replace(from, to), INTS).is_err(), "{to}");
        }
    }

    #[test]
    fn scalars_are_equal_in_type_and_value() {
        let int = r#"{"t":"int","v":123456789012345678901234567890}"#;
        assert!(check(int, r#"{"t":"int","v":1}"#).is_err());
        assert!(check(r#"{"t":"bool","v":true}"#, r#"{"t":"int","v":1}"#).is_err());
        assert!(check(r#"{"t":"float","v":"nan"}"#, r#"{"t":"float","v":"nan"}"#).is_err());
        assert_eq!(check(r#"{"t":"none"}"#, r#"{"t":"none"}"#), Ok(()));
    }
}
