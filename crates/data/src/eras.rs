//! The eras of an open store.

use isomer_layout::{
    DataError,
    keyspace::LINEAGE,
    lineage::{EraId, Lineage},
};
use isomer_storage::{Durability, GuardMode, Version};

use crate::{DataStore, footprint::Item, small_commit::commit_small};

/// The eras of an open store: which versions belong to the history that it is in.
#[derive(Clone, Copy)]
pub struct Eras<'s> {
    store: &'s DataStore,
}

impl DataStore {
    /// The eras, by which files outside identify states of the database.
    pub fn eras(&self) -> Eras<'_> {
        Eras { store: self }
    }
}

impl Eras<'_> {
    /// The eras in the past of the open database.
    ///
    /// # Errors
    /// [`DataError::Corrupt`] for an unreadable record.
    pub fn lineage(self) -> Result<Lineage, DataError> {
        if self.store.shared().era.lock().lost {
            return Ok(Lineage::default());
        }
        let snapshot = self.store.engine().snapshot()?;
        Lineage::load(&*snapshot)
    }

    /// The name of the era of this opening, added now unless it was before. A state that is identified by it and a
    /// version is durable only once the version is ([`isomer_storage::Engine::sync`]).
    ///
    /// # Errors
    /// [`DataError::Denied`] in a store that only reads; those of a commit.
    pub fn begin(self) -> Result<EraId, DataError> {
        if self.store.options().read_only {
            return Err(DataError::read_only());
        }
        let mut own = self.store.shared().era.lock();
        if let Some(id) = own.id {
            return Ok(id);
        }
        // Everything since the opening was committed by it, or by processes that share the database.
        let id = self.enter(own.opened, self.store.is_shared())?;
        (own.id, own.lost) = (Some(id), false);
        Ok(id)
    }

    /// At opening, before anything is committed: a new era, where eras are kept at all.
    pub(crate) fn open(self) {
        let mut own = self.store.shared().era.lock();
        own.opened = self.store.engine().version();
        if self.store.options().read_only {
            return;
        }
        self.trim_as_entered();
        let kept = self
            .store
            .engine()
            .snapshot()
            .map_err(DataError::from)
            .and_then(|snapshot| Ok(!Lineage::load(&*snapshot)?.is_empty()));
        // A full disk does not prevent opening: files outside the database are then built again.
        match kept {
            Ok(false) => {}
            // The history, and so its era, continues while any process has the database open.
            Ok(true) => match self.enter(own.opened, !self.store.opened_alone()) {
                Ok(id) => own.id = Some(id),
                Err(_) => own.lost = true,
            },
            Err(_) => own.lost = true,
        }
    }

    /// Trims what was recorded as trimmed, also where the process ended in between, or the engine did not record it in
    /// earlier versions.
    fn trim_as_entered(self) {
        let outcome = (|| {
            let trimmed = Lineage::load(&*self.store.engine().snapshot()?)?.trimmed;
            if self.store.engine().stream_trimmed()? < trimmed {
                self.store.engine().trim_stream(trimmed)?;
            }
            Ok::<_, DataError>(())
        })();
        // Where this fails, more is delivered than necessary: the entries exist, or the engine reports that they do
        // not.
        drop(outcome);
    }

    /// A new era; with `joins`, the newest one where there is any.
    fn enter(self, first: Version, joins: bool) -> Result<EraId, DataError> {
        commit_small(&**self.store.engine(), Durability::Buffered, |tx| {
            let mut lineage = Lineage::load(tx)?;
            if let Some(newest) = lineage.newest().filter(|_| joins) {
                return Ok(newest);
            }
            let id = lineage.begin(first);
            tx.put(LINEAGE, &lineage.encode())?;
            tx.guard(Item::Eras.granule(), GuardMode::Write);
            Ok(id)
        })
    }

    /// Records in a transaction that the change stream will be trimmed up to `version`.
    pub(crate) fn enter_trimmed(
        self,
        tx: &mut dyn isomer_storage::EngineTransaction,
        version: Version,
    ) -> Result<(), DataError> {
        let mut lineage = Lineage::load(tx)?;
        if lineage.trimmed < version {
            lineage.trimmed = version;
            tx.put(LINEAGE, &lineage.encode())?;
            tx.guard(Item::Eras.granule(), GuardMode::Write);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use isomer_storage::{Engine, MemoryEngine};

    use super::*;
    use crate::{Access, DataStore, DataStoreOptions};

    fn commit(store: &DataStore) -> Version {
        let mut tx = store.begin(Access::Write).unwrap();
        tx.graph_mut()
            .create_node(&[], &isomer_value::Map::new())
            .unwrap();
        tx.commit().unwrap()
    }

    #[test]
    fn a_state_belongs_to_one_history_only() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let open = || DataStore::open(engine.clone(), DataStoreOptions::default()).unwrap();
        let store = open();
        let early = commit(&store);
        let first = store.eras().begin().unwrap();
        assert_eq!(store.eras().begin().unwrap(), first);
        let late = commit(&store);
        let lineage = store.eras().lineage().unwrap();
        assert!(lineage.holds(&first, early) && lineage.holds(&first, late));
        assert!(!lineage.holds(&first, late + 1), "that is not yet");
        assert!(!lineage.holds(&[0; 16], early), "an unknown era");
        drop(store);

        // Another opening: earlier versions keep their era; new ones belong to its own.
        let store = open();
        let now = commit(&store);
        let lineage = store.eras().lineage().unwrap();
        assert!(lineage.holds(&first, late));
        assert!(!lineage.holds(&first, now));
        let second = store.eras().begin().unwrap();
        assert_ne!(first, second);
        assert!(lineage.holds(&second, now));
        assert_eq!(
            (lineage.age(&first), lineage.age(&second)),
            (Some(1), Some(0))
        );
        assert_eq!(lineage.age(&[0; 16]), None);
    }

    #[test]
    fn no_era_is_written_without_files_outside() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        drop(DataStore::open(engine.clone(), DataStoreOptions::default()).unwrap());
        let before = engine.version();
        drop(DataStore::open(engine.clone(), DataStoreOptions::default()).unwrap());
        assert_eq!(engine.version(), before);
    }
}
