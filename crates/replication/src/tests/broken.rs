//! Interrupted state transfers, and how the database becomes available again.

use isomer_data::{DataStore, DataStoreOptions};
use isomer_value::Value;

use super::{
    dump::dump,
    small::{both, copy, open, person, send, transfer_state, write},
};
use crate::{
    PushedPage, next_cursor,
    state_transfer::{push, receive, send},
};

fn people(store: &DataStore, name: &str, count: usize) {
    for at in 0..count {
        let key = format!("{name}{at}");
        write(store, |tx| person(tx, &key, &[("p", Value::Int(1))]));
    }
}

/// Merges a number of pages of 100 bytes; then the process ends. Returns the reopened database, none if the state
/// transfer was complete.
fn joined_in_part(from: &DataStore, to: DataStore, pages: usize) -> Option<DataStore> {
    let mut transfer = receive::begin_state_transfer(&to).unwrap();
    for _ in 0..pages {
        let page = send::state_page(from, transfer.cursor(), 100).unwrap();
        if transfer.merge_page(&to, &page).unwrap() {
            return None;
        }
    }
    drop(transfer);
    let copy = copy(&to);
    drop(to);
    Some(crate::open(copy, DataStoreOptions::default()).unwrap())
}

fn hand_over(from: &DataStore, to: &DataStore) {
    let (mut session, mut cursor) = (0, Vec::new());
    loop {
        let page = send::state_page(from, &cursor, 100).unwrap();
        let pushed = PushedPage {
            session,
            from: from.replica().unwrap().id,
            cursor: &cursor,
            page: &page,
        };
        let (number, is_last) = push::merge_pushed(to, &pushed).unwrap();
        session = number;
        if is_last {
            return;
        }
        cursor = next_cursor(&page).unwrap().unwrap();
    }
}

/// However many pages were merged, applying entries reports that a state transfer is needed, and a whole snapshot makes
/// the database available again.
#[test]
fn entries_say_that_a_broken_join_needs_a_snapshot() {
    for pages in 1.. {
        let (a, b) = (open(), open());
        people(&a, "a", 30);
        people(&b, "own", 3);
        let Some(b) = joined_in_part(&a, b, pages) else {
            assert!(pages > 4, "{pages} pages");
            break;
        };
        assert!(b.is_joining());
        let status = receive::state_transfer_status(&b)
            .unwrap()
            .expect("it joins");
        assert!(!status.is_whole && status.since_ms > 0, "{status:?}");
        assert_eq!(status.lacks.len(), 1, "{status:?}");
        assert_eq!(status.lacks[0].0, a.replica().unwrap());
        // Its log has everything, and still the state is sent again.
        assert!(send(&a, &b).behind, "{pages} pages");
        hand_over(&a, &b);
        assert!(!b.is_joining());
        assert_eq!(receive::state_transfer_status(&b).unwrap(), None);
        both(&a, &b);
        assert_eq!(dump(&b).len(), 33, "{pages} pages");
    }
}

/// A third replica may complete the state transfer as well, if it has what the first one had.
#[test]
fn another_replica_completes_a_join() {
    let (a, b, c) = (open(), open(), open());
    people(&a, "a", 8);
    people(&b, "own", 3);
    let b = joined_in_part(&a, b, 2).unwrap();
    people(&c, "c", 3);
    // It lacks what the state had seen.
    hand_over(&c, &b);
    let status = receive::state_transfer_status(&b)
        .unwrap()
        .expect("it waits");
    assert!(status.is_whole, "{status:?}");
    assert_eq!(status.lacks[0].0, a.replica().unwrap());
    assert!(!send(&c, &b).behind, "another snapshot of it is of no use");
    send(&a, &c);
    send(&c, &b);
    assert!(!b.is_joining());
    both(&b, &c);
    both(&a, &c);
    both(&a, &b);
    assert_eq!(dump(&b).len(), 14);
}

/// A note of version 0.1.0, which has no time.
#[test]
fn a_note_without_a_time_is_read() {
    let (a, b) = (open(), open());
    people(&a, "a", 4);
    let b = joined_in_part(&a, b, 1).unwrap();
    let mut tx = b.engine().begin().unwrap();
    let note = tx.get(isomer_layout::keyspace::JOINING).unwrap().unwrap();
    assert_eq!(note[0], 2);
    let mut timed = Vec::new();
    let since_ms = receive::state_transfer_status(&b)
        .unwrap()
        .unwrap()
        .since_ms;
    isomer_layout::keyspace::push_id(&mut timed, since_ms);
    let mut old = note[..note.len() - timed.len()].to_vec();
    old[0] = 0;
    tx.put(isomer_layout::keyspace::JOINING, &old).unwrap();
    tx.commit(isomer_data::Durability::Synced).unwrap();
    assert_eq!(
        receive::state_transfer_status(&b)
            .unwrap()
            .unwrap()
            .since_ms,
        0
    );
    transfer_state(&a, &b, 100);
    assert!(!b.is_joining());
    both(&a, &b);
}
