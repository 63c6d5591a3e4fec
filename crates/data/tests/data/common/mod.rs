//! Helpers that the tests share.

pub mod second_process;

use std::sync::Arc;

use isomer_data::{DataStore, DataStoreOptions};
use isomer_storage::MemoryEngine;
use isomer_value::{Map, Value};

/// A store in memory; see [`second_process`].
pub fn memory() -> DataStore {
    if second_process::is_wanted() {
        return second_process::open_empty(DataStoreOptions::default());
    }
    DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default()).unwrap()
}

/// A map.
pub fn map(entries: &[(&str, Value)]) -> Map {
    entries
        .iter()
        .map(|(name, value)| (*name, value.clone()))
        .collect()
}

/// An integer.
pub fn int(value: i64) -> Value {
    Value::Int(value)
}

/// A string.
pub fn text(value: &str) -> Value {
    Value::String(value.into())
}

/// A list.
pub fn list(values: &[Value]) -> Value {
    Value::List(Arc::new(values.to_vec()))
}

/// A map as a value.
pub fn nested(entries: &[(&str, Value)]) -> Value {
    Value::Map(Arc::new(map(entries)))
}

/// All label names.
pub fn names(store: &DataStore) -> Vec<String> {
    store
        .catalog()
        .labels()
        .into_iter()
        .map(|(_, name)| name.to_string())
        .collect()
}

/// An engine on disk: the one that ISOMER_ENGINE names, or the default one.
pub fn engine_at(path: &std::path::Path) -> Arc<dyn isomer_storage::Engine> {
    match std::env::var("ISOMER_ENGINE").as_deref() {
        Ok("redb") => {
            Arc::new(isomer_storage_redb::RedbEngine::open(path, Default::default()).unwrap())
        }
        _ => Arc::new(isomer_lsm::LsmEngine::open(path, Default::default()).unwrap()),
    }
}

/// A store on disk; the folder must be kept.
pub fn on_disk() -> (DataStore, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (
        DataStore::open(
            engine_at(&folder.path().join("db")),
            DataStoreOptions::default(),
        )
        .unwrap(),
        folder,
    )
}
