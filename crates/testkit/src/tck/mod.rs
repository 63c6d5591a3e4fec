//! openCypher's Technology Compatibility Kit, run against a database.

mod gherkin;
pub mod scenario;

use std::path::{Path, PathBuf};

/// The suite's folder beside the checkout (or under `ISOMER_SHARED`), where there is one.
pub fn suite_folder() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = match std::env::var_os("ISOMER_SHARED") {
        Some(folder) => root.join(folder),
        None => root.join("../shared"),
    };
    let folder = shared.join("tck");
    folder.join("features").is_dir().then_some(folder)
}
