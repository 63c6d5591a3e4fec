//! Copies of a database that are used in addition to it.

use std::{path::Path, sync::Arc};

use isomer_data::{DataError, DataStore, DataStoreOptions};
use isomer_layout::keyspace::COPY;
use isomer_lsm::LsmEngine;
use isomer_storage::{Durability, Engine};

use super::{
    dump::dump,
    small::{both, count, person, write},
};
use crate::{begin, exchange};

fn open(folder: &Path) -> DataStore {
    let options = isomer_lsm::LsmOptions::default();
    let engine = LsmEngine::open(folder, options).unwrap();
    crate::open(Arc::new(engine), DataStoreOptions::default()).unwrap()
}

/// Takes the mark of a copy away: it then keeps the name of its original.
fn unmark(folder: &Path) {
    let engine = LsmEngine::open(folder, isomer_lsm::LsmOptions::default()).unwrap();
    let mut tx = engine.begin().unwrap();
    tx.delete(COPY).unwrap();
    tx.commit(Durability::Synced).unwrap();
}

fn is_marked(store: &DataStore) -> bool {
    store
        .engine()
        .snapshot()
        .unwrap()
        .get(COPY)
        .unwrap()
        .is_some()
}

fn exchange(from: &DataStore, to: &DataStore) -> Result<(), DataError> {
    let page = exchange::entries_for(from, &exchange::greeting(to)?, 1 << 20)?;
    exchange::apply_entries(to, &page)?;
    Ok(())
}

/// A copy and its original write under different names, whether the original numbered anything between its opening and
/// the copy or not, and each gets everything of the other one.
#[test]
fn a_copy_is_used_in_addition_to_its_original() {
    for keeps_name in [false, true] {
        for reopened in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (own, copy) = (folder.path().join("own"), folder.path().join("copy"));
            let mut original = open(&own);
            begin::begin_replication(&original).unwrap();
            write(&original, |tx| person(tx, "ada", &[]));
            count(&original, 1);
            if reopened {
                drop(original);
                original = open(&own);
            }
            let name = original.replica();
            original.checkpoint(&copy).unwrap();
            assert!(!is_marked(&original));
            // Numbers that were reserved, or free, when the copy was made.
            count(&original, 10);
            if keeps_name {
                unmark(&copy);
            }
            let copied = open(&copy);
            count(&copied, 100);
            let renamed = original.replica() != copied.replica();
            assert_eq!(original.replica(), name);
            if keeps_name {
                // Transactions of both under one name are refused, or taken for known; and after an unclean shutdown,
                // where the copy begins another epoch, later ones of the original are taken for given up.
                let exchanged = exchange(&original, &copied)
                    .and_then(|()| exchange(&copied, &original))
                    .is_ok_and(|()| dump(&original) == dump(&copied));
                assert!(!exchanged, "a copy that keeps its name goes unnoticed");
                continue;
            }
            assert!(renamed && !is_marked(&copied));
            both(&original, &copied);
            let lines = dump(&copied);
            assert!(
                lines.iter().any(|line| line.contains("n: Int(111)")),
                "{lines:?}"
            );
            // It has its name now, and so do copies of it.
            let second = copied.replica();
            drop(copied);
            let copied = open(&copy);
            assert_eq!(copied.replica(), second);
            let copy_of_copy = folder.path().join("third");
            copied.checkpoint(&copy_of_copy).unwrap();
            let third = open(&copy_of_copy);
            count(&third, 1000);
            assert!(![name, second].contains(&third.replica()));
            both(&third, &copied);
            both(&third, &original);
        }
    }
}

/// If the process ended while a copy was made, it cannot know whether the copy exists.
#[test]
fn a_process_that_ended_while_it_copied_begins_a_new_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let (own, other) = (folder.path().join("own"), folder.path().join("other"));
    let store = open(&own);
    begin::begin_replication(&store).unwrap();
    write(&store, |tx| person(tx, "ada", &[]));
    let peer = open(&other);
    begin::begin_replication(&peer).unwrap();
    both(&store, &peer);
    let name = store.replica();
    let mut tx = store.engine().begin().unwrap();
    tx.put(COPY, &[]).unwrap();
    tx.commit(Durability::Synced).unwrap();
    drop(store);
    let store = open(&own);
    assert!(store.replica() != name && !is_marked(&store));
    count(&store, 5);
    both(&store, &peer);
}

/// A mark that is not needed any more is removed with the last copy, also where copying was refused.
#[test]
fn copies_made_at_once_share_a_mark() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("own"));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (store, copy) = (&store, folder.path().join(format!("copy{number}")));
            scope.spawn(move || store.checkpoint(&copy).unwrap());
        }
    });
    assert!(!is_marked(&store));
    let refused = store.checkpoint(&folder.path().join("copy0")).unwrap_err();
    assert!(matches!(refused, DataError::Invalid(_)), "{refused}");
    assert!(!is_marked(&store));
    for number in 0..4 {
        // Nothing was ever numbered: there is no name that must differ.
        let copy = open(&folder.path().join(format!("copy{number}")));
        assert!(copy.replica().is_none() && !is_marked(&copy));
    }
}
