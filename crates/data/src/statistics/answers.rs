//! Answers from statistics, refreshed where they are outdated.

use std::sync::{Arc, atomic::Ordering};

use isomer_layout::{DataError, stream::change::Counted};
use isomer_storage::Durability;
use isomer_value::{LabelId, TypeId};
use rustc_hash::FxHashMap;

use crate::{
    DataStore,
    statistics::{
        CachedSample, LabelStatistics, MAX_STATISTICS, MIN_SAMPLED_RECORDS, TypeStatistics,
        sample::sampled_indexes,
    },
};

/// Whether a number is near enough to its earlier value.
pub(crate) fn near(then: u64, now: u64) -> bool {
    then.abs_diff(now) <= then / 5 + MIN_SAMPLED_RECORDS / 2
}

/// The statistics of an open store: samples of labels and types, taken again where they are outdated.
#[derive(Clone, Copy)]
pub struct StoreStatistics<'s> {
    store: &'s DataStore,
}

impl DataStore {
    /// The statistics, for estimates of costs.
    pub fn statistics(&self) -> StoreStatistics<'_> {
        StoreStatistics { store: self }
    }
}

impl StoreStatistics<'_> {
    /// The distribution of the nodes of a label: cached, or sampled now. Nothing where there are too few to matter.
    pub fn of_label(self, label: LabelId) -> Result<Option<Arc<LabelStatistics>>, DataError> {
        let nodes = self.store.counts().now(Counted::Label(label))?;
        if nodes < MIN_SAMPLED_RECORDS {
            return Ok(None);
        }
        if let Some(known) = self.known_label(label, nodes) {
            return Ok(Some(known));
        }
        let _sampling = self.store.shared().statistics.sampling.lock();
        if let Some(known) = self.known_label(label, nodes) {
            return Ok(Some(known));
        }
        let changed = self.store.shared().statistics.changed(label);
        let statistics = Arc::new(super::sample::label(self.store, label, nodes)?);
        let mut known = self.store.shared().statistics.known.write();
        make_room(&mut known.labels);
        known.labels.insert(
            label,
            CachedSample {
                statistics: statistics.clone(),
                changed,
                fresh: true,
            },
        );
        Ok(Some(statistics))
    }

    fn known_label(self, label: LabelId, nodes: u64) -> Option<Arc<LabelStatistics>> {
        let changed = self.store.shared().statistics.changed(label);
        let known = self.store.shared().statistics.known.read();
        let entry = known.labels.get(&label)?;
        let statistics = &entry.statistics;
        let indexed = || {
            let catalog = self.store.catalog();
            let mut indexes = sampled_indexes(self.store, &catalog, label.into());
            indexes.all(|index| statistics.index(index.id).is_some())
        };
        let usable = near(statistics.nodes, nodes)
            && near(nodes, nodes + changed - entry.changed.min(changed))
            && indexed();
        usable.then(|| statistics.clone())
    }

    /// The labels at the ends of the relationships of a type: cached, or sampled now. Nothing where there are too few
    /// to matter.
    pub fn of_type(self, type_id: TypeId) -> Result<Option<Arc<TypeStatistics>>, DataError> {
        let relationships = self.store.counts().now(Counted::Type(type_id))?;
        if relationships < MIN_SAMPLED_RECORDS {
            return Ok(None);
        }
        if let Some(known) = self.known_type(type_id, relationships) {
            return Ok(Some(known));
        }
        let _sampling = self.store.shared().statistics.sampling.lock();
        if let Some(known) = self.known_type(type_id, relationships) {
            return Ok(Some(known));
        }
        let relabelled = self
            .store
            .shared()
            .statistics
            .relabelled
            .load(Ordering::Relaxed);
        let mut statistics = super::sample::relationships(self.store, type_id, relationships)?;
        statistics.relabelled = relabelled;
        let statistics = Arc::new(statistics);
        let mut known = self.store.shared().statistics.known.write();
        make_room(&mut known.types);
        known.types.insert(
            type_id,
            CachedSample {
                statistics: statistics.clone(),
                changed: 0,
                fresh: true,
            },
        );
        Ok(Some(statistics))
    }

    fn known_type(self, type_id: TypeId, relationships: u64) -> Option<Arc<TypeStatistics>> {
        let relabelled = self
            .store
            .shared()
            .statistics
            .relabelled
            .load(Ordering::Relaxed);
        let known = self.store.shared().statistics.known.read();
        let statistics = &known.types.get(&type_id)?.statistics;
        let moved = relabelled - statistics.relabelled.min(relabelled);
        let catalog = self.store.catalog();
        let indexed = sampled_indexes(self.store, &catalog, type_id.into())
            .all(|index| statistics.index(index.id).is_some());
        let usable = indexed
            && near(statistics.relationships, relationships)
            && near(relationships, relationships + moved);
        usable.then(|| statistics.clone())
    }

    /// Stores new samples. They are derived: losing them is harmless.
    pub fn save(self) -> Result<(), DataError> {
        if self.store.options().read_only {
            return Ok(());
        }
        let pairs = self.to_store();
        if pairs.is_empty() {
            return Ok(());
        }
        let mut tx = self.store.engine().begin()?;
        for (key, value) in &pairs {
            tx.put(key, value)?;
        }
        tx.commit(Durability::Synced)?;
        Ok(())
    }

    /// New samples in their stored form; they count as stored from now on.
    pub(crate) fn to_store(self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut known = self.store.shared().statistics.known.write();
        let mut pairs = Vec::new();
        for (label, entry) in known.labels.iter_mut().filter(|(_, entry)| entry.fresh) {
            entry.fresh = false;
            pairs.extend(super::stored::label(*label, &entry.statistics));
        }
        for (type_id, entry) in known.types.iter_mut().filter(|(_, entry)| entry.fresh) {
            entry.fresh = false;
            pairs.extend(super::stored::relationships(*type_id, &entry.statistics));
        }
        pairs
    }
}

/// Clears the cache where it is too large: what is used is sampled again.
pub(crate) fn make_room<K, T>(known: &mut FxHashMap<K, CachedSample<T>>) {
    if known.len() >= MAX_STATISTICS {
        known.clear();
    }
}
