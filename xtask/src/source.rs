//! What Rust files refer to: paths and string literals outside their tests, by syntax tree.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A path that a file names, `a::b::c`, with what `use` trees hold written out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// The path.
    pub path: String,
    /// Where, counted from 1.
    pub line: usize,
}

/// Every path that a file names outside items under `cfg(test)`.
pub fn mentions(text: &str) -> Result<Vec<Mention>> {
    let mut finder = Finder::default();
    finder.visit_file(&syn::parse_file(text)?);
    Ok(finder.found)
}

/// The Rust files below a folder, in order.
pub fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[derive(Default)]
struct Finder {
    found: Vec<Mention>,
}

impl Finder {
    fn add(&mut self, path: String, span: proc_macro2::Span) {
        let line = span.start().line;
        self.found.push(Mention { path, line });
    }

    fn use_tree(&mut self, prefix: &str, tree: &syn::UseTree) {
        let joined = |name: &syn::Ident| match prefix {
            "" => name.to_string(),
            prefix => format!("{prefix}::{name}"),
        };
        match tree {
            syn::UseTree::Path(path) => self.use_tree(&joined(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.add(joined(&name.ident), name.span()),
            syn::UseTree::Rename(name) => self.add(joined(&name.ident), name.span()),
            syn::UseTree::Glob(glob) => self.add(format!("{prefix}::*"), glob.span()),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.use_tree(prefix, tree);
                }
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.use_tree("", &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.add(names.join("::"), path.span());
        visit::visit_path(self, path);
    }
}

/// Whether an item is there in tests alone.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let found = mentions(text).expect("Rust");
        found.into_iter().map(|m| m.path).collect()
    }

    #[test]
    fn a_use_tree_is_written_out() {
        let found = paths("use std::{fs::File, io, net as n}; use std::process::*;");
        assert_eq!(
            found,
            ["std::fs::File", "std::io", "std::net", "std::process::*"]
        );
    }

    #[test]
    fn paths_in_code_are_found_and_those_of_tests_are_not() {
        let text = "fn f() { std::fs::read(\"a\"); }\n#[cfg(test)]\nmod tests { use std::net; }\n";
        let found = mentions(text).expect("Rust");
        assert!(found.contains(&Mention {
            path: "std::fs::read".to_owned(),
            line: 1
        }));
        assert!(found.iter().all(|m| m.path != "std::net"));
    }

    #[test]
    fn words_in_texts_and_comments_are_no_paths() {
        let found = paths("// std::fs\nfn f() -> &'static str { \"std::net\" }");
        assert!(found.iter().all(|p| !p.starts_with("std")), "{found:?}");
    }
}
