//! The eras of an open store.

use isomer_storage::{Durability, Version};

use crate::{
    DataError, DataStore,
    keyspace::LINEAGE,
    lineage::{EraId, Lineage, read},
};

impl DataStore {
    /// The eras in the past of the open database.
    ///
    /// # Errors
    /// [`DataError::Corrupt`] for an unreadable record.
    pub fn lineage(&self) -> Result<Lineage, DataError> {
        if self.shared().era.lock().lost {
            return Ok(Lineage::default());
        }
        let snapshot = self.engine().snapshot()?;
        read(&*snapshot)
    }

    /// The name of the era of this opening, added now unless it was before. A state that is identified by it and a
    /// version is durable only once the version is ([`isomer_storage::Engine::sync`]).
    ///
    /// # Errors
    /// [`DataError::Denied`] in a store that only reads; those of a commit.
    pub fn begin_era(&self) -> Result<EraId, DataError> {
        if self.options().read_only {
            return Err(DataError::Denied(
                "the database is opened for reading only".into(),
            ));
        }
        let mut own = self.shared().era.lock();
        if let Some(id) = own.id {
            return Ok(id);
        }
        // Everything since the opening was committed by it.
        let id = self.enter(own.opened)?;
        (own.id, own.lost) = (Some(id), false);
        Ok(id)
    }

    /// At opening, before anything is committed: a new era, where eras are kept at all.
    pub(crate) fn open_era(&self) {
        let mut own = self.shared().era.lock();
        own.opened = self.engine().version();
        if self.options().read_only {
            return;
        }
        self.trim_as_entered();
        let kept = self
            .engine()
            .snapshot()
            .map_err(DataError::from)
            .and_then(|snapshot| Ok(!read(&*snapshot)?.eras.is_empty()));
        // A full disk does not prevent opening: files outside the database are then built again.
        match kept {
            Ok(false) => {}
            Ok(true) => match self.enter(own.opened) {
                Ok(id) => own.id = Some(id),
                Err(_) => own.lost = true,
            },
            Err(_) => own.lost = true,
        }
    }

    /// Trims what was recorded as trimmed, also where the process ended in between, or the engine did not record it in
    /// earlier versions.
    fn trim_as_entered(&self) {
        let outcome = (|| {
            let trimmed = read(&*self.engine().snapshot()?)?.trimmed;
            if self.engine().stream_trimmed()? < trimmed {
                self.engine().trim_stream(trimmed)?;
            }
            Ok::<_, DataError>(())
        })();
        // Where this fails, more is delivered than necessary: the entries exist, or the engine reports that they do
        // not.
        drop(outcome);
    }

    pub(crate) fn enter(&self, first: Version) -> Result<EraId, DataError> {
        let mut tx = self.engine().begin()?;
        let mut lineage = read(&*tx)?;
        let id = lineage.begin(first);
        tx.put(LINEAGE, &lineage.encode())?;
        tx.commit(Durability::Buffered)?;
        Ok(id)
    }

    /// Records in a transaction that the change stream will be trimmed up to `version`.
    pub(crate) fn enter_trimmed(
        &self,
        tx: &mut dyn isomer_storage::EngineTransaction,
        version: Version,
    ) -> Result<(), DataError> {
        let mut lineage = read(tx)?;
        if lineage.trimmed < version {
            lineage.trimmed = version;
            tx.put(LINEAGE, &lineage.encode())?;
        }
        Ok(())
    }
}
