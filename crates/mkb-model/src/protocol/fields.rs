//! Fields of JSON from outside, where any of them may be missing or of another type.

use serde_json::Value;

use super::ReadError;

/// A whole number that is not negative, at a path of keys; anything else is unknown.
pub(super) fn count(value: &Value, path: &[&str]) -> Option<u64> {
    at(value, path)?.as_u64()
}

/// A finite amount that is not negative, at a path of keys; anything else is unknown.
pub(super) fn amount(value: &Value, path: &[&str]) -> Option<f64> {
    let amount = at(value, path)?.as_f64()?;
    (amount.is_finite() && amount >= 0.0).then_some(amount)
}

/// A text at a path of keys, unless it is empty.
pub(super) fn text<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(value, path)?.as_str().filter(|text| !text.is_empty())
}

/// A list at a path of keys, empty where there is none.
pub(super) fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// What stands at a path of keys, `null` counting as nothing.
pub(super) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    let found = path.iter().try_fold(value, |value, key| value.get(key))?;
    (!found.is_null()).then_some(found)
}

/// Bytes as a JSON object.
pub(super) fn object(bytes: &[u8]) -> Result<Value, ReadError> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| ReadError::Malformed(format!("the answer is no JSON: {error}")))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(ReadError::Malformed(
            "the answer is JSON, but no object".into(),
        ))
    }
}

/// Appends to an optional text.
pub(super) fn append(text: &mut Option<String>, more: &str) {
    if !more.is_empty() {
        text.get_or_insert_default().push_str(more);
    }
}
