//! Built test programs, and which of them are separate suites.

use std::{path::PathBuf, process::Command};

/// A built test program.
#[derive(Clone, Debug)]
pub struct TestProgram {
    /// Its package, `isomer-value`.
    pub package: String,
    /// Its target: the name of the file in `tests/`, or of the library or binary.
    pub target: String,
    /// Whether it is a file in `tests/`.
    pub is_integration: bool,
    /// The executable.
    pub path: PathBuf,
    /// The package's folder, in which cargo would run it.
    pub folder: PathBuf,
}

impl TestProgram {
    /// A command that runs the program as cargo would.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    /// Whether it is the integration test with that name or, for [`LIBRARY`], the library's own tests.
    pub fn is_target(&self, target: &str) -> bool {
        match target {
            LIBRARY => !self.is_integration && self.target == self.package.replace('-', "_"),
            target => self.is_integration && self.target == target,
        }
    }
}

/// The target name of a package's library, next to those of files in `tests/`.
pub const LIBRARY: &str = "--lib";

/// Test targets that are separate suites, and their packages; all others belong to `unit`.
pub const OWN_SUITES: [(&str, &str); 9] = [
    ("isomer-testkit", "golden"),
    ("isomer-testkit", "isolation"),
    ("isomer-testkit", "faults"),
    ("isomer-testkit", "crash"),
    ("isomer-testkit", "algorithms"),
    ("isomer-testkit", "queries"),
    ("isomer-testkit", "ldbc"),
    ("isomer-lsm", "simdisk"),
    ("isomer-chat", "stores"),
];

/// Whether a program is the suite with that name.
pub fn is_suite(program: &TestProgram, suite: &str) -> bool {
    program.is_integration
        && OWN_SUITES.contains(&(&*program.package, suite))
        && program.target == suite
}
