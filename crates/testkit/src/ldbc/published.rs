//! The published texts of the queries. They are not part of the project: they are read from `../shared/ldbc`.

use std::path::{Path, PathBuf};

/// The folder of the published queries, next to the checkout (or under `ISOMER_SHARED`); none if it is missing.
pub fn folder() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = match std::env::var_os("ISOMER_SHARED") {
        Some(folder) => root.join(folder),
        None => root.join("../shared"),
    };
    let folder = shared.join("ldbc");
    folder.join("interactive").is_dir().then_some(folder)
}

/// The text of a query, such as `bi-10` or `interactive-short-1`.
pub fn text(folder: &Path, name: &str) -> std::io::Result<String> {
    let part = name.split('-').next().unwrap_or(name);
    std::fs::read_to_string(folder.join(part).join(format!("{name}.cypher")))
}
