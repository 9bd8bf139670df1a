//! The object graph that `tvm.ir.save_json` writes: nodes by index, with typed access that never panics.

use std::collections::HashMap;

use serde_json::Value;

use crate::dtype::DType;
use crate::error::TranslateError;

/// Index of a node.
pub(crate) type Id = usize;

/// Most nodes that a module may have.
const MAX_NODES: usize = 4_000_000;

/// The parsed graph.
pub(crate) struct Graph {
    nodes: Vec<Node>,
    root: Id,
}

struct Node {
    kind: String,
    data: Value,
}

type Result<T> = std::result::Result<T, TranslateError>;

impl Graph {
    /// Reads the text that `tvm.ir.save_json` gives, as an already parsed JSON value.
    pub(crate) fn new(value: Value) -> Result<Graph> {
        let bad = TranslateError::malformed;
        let Value::Object(mut map) = value else {
            return Err(bad("the graph is not an object"));
        };
        let root = map
            .get("root_index")
            .and_then(Value::as_u64)
            .ok_or_else(|| bad("no root_index"))?;
        let Some(Value::Array(raw)) = map.remove("nodes") else {
            return Err(bad("no nodes"));
        };
        if raw.len() > MAX_NODES {
            return Err(TranslateError::TooLarge(format!("{} nodes", raw.len())));
        }
        let mut nodes = Vec::with_capacity(raw.len());
        for node in raw {
            let Value::Object(mut node) = node else {
                return Err(bad("a node is not an object"));
            };
            let Some(Value::String(kind)) = node.remove("type") else {
                return Err(bad("a node has no type"));
            };
            let data = node.remove("data").unwrap_or(Value::Null);
            nodes.push(Node { kind, data });
        }
        let root = usize::try_from(root).unwrap_or(usize::MAX);
        if root >= nodes.len() {
            return Err(bad("root_index is out of range"));
        }
        Ok(Graph { nodes, root })
    }

    pub(crate) fn root(&self) -> Id {
        self.root
    }

    /// The source files that spans name, each once, and the position of each file's node in the list.
    pub(crate) fn sources(&self) -> (Vec<String>, HashMap<Id, u32>) {
        let (mut names, mut places): (Vec<String>, _) = (Vec::new(), HashMap::new());
        for id in 0..self.nodes.len() {
            if self.kind(id) == "ir.SourceName"
                && let Ok(name) = self.text(id)
            {
                let known = names.iter().position(|other| other == name);
                let place = known.unwrap_or_else(|| {
                    names.push(name.to_owned());
                    names.len() - 1
                });
                places.insert(id, place as u32);
            }
        }
        (names, places)
    }

    /// The node's type, such as `tirx.Add`.
    pub(crate) fn kind(&self, id: Id) -> &str {
        self.nodes.get(id).map_or("None", |node| node.kind.as_str())
    }

    /// Whether the node is the null object.
    pub(crate) fn is_none(&self, id: Id) -> bool {
        self.kind(id) == "None"
    }

    fn data(&self, id: Id) -> &Value {
        self.nodes.get(id).map_or(&Value::Null, |node| &node.data)
    }

    fn wrong(&self, id: Id, what: &str) -> TranslateError {
        TranslateError::malformed(format!("node {id} ({}): {what}", self.kind(id)))
    }

    fn raw(&self, id: Id, field: &str) -> Result<&Value> {
        self.data(id)
            .get(field)
            .ok_or_else(|| self.wrong(id, &format!("no field {field:?}")))
    }

    fn index(&self, id: Id, value: &Value) -> Result<Id> {
        value
            .as_u64()
            .and_then(|index| usize::try_from(index).ok())
            .filter(|&index| index < self.nodes.len())
            .ok_or_else(|| self.wrong(id, "a reference is out of range"))
    }

    /// The node that a field refers to.
    pub(crate) fn get(&self, id: Id, field: &str) -> Result<Id> {
        self.index(id, self.raw(id, field)?)
    }

    /// The node that a field refers to, or `None` where it is null or absent.
    pub(crate) fn maybe(&self, id: Id, field: &str) -> Result<Option<Id>> {
        match self.data(id).get(field) {
            None => Ok(None),
            Some(value) => {
                let target = self.index(id, value)?;
                Ok((!self.is_none(target)).then_some(target))
            }
        }
    }

