//! Where tests open databases: with `ISOMER_TEST_SHARED=1`, a second process writes to each of them.

use std::path::Path;

use isomer_db::{Builder, Database, Result};
use isomer_testkit::{
    second_process::{self, Program},
    second_process_test,
};

const PROGRAM: Program = second_process_test!("place::second_process");

/// What tests call instead of the methods with similar names, unless they test a certain engine, or a failure.
pub trait Opening: Sized {
    /// Opens an empty database: in memory, if no second process is to write.
    fn open_empty(self) -> Result<Database>;
    /// Opens the database in a folder.
    fn open_at(self, path: impl AsRef<Path>) -> Result<Database>;
}

impl Opening for Builder {
    fn open_empty(self) -> Result<Database> {
        second_process::open_empty(PROGRAM, self)
    }

    fn open_at(self, path: impl AsRef<Path>) -> Result<Database> {
        second_process::open(PROGRAM, self, path.as_ref())
    }
}

/// See [`Opening::open_empty`].
pub fn open_empty() -> Result<Database> {
    Database::builder().open_empty()
}

/// See [`Opening::open_at`].
pub fn open(path: impl AsRef<Path>) -> Result<Database> {
    Database::builder().open_at(path)
}

#[test]
#[ignore = "started by another test"]
fn second_process() {
    second_process::run_if_asked();
}
