//! Opening databases for commands.

use std::path::Path;

use anyhow::Result;
use isomer_db::Database;

/// Opens a database, or makes it.
pub fn open(path: &Path) -> Result<Database> {
    Ok(Database::open(path)?)
}

/// Opens a database that must be there.
pub fn open_existing(path: &Path) -> Result<Database> {
    Ok(Database::builder().create(false).open(path)?)
}