    /// A plain integer field.
    pub(crate) fn int(&self, id: Id, field: &str) -> Result<i64> {
        let value = self.raw(id, field)?;
        value
            .as_i64()
            .or_else(|| value.as_u64().map(|bits| bits as i64))
            .ok_or_else(|| self.wrong(id, &format!("field {field:?} is not an integer")))
    }

    /// A floating-point field; infinities and NaN stand as strings (see `mkb_tirx.lower`).
    pub(crate) fn float(&self, id: Id, field: &str) -> Result<f64> {
        match self.raw(id, field)? {
            Value::String(text) => match text.as_str() {
                "inf" => Ok(f64::INFINITY),
                "-inf" => Ok(f64::NEG_INFINITY),
                "nan" => Ok(f64::NAN),
                _ => Err(self.wrong(id, "a float's text is not inf, -inf or nan")),
            },
            value => value
                .as_f64()
                .ok_or_else(|| self.wrong(id, &format!("field {field:?} is not a number"))),
        }
    }

    /// The `dtype` field.
    pub(crate) fn dtype(&self, id: Id) -> Result<DType> {
        match self.raw(id, "dtype")? {
            Value::String(name) => DType::parse(name),
            _ => Err(self.wrong(id, "dtype is not a string")),
        }
    }

    /// The elements of an array node.
    pub(crate) fn array(&self, id: Id) -> Result<Vec<Id>> {
        match (self.kind(id), self.data(id)) {
            ("ffi.Array", Value::Array(items)) => {
                items.iter().map(|item| self.index(id, item)).collect()
            }
            _ => Err(self.wrong(id, "not an array")),
        }
    }

    /// The elements of the array that a field refers to.
    pub(crate) fn list(&self, id: Id, field: &str) -> Result<Vec<Id>> {
        self.array(self.get(id, field)?)
    }

    /// The pairs of a map node.
    pub(crate) fn map(&self, id: Id) -> Result<Vec<(Id, Id)>> {
        match (self.kind(id), self.data(id)) {
            ("ffi.Map", Value::Array(items)) if items.len() % 2 == 0 => items
                .chunks(2)
                .map(|pair| Ok((self.index(id, &pair[0])?, self.index(id, &pair[1])?)))
                .collect(),
            _ => Err(self.wrong(id, "not a map")),
        }
    }

    /// Text of a string node, a `StringImm` or an `Op`.
    pub(crate) fn text(&self, id: Id) -> Result<&str> {
        match self.kind(id) {
            "ffi.String" | "ir.Op" | "ir.SourceName" => match self.data(id) {
                Value::String(text) => Ok(text),
                _ => Err(self.wrong(id, "not text")),
            },
            "tirx.StringImm" => self.text(self.get(id, "value")?),
            _ => Err(self.wrong(id, "not text")),
        }
    }

    /// Value of a boxed integer or boolean, or of an `IntImm`.
    pub(crate) fn constant(&self, id: Id) -> Option<i64> {
        match (self.kind(id), self.data(id)) {
            ("int", value) => value.as_i64(),
            ("bool", value) => value.as_bool().map(i64::from),
            ("ir.IntImm", _) => self.int(id, "value").ok(),
            _ => None,
        }
    }

    /// Every reference that the node makes, whatever its kind.
    pub(crate) fn children(&self, id: Id) -> Vec<Id> {
        const PLAIN: [&str; 6] = [
            "value",
            "data_alignment",
            "offset_factor",
            "buffer_type",
            "iter_type",
            "kind",
        ];
        let mut found = Vec::new();
        match self.data(id) {
            Value::Array(items) => {
                found.extend(items.iter().filter_map(|item| self.index(id, item).ok()));
            }
            Value::Object(map) => {
                let leaf = matches!(self.kind(id), "ir.IntImm" | "ir.FloatImm");
                for (field, value) in map {
                    let plain = PLAIN.contains(&field.as_str()) && (leaf || field != "value");
                    if !plain && let Ok(target) = self.index(id, value) {
                        found.push(target);
                    }
                }
            }
            _ => {}
        }
        found
    }
}
