//! Bad input and faults: a clear error (what, where, the limit, what to do), nothing lost, no panic.
//!
//! `ISOMER_TEST_SEED` damages other bits, `ISOMER_TEST_QUICK` fewer of them.

mod damage;
mod files;
mod full_disk;
mod imports;
mod queries;
mod values;

use std::process::ExitCode;

use isomer_db::{Error, ErrorKind};
use isomer_testkit::harness::Harness;

fn main() -> ExitCode {
    let mut harness = Harness::new();
    files::cases(&mut harness);
    values::cases(&mut harness);
    queries::cases(&mut harness);
    imports::cases(&mut harness);
    damage::cases(&mut harness);
    full_disk::cases(&mut harness);
    harness.run()
}

/// The error of something that must fail, with its kind and a word that its message must have.
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
