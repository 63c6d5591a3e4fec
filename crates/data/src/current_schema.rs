//! The schema as of now, and the versions for which it holds.

use std::sync::Arc;

use isomer_layout::{
    DataError, ErrorKind,
    catalog::{Catalog, names::NameTables, schema::Schema},
};
use isomer_storage::{Read, Version};
use parking_lot::RwLock;

/// The newest known schema of an open store.
pub struct CurrentSchema {
    names: Arc<NameTables>,
    newest: RwLock<Newest>,
}

struct Newest {
    catalog: Arc<Catalog>,
    /// The commit that made it.
    since: Version,
    /// Whether a change is being committed: the newest state is unknown, so a beginning transaction reads its snapshot.
    changing: bool,
    /// Changes that other processes made in the meantime.
    later: Vec<SchemaWrites>,
}

/// A change of the schema that another process made.
struct SchemaWrites {
    version: Version,
    writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl CurrentSchema {
    /// The schema at the version of `read`.
    ///
    /// # Errors
    /// [`DataError::Corrupt`]; those of the engine.
    pub(crate) fn load(names: Arc<NameTables>, read: &dyn Read) -> Result<Self, DataError> {
        let newest = Newest {
            catalog: load(&names, read)?,
            since: read.version(),
            changing: false,
            later: Vec::new(),
        };
        Ok(Self {
            names,
            newest: RwLock::new(newest),
        })
    }

    /// Names and schema as of now.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.newest.read().catalog.clone()
    }

    /// Names and schema at the version of `read`.
    pub(crate) fn catalog_at(&self, read: &dyn Read) -> Result<Arc<Catalog>, DataError> {
        {
            let newest = self.newest.read();
            if !newest.changing && newest.since <= read.version() {
                return Ok(newest.catalog.clone());
            }
        }
        load(&self.names, read)
    }

    /// Commits a change to `schema` through `commit` and makes it current.
    pub(crate) fn publish(
        &self,
        schema: Schema,
        commit: impl FnOnce() -> Result<Version, DataError>,
    ) -> Result<(), DataError> {
        self.newest.write().changing = true;
        let committed = commit();
        let mut newest = self.newest.write();
        match committed {
            Ok(since) => {
                newest.set(Arc::new(schema), since);
                newest.enter_later()
            }
            // The commit may have happened: beginning transactions continue to read their snapshots.
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => Err(error),
            Err(error) => {
                newest.enter_later()?;
                Err(error)
            }
        }
    }

    /// Another process changed the schema in the commit `version`. While this one does, it is entered afterwards.
    pub(crate) fn enter(
        &self,
        version: Version,
        writes: &[(&[u8], Option<&[u8]>)],
    ) -> Result<(), DataError> {
        self.newest.write().enter(version, writes)
    }
}

fn load(names: &Arc<NameTables>, read: &dyn Read) -> Result<Arc<Catalog>, DataError> {
    Ok(Arc::new(Catalog {
        names: names.clone(),
        schema: Arc::new(Schema::load(read)?),
    }))
}

impl Newest {
    fn set(&mut self, schema: Arc<Schema>, since: Version) {
        self.catalog = Arc::new(Catalog {
            names: self.catalog.names.clone(),
            schema,
        });
        self.since = since;
    }

    fn enter(
        &mut self,
        version: Version,
        writes: &[(&[u8], Option<&[u8]>)],
    ) -> Result<(), DataError> {
        if self.changing {
            let owned = writes.iter();
            let owned = owned.map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)));
            self.later.push(SchemaWrites {
                version,
                writes: owned.collect(),
            });
            return Ok(());
        }
        let schema = self.catalog.schema.changed(writes.iter().copied())?;
        self.set(Arc::new(schema), version);
        Ok(())
    }

    /// The own change has ended: enters those that other processes made since then.
    fn enter_later(&mut self) -> Result<(), DataError> {
        self.changing = false;
        for SchemaWrites { version, writes } in std::mem::take(&mut self.later) {
            let writes: Vec<_> = writes
                .iter()
                .map(|(key, value)| (key.as_slice(), value.as_deref()))
                .collect();
            self.enter(version, &writes)?;
        }
        Ok(())
    }
}
