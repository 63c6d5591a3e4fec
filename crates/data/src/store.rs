//! An opened database.

use std::sync::Arc;

use isomer_storage::Engine;

use crate::{
    Catalog, DataError, SchemaChange, SchemaOutcome, Transaction,
    catalog::{Names, Schema},
};

/// What a transaction may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads one version; never waits and never fails to commit.
    Read,
    /// Reads and writes; checked at commit.
    Write,
}

/// How a store is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Change-stream entries kept behind what the store itself needs.
    pub stream_retention: u64,
    /// Footprint entries per kind above which a transaction declares whole labels and types instead.
    pub footprint_limit: usize,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            stream_retention: 10_000,
            footprint_limit: 4_096,
        }
    }
}

/// An opened database. Clones share it.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    engine: Arc<dyn Engine>,
    catalog: Arc<Catalog>,
    _options: StoreOptions,
}

impl Store {
    /// Opens what is in `engine`: loads the catalog and the counts.
    pub fn open(engine: Arc<dyn Engine>, options: StoreOptions) -> Result<Self, DataError> {
        let catalog = Arc::new(Catalog {
            names: Arc::new(Names::default()),
            schema: Arc::new(Schema::default()),
        });
        Ok(Self {
            shared: Arc::new(Shared {
                engine,
                catalog,
                _options: options,
            }),
        })
    }

    /// A transaction at the last committed version.
    pub fn begin(&self, access: Access) -> Result<Transaction, DataError> {
        Transaction::new(self.clone(), access)
    }

    /// The engine below.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.shared.engine
    }

    /// Names and schema as of now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.shared.catalog.clone()
    }

    /// Changes the schema in transactions of its own; returns when the change is complete and durable.
    pub fn change_schema(&self, _change: SchemaChange) -> Result<SchemaOutcome, DataError> {
        Err(DataError::Unsupported(
            "schema changes are not built yet".into(),
        ))
    }
}
