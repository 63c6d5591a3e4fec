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

/// A store on disk; the folder must be kept.
pub fn on_disk() -> (Store, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let engine =
        isomer_storage_redb::RedbEngine::open(folder.path().join("db"), Default::default())
            .unwrap();
    (
        Store::open(Arc::new(engine), StoreOptions::default()).unwrap(),
        folder,
    )
}
