//! Replays the inputs of the fuzz targets `parse` and `query` (`fuzz/corpus`) without a fuzzing engine.

use std::{fs, path::PathBuf};

use isomer_testkit::fuzzed;

fn inputs(target: &str) -> Vec<(PathBuf, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut inputs = Vec::new();
    for entry in entries {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        inputs.push((path, String::from_utf8_lossy(&bytes).into_owned()));
    }
    assert!(
        inputs.len() >= 20,
        "{} holds {} inputs",
        folder.display(),
        inputs.len()
    );
    inputs
}

#[test]
fn texts_are_parsed_and_printed_the_same() {
    for target in ["parse", "query"] {
        for (path, text) in inputs(target) {
            println!("{}", path.display());
            fuzzed::parse_and_print(&text);
        }
    }
}

#[test]
fn texts_are_answered_or_refused() {
    let database = fuzzed::tiny_database();
    let before = fuzzed::size(&database);
    for target in ["query", "parse"] {
        for (path, text) in inputs(target) {
            println!("{}", path.display());
            fuzzed::execute(&database, &text);
        }
    }
    assert_eq!(
        fuzzed::size(&database),
        before,
        "a text left something behind"
    );
}
