//! openCypher's Technology Compatibility Kit, run against a database.
//!
//! A scenario *passes*, *fails* (an error where a result was expected, or a different error), is *wrong* (a
//! different result, or a result where an error was expected) or is *skipped*. Every scenario has a new
//! in-memory database.

mod gherkin;
pub mod mutate;
pub mod notation;
mod procedure;
pub mod report;
pub mod run;
pub mod scenario;
mod subject;
pub mod suite;

use std::path::{Path, PathBuf};

pub use gherkin::Step;

/// The suite's folder next to the checkout (or under `ISOMER_SHARED`), if it exists.
pub fn suite_folder() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = match std::env::var_os("ISOMER_SHARED") {
        Some(folder) => root.join(folder),
        None => root.join("../shared"),
    };
    let folder = shared.join("tck");
    folder.join("features").is_dir().then_some(folder)
}

/// The named graphs of a folder of features: `graphs` in it, next to it or next to one of its parents, else
/// those of the suite next to the checkout.
pub fn graphs_folder(features: &Path) -> Option<PathBuf> {
    let features = features
        .canonicalize()
        .unwrap_or_else(|_| features.to_path_buf());
    let own = features
        .ancestors()
        .take(4)
        .map(|folder| folder.join("graphs"));
    own.chain(suite_folder().map(|folder| folder.join("graphs")))
        .find(|folder| folder.is_dir())
}

/// The list of known deviations.
pub const DEVIATIONS: &str = include_str!("../../tck-deviations.txt");
