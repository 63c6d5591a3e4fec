//! The oracle is worth something as long as it shares no code with what it judges.

use std::{fs, path::Path};

/// Every dependency, of tests too: the product's syntax tree, and nothing else.
#[test]
fn the_manifest_names_the_parser_alone() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    let manifest = manifest.expect("the manifest");
    let mut dependencies = Vec::new();
    let mut is_inside = false;
    for line in manifest.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(section) = line.strip_prefix('[') {
            is_inside = section.contains("dependencies");
            assert!(
                !section.starts_with("dependencies."),
                "one line a dependency"
            );
        } else if is_inside {
            dependencies.push(line);
        }
    }
    assert_eq!(dependencies, ["isomer-cypher.workspace = true"]);
}

/// Outside of tests, only the types of the tree are used: not the printer, the normaliser or the literals' values.
#[test]
fn only_the_tree_is_used() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut uses = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let is_test = path.ends_with("tests.rs") || path.ends_with("independence.rs");
            let text = fs::read_to_string(&path).expect("a source file");
            for (at, _) in text.match_indices("isomer_").filter(|_| !is_test) {
                let used = &text[at..];
                assert!(
                    used.starts_with("isomer_cypher::ast::"),
                    "{}: {}",
                    path.display(),
                    used.lines().next().unwrap_or_default()
                );
                uses += 1;
            }
        }
    }
    assert!(uses > 5, "{uses} uses of the tree");
}
