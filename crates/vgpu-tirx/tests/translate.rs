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
