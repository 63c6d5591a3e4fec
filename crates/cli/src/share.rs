//! `isomer share`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use isomer_db::{EngineKind, Sharing};

use crate::{open, style::line};

/// Options of `isomer share`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  isomer share people.db

A new database is a shared one, unless its folder or system does not allow it. This command is for those that were created
by version 0.1.0 or with `--sharing exclusive`: afterwards every command, server and program works while others have the
database open. `isomer --sharing exclusive checkpoint people.db copy.db` makes an exclusive copy of a shared database.")]
pub struct ShareOptions {
    /// The database; created if there is none
    pub db: PathBuf,
}

/// Runs the command.
pub fn command(options: &ShareOptions) -> Result<()> {
    let path = options.db.display();
    let said = match Sharing::at(&options.db) {
        Some(Sharing::Shared) => return Ok(line(&format!("{path} is a shared database already"))?),
        Some(_) => "is a shared database from now on",
        None => "was created as a shared database",
    };
    let mut builder = open::keyed_builder()?.sharing(Sharing::Shared);
    if open::engine_option().is_none() && EngineKind::at(&options.db).is_none() {
        // The only engine that can be shared.
        builder = builder.engine(EngineKind::Lsm);
    }
    let opened = builder.open(&options.db);
    opened
        .map_err(|error| open::in_use(&options.db, error))?
        .close()?;
    Ok(line(&format!("{path} {said}"))?)
}
