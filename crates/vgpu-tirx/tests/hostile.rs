//! A device module that somebody has tampered with gives an error (or another program), never a
//! panic and never an endless translation.

use std::path::Path;
use std::sync::OnceLock;

use proptest::prelude::*;
use serde_json::Value;
use vgpu_tirx::{TranslateError, translate};

fn envelopes() -> &'static [Value] {
    static ALL: OnceLock<Vec<Value>> = OnceLock::new();
    ALL.get_or_init(read_envelopes)
}

fn read_envelopes() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let read = |path: &Path| -> Value {
        let text = std::fs::read_to_string(path).expect("a fixture");
        serde_json::from_str(&text).expect("JSON")
    };
    let mut found = vec![
        read(&folder.join("add.json")),
        read(&folder.join("block_sum.json")),
    ];
    let mut cases: Vec<_> = std::fs::read_dir(folder.join("cases"))
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    cases.sort();
    found.extend(cases.iter().map(|path| read(path)["device"].clone()));
    found
}

/// Where to change a module, and how.
#[derive(Debug, Clone)]
struct Change {
    node: prop::sample::Index,
    field: prop::sample::Index,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    Refer(prop::sample::Index),
    Number(i64),
    Text(String),
    Remove,
    Kind(prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let number = prop_oneof![
        Just(-1),
        Just(0),
        Just(i64::MAX),
        Just(i64::MIN),
        Just(1 << 31),
        any::<i64>()
    ];
    let name = prop_oneof![
        Just("float32x4".to_owned()),
        Just("float8_e4m3fnx2".to_owned()),
        Just("bool".to_owned()),
        Just("handle".to_owned()),
        Just("int8".to_owned()),
        Just("tirx.cuda.cta_reduce".to_owned()),
        Just("tirx.ptx.cp_async".to_owned()),
        ".{0,12}",
    ];
    let what = prop_oneof![
        4 => any::<prop::sample::Index>().prop_map(What::Refer),
        2 => number.prop_map(What::Number),
        2 => name.prop_map(What::Text),
        1 => Just(What::Remove),
        2 => any::<prop::sample::Index>().prop_map(What::Kind),
    ];
    (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        what,
    )
        .prop_map(|(node, field, what)| Change { node, field, what })
}

fn apply(module: &mut Value, change: &Change) {
    let nodes = module["graph"]["nodes"].as_array_mut().expect("nodes");
    let count = nodes.len();
    let other_kind =
        |nodes: &[Value], index: &prop::sample::Index| nodes[index.index(count)]["type"].clone();
    let at = change.node.index(count);
    let value = match &change.what {
        What::Refer(index) => Some(Value::from(index.index(count))),
        What::Number(number) => Some(Value::from(*number)),
        What::Text(text) => Some(Value::from(text.clone())),
        What::Remove => None,
        What::Kind(index) => {
            nodes[at]["type"] = other_kind(nodes, index);
            return;
        }
    };
    match &mut nodes[at]["data"] {
        Value::Object(fields) if !fields.is_empty() => {
            let key = fields.keys().nth(change.field.index(fields.len())).cloned();
            match (key, value) {
                (Some(key), Some(value)) => drop(fields.insert(key, value)),
                (Some(key), None) => drop(fields.remove(&key)),
                _ => {}
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let index = change.field.index(items.len());
            match value {
                Some(value) => items[index] = value,
                None => drop(items.remove(index)),
            }
        }
        data => {
            if let Some(value) = value {
                *data = value;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn changed_modules_give_errors_or_programs(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec(change(), 1..4),
    ) {
        let all = envelopes();
        let mut module = all[which.index(all.len())].clone();
        for change in &changes {
            apply(&mut module, change);
        }
        let bytes = serde_json::to_vec(&module).expect("JSON");
        match translate(&bytes) {
            // What translates may still be refused, but not by a panic.
            Ok(module) => drop(vgpu::ir::verify(&module)),
            Err(error) => prop_assert!(
                !error.to_string().contains("the translator failed"),
                "a panic"
            ),
        }
    }

    #[test]
    fn bytes_that_are_no_module_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(matches!(translate(&bytes), Err(TranslateError::Malformed(_))));
    }
}

#[test]
fn a_cycle_in_the_graph_ends() {
    let mut module = envelopes()[0].clone();
    let nodes = module["graph"]["nodes"].as_array_mut().expect("nodes");
    let add = nodes
        .iter()
        .position(|node| node["type"] == "tirx.Add")
        .expect("an addition");
    nodes[add]["data"]["a"] = Value::from(add);
    let bytes = serde_json::to_vec(&module).expect("JSON");
    assert!(matches!(
        translate(&bytes),
        Err(TranslateError::TooLarge(_))
    ));
}

#[test]
fn sharing_that_doubles_at_every_step_ends() {
    // x0 = x + x, x1 = x0 + x0, ...: 200 nodes that stand for 2^200.
    let mut module = envelopes()[0].clone();
    let nodes = module["graph"]["nodes"].as_array_mut().expect("nodes");
    let add = nodes
        .iter()
        .position(|node| node["type"] == "tirx.Add" && node["data"]["dtype"] == "int32")
        .expect("an addition");
    let mut last = nodes[add]["data"]["b"].clone();
    for _ in 0..200 {
        let mut node = nodes[add].clone();
        node["data"]["a"] = last.clone();
        node["data"]["b"] = last;
        last = Value::from(nodes.len());
        nodes.push(node);
    }
    nodes[add]["data"]["b"] = last;
    let bytes = serde_json::to_vec(&module).expect("JSON");
    assert!(matches!(
        translate(&bytes),
        Err(TranslateError::TooLarge(_))
    ));
}

#[test]
fn source_text_of_one_s_own_is_named_with_its_digest() {
    let mut module = envelopes()[1].clone();
    let nodes = module["graph"]["nodes"].as_array_mut().expect("nodes");
    let sync = nodes
        .iter()
        .position(|node| {
            node["data"] == "tirx.cuda.cta_sync" || node["data"] == "tirx.cuda_cta_sync"
        })
        .expect("a barrier");
    let call = nodes
        .iter()
        .position(|node| node["type"] == "tirx.Call" && node["data"]["op"] == sync)
        .expect("its call");
    let base = nodes.len();
    for text in ["trick", "__device__ void trick() {}"] {
        nodes.push(serde_json::json!({"type": "ffi.String", "data": text}));
    }
    for text in [base, base + 1] {
        nodes.push(serde_json::json!({
            "type": "tirx.StringImm", "data": {"span": 0, "dtype": "handle", "value": text}
        }));
    }
    nodes.push(serde_json::json!({"type": "ffi.Array", "data": [base + 2, base + 3]}));
    nodes.push(serde_json::json!({"type": "ir.Op", "data": "tirx.cuda_func_call"}));
    nodes[call]["data"]["args"] = Value::from(base + 4);
    nodes[call]["data"]["op"] = Value::from(base + 5);
    let bytes = serde_json::to_vec(&module).expect("JSON");
    match translate(&bytes) {
        Err(TranslateError::InlineSource { name, digest }) => {
            assert_eq!(name, "trick");
            // sha256sum of the text.
            assert_eq!(
                digest,
                "267dd85cdce352a93a9ad849050ec767b41f19c944e8caa718dc9a5e53383421"
            );
        }
        other => panic!("{other:?}"),
    }
}
