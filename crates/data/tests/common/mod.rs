//! What the tests share.
#![allow(dead_code)] // each test file uses some of it

use std::sync::Arc;

use isomer_data::{Store, StoreOptions};
use isomer_storage::MemoryEngine;
use isomer_value::{Map, Value};

/// A store in memory.
pub fn memory() -> Store {
    Store::open(Arc::new(MemoryEngine::new()), StoreOptions::default()).unwrap()
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
pub fn names(store: &Store) -> Vec<String> {
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
        _ => Arc::new(isomer_store::StoreEngine::open(path, Default::default()).unwrap()),
    }
}

/// A store on disk; the folder must be kept.
pub fn on_disk() -> (Store, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (
        Store::open(
            engine_at(&folder.path().join("db")),
            StoreOptions::default(),
        )
        .unwrap(),
        folder,
    )
}
