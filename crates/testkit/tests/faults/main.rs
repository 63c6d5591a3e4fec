//! Bad input and faults: a clear error (what, where, the limit, what to do), nothing lost, no panic.
//!
//! `ISOMER_TEST_SEED` damages other bits, `ISOMER_TEST_QUICK` fewer of them.

mod damage;
mod files;
mod full_disk;
mod imports;
mod queries;
mod values;
mod whole;

use std::process::ExitCode;

use isomer_db::{Error, ErrorKind};
use isomer_testkit::harness::Harness;

fn main() -> ExitCode {
    let mut harness = Harness::new();
    harness.module("files", files::cases);
    harness.module("values", values::cases);
    harness.module("queries", queries::cases);
    harness.module("imports", imports::cases);
    harness.module("damage", damage::cases);
    harness.module("whole", whole::cases);
    harness.module("full_disk", full_disk::cases);
    harness.run()
}

/// The error of a call that must fail, with its kind and a word that its message must contain.
fn refused<T>(result: Result<T, Error>, kinds: &[ErrorKind], word: &str) -> anyhow::Result<Error> {
    match result {
        Ok(_) => anyhow::bail!("it was accepted"),
        Err(error) if !kinds.contains(&error.kind()) => {
            anyhow::bail!("{:?} instead of {kinds:?}: {error}", error.kind())
        }
        Err(error)
            if !error
                .to_string()
                .to_lowercase()
                .contains(&word.to_lowercase()) =>
        {
            anyhow::bail!("the message does not say {word:?}: {error}")
        }
        Err(error) => Ok(error),
    }
}
