//! A chat application on four stores: IsomerDB through its query language, IsomerDB's key-values in the study's key
//! design, PostgreSQL, and LevelDB in the same key design. One interface, one test script, one HTTP front.

pub mod feed;
pub mod fill;
pub mod front;
pub mod graph;
pub mod http;
pub mod isomer_keys;
pub mod keys;
pub mod later;
pub mod level;
mod level_files;
pub mod passwords;
pub mod sql;
pub mod store;

use std::{path::Path, sync::Arc, time::SystemTime};

use anyhow::Result;

use crate::store::{ChatStore, Durability};

/// The stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Backend {
    /// IsomerDB through its query language.
    Isomer,
    /// IsomerDB's key-values.
    IsomerKv,
    /// PostgreSQL.
    Postgresql,
    /// LevelDB.
    Leveldb,
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// Opens a store in a folder, or the database that `postgres` names.
pub fn open(
    backend: Backend,
    folder: &Path,
    postgres: &str,
    durability: Durability,
) -> Result<Arc<dyn ChatStore>> {
    Ok(match backend {
        Backend::Isomer => Arc::new(graph::GraphStore::open(folder, durability)?),
        Backend::IsomerKv => Arc::new(keys::KeyedChat(isomer_keys::IsomerKeys::open(
            folder, durability,
        )?)),
        Backend::Postgresql => Arc::new(sql::SqlStore::connect(postgres, durability)?),
        Backend::Leveldb => Arc::new(keys::KeyedChat(level::LevelStore::open(
            folder, durability,
        )?)),
    })
}
