//! A peer in the same process, or a database on this machine that no other process has open.

use std::path::Path;

use isomer_data::DataStore;
use isomer_db::{Builder, Database, internals::DatabaseInternals as _};

use crate::{Result, answer::answer, exchange::PeerConnection};

/// Another database in this process.
pub struct Local {
    name: String,
    store: DataStore,
    /// Closed when this is dropped.
    opened: Option<Database>,
}

impl Local {
    /// A database that is open in this process.
    pub fn new(name: impl Into<String>, database: &Database) -> Result<Self> {
        Ok(Self {
            name: name.into(),
            store: database.store()?,
            opened: None,
        })
    }

    /// Opens the database in a folder; creates it if there is none.
    pub fn open(path: &Path, builder: Builder) -> Result<Self> {
        let database = builder.open(path)?;
        let store = database.store()?;
        Ok(Self {
            name: path.display().to_string(),
            store,
            opened: Some(database),
        })
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if let Some(database) = self.opened.take() {
            // Everything that was exchanged is on disk already.
            drop(database.close());
        }
    }
}

impl PeerConnection for Local {
    fn name(&self) -> &str {
        &self.name
    }

    fn request(&mut self, frame: &[u8]) -> Result<Vec<u8>> {
        Ok(answer(&self.store, frame))
    }
}
