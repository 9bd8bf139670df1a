//! The repository's own problems form a catalog.

use std::path::Path;

use mkb_catalog::{Catalog, DslSet};

#[test]
fn the_repositorys_problems_are_well_formed_and_have_a_reduced_workload() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
    let catalog = Catalog::discover(&root, DslSet::builtin()).expect("a catalog");
    assert!(catalog.problems().len() >= 6);
    for problem in catalog.problems() {
        assert!(problem.has_reduced, "{}", problem.name);
    }
    let append = catalog.get("21").expect("the cache append");
    assert_eq!(append.family.as_str(), "kv_cache");
    assert_eq!(append.mutable_inputs.len(), 4, "its four caches");
}
