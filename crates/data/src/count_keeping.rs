//! Counts are kept up to date, stored, and counted again.

use isomer_layout::{DataError, keyspace::COUNTS, stream::change::Counted};
use isomer_storage::{Durability, GuardMode, StorageError, Version, lock_error};
use isomer_value::{LabelId, TypeId};

use crate::{
    DataStore,
    counts::{
        BYTES_BETWEEN_SAVES, COMMITS_BETWEEN_SAVES, Counts, Piece, ReportedCounts, SMALL_PIECE,
    },
    footprint::Item,
};

/// The counts of nodes and relationships of an open store: kept up to date by commits, and stored from time to time.
#[derive(Clone, Copy)]
pub struct CountKeeper<'s> {
    store: &'s DataStore,
}

impl DataStore {
    /// The counts of nodes and relationships.
    pub fn counts(&self) -> CountKeeper<'_> {
        CountKeeper { store: self }
    }
}

impl CountKeeper<'_> {
    /// The count of `counted` at `version`; `None` if that is too old to be known without a recount.
    pub(crate) fn at(self, counted: Counted, version: Version) -> Result<Option<u64>, DataError> {
        let mut counts = self.store.shared().counts.lock();
        counts.advance(&**self.store.engine(), self.reported_counts(), version)?;
        Ok(counts.at(counted, version))
    }

    /// The newest known count.
    pub(crate) fn now(self, counted: Counted) -> Result<u64, DataError> {
        let mut counts = self.store.shared().counts.lock();
        let version = self.store.engine().version();
        counts.advance(&**self.store.engine(), self.reported_counts(), version)?;
        Ok(u64::try_from(counts.numbers.get(counted)).unwrap_or_default())
    }

    /// About how many nodes carry `label`, or exist, now.
    pub fn nodes_now(self, label: Option<LabelId>) -> u64 {
        let counted = label.map_or(Counted::Nodes, Counted::Label);
        self.now(counted).unwrap_or(0)
    }

    /// About how many relationships have `rel_type`, or exist, now.
    pub fn relationships_now(self, rel_type: Option<TypeId>) -> u64 {
        let counted = rel_type.map_or(Counted::Relationships, Counted::Type);
        self.now(counted).unwrap_or(0)
    }

    fn reported_counts(&self) -> &ReportedCounts {
        &self.store.shared().observers.counted
    }

    /// Called after each commit with the size of its entry: stores the numbers from time to time.
    pub(crate) fn committed(self, entry_bytes: usize) {
        self.store.shared().signal.0.notify();
        let due = {
            let mut since = self.store.shared().since_save.lock();
            since.commits += 1;
            since.bytes += entry_bytes as u64;
            since.total_bytes += entry_bytes as u64;
            let due = since.commits >= COMMITS_BETWEEN_SAVES || since.bytes >= BYTES_BETWEEN_SAVES;
            if due {
                (since.commits, since.bytes) = (0, 0);
            }
            due
        };
        if due {
            // The counts are derived: if this fails, the next opening reads a longer stream, and the commit before it
            // has succeeded.
            if let Ok(false) = self.save_by(SMALL_PIECE) {
                // Commits before this opening are not completely read yet: the next commit continues.
                self.store.shared().since_save.lock().commits = COMMITS_BETWEEN_SAVES;
            }
        }
    }

    /// Stores the counts, then trims the change stream up to what is retained.
    #[cfg(test)]
    pub(crate) fn save(self) -> Result<(), DataError> {
        while !self.save_by(crate::counts::MAX_PIECE)? {}
        Ok(())
    }

    /// The same, if one piece of the stream is enough to bring the counts up to date. Returns whether it was.
    pub(crate) fn save_by(self, piece: Piece) -> Result<bool, DataError> {
        // One at a time: an older version must not overwrite a newer one, at which the trimmed stream begins.
        let _saving = self.store.shared().saving.lock();
        let others = self.store.shared().shared_holds.as_ref();
        let trimming = others.map(|others| (others, others.lock_trimming()));
        if matches!(trimming, Some((_, None))) {
            return Ok(true); // another process saves its counts at the moment
        }
        // Locked until the stream is trimmed: a hold that is taken afterwards sees the trimmed stream.
        let mut holds = self.store.shared().stream_holds.lock();
        let (version, value) = {
            let mut counts = self.store.shared().counts.lock();
            let version = self.store.engine().version();
            if !counts.advance_by(
                &**self.store.engine(),
                self.reported_counts(),
                version,
                piece,
            )? {
                return Ok(false);
            }
            (counts.version, counts.value())
        };
        let total_bytes = self.store.shared().since_save.lock().total_bytes;
        let held = trimming.as_ref().map(|(others, _)| others.of_others());
        let held = held.transpose().map_err(lock_error)?.unwrap_or_default();
        let options = self.store.options();
        let upto = holds.trim_limit(version, total_bytes, options, &held);
        let mut tx = self.store.engine().begin()?;
        if self.store.is_shared() && Counts::stored(&*tx)?.version >= version {
            return Ok(true); // another process was faster
        }
        tx.guard(Item::SavedCounts.granule(), GuardMode::Write);
        tx.put(COUNTS, &value)?;
        for (key, value) in self.store.statistics().to_store() {
            tx.put(&key, &value)?;
        }
        // Recorded before the stream is trimmed: after a crash in between, the next opening trims it.
        self.store.eras().enter_trimmed(&mut *tx, upto)?;
        match tx.commit(Durability::Buffered) {
            // Another process saved its counts, or its era, at the same time: the next commits save again.
            Err(StorageError::Conflict { .. }) => return Ok(true),
            committed => committed?,
        };
        if upto > 0 {
            self.store.engine().trim_stream(upto)?;
        }
        Ok(true)
    }
}
