//! Databases that are opened with and without replication.

use std::sync::Arc;

use isomer_data::{Access, DataStore, DataStoreOptions, Engine, ErrorKind};
use isomer_storage::MemoryEngine;
use isomer_value::Value;

use super::small::{copy, person, send, write};
use crate::{begin_replication, tests::small};

fn bare(engine: Arc<dyn Engine>) -> Result<DataStore, isomer_data::DataError> {
    DataStore::open(engine, DataStoreOptions::default())
}

/// Its commits would not be logged, and so never reach the others.
#[test]
fn a_replica_is_not_opened_without_replication() {
    let store = small::open();
    write(&store, |tx| person(tx, "ada", &[("p", Value::Int(1))]));
    let engine = copy(&store);
    drop(store);
    let error = match bare(engine.clone()) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("feature `replicas`"), "{error}");
    assert!(crate::open(engine, DataStoreOptions::default()).is_ok());
}

/// What is not opened for it cannot become a replica, and stays usable.
#[test]
fn a_database_opened_without_replication_becomes_no_replica() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let store = bare(engine.clone()).unwrap();
    let error = begin_replication(&store).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(!store.is_replicated());
    write(&store, |tx| person(tx, "ada", &[("p", Value::Int(1))]));
    assert!(
        store
            .begin(Access::Read)
            .unwrap()
            .replication()
            .conflicts()
            .unwrap()
            .is_empty()
    );
}

/// A database that becomes a replica after it was used sends what it had and what it gets.
#[test]
fn a_database_opened_for_it_becomes_a_replica_later() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let store = crate::open(engine, DataStoreOptions::default()).unwrap();
    write(&store, |tx| person(tx, "ada", &[("p", Value::Int(1))]));
    assert!(!store.is_replicated());
    begin_replication(&store).unwrap();
    assert!(store.is_replicated());
    let other = small::open();
    assert!(
        send(&store, &other).behind,
        "what is older travels by snapshot"
    );
    write(&store, |tx| person(tx, "bob", &[("p", Value::Int(2))]));
    small::transfer_state(&store, &other, 1000);
    small::both(&store, &other);
}
