//! Lowered programs become the IR that one would write by hand, and it passes the verifier.

use std::path::Path;

fn translated(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.json"));
    let bytes = std::fs::read(&path).expect("the fixture is in the repository");
    let module = vgpu_tirx::translate(&bytes).expect("the fixture translates");
    vgpu::ir::verify(&module).expect("the translation is valid IR");
    vgpu::ir::print(&module)
}

#[test]
fn an_elementwise_addition_is_two_loads_an_addition_and_a_store() {
    insta::assert_snapshot!(translated("add"));
}

#[test]
fn a_shared_memory_reduction_keeps_its_barriers_and_its_loop() {
    insta::assert_snapshot!(translated("block_sum"));
}

#[test]
fn an_operator_that_is_not_modelled_is_named_with_its_line() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/block_sum.json");
    let text = std::fs::read_to_string(path).expect("the fixture is in the repository");
    let text = text.replace("tirx.cuda.cta_sync", "tirx.cuda.wonder");
    let text = text.replace("tirx.cuda_cta_sync", "tirx.cuda.wonder");
    let module = vgpu_tirx::translate(text.as_bytes()).expect("it translates");
    let printed = vgpu::ir::print(&module);
    // The barrier stands in line 30 of `programs/first.py`.
    let named = printed.contains(r#"unmodelled "tirx.cuda.wonder, first.py:30""#);
    assert!(named, "{printed}");
}

#[test]
fn a_reinterpretation_keeps_the_number_of_bits() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/cases/registers_may_be_seen_as_another_type.json");
    let text = std::fs::read_to_string(path).expect("the fixture is in the repository");
    let mut case: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let nodes = case["device"]["graph"]["nodes"]
        .as_array_mut()
        .expect("nodes");
    let operator = nodes
        .iter()
        .position(|node| node["type"] == "ir.Op" && node["data"] == "tirx.reinterpret")
        .expect("the program reinterprets");
    let call = nodes
        .iter_mut()
        .find(|node| node["type"] == "tirx.Call" && node["data"]["op"] == operator)
        .expect("a call of it");
    call["data"]["dtype"] = "uint8".into();
    let bytes = serde_json::to_vec(&case["device"]).expect("JSON");
    let error = vgpu_tirx::translate(&bytes).expect_err("the sizes differ");
    let said = error.to_string();
    assert!(said.contains("a reinterpretation of 1 x "), "{said}");
}
