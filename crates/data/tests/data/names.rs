//! Names that were never used: their absence is an observation like any other.

use crate::common::{int, map, memory};
use isomer_data::{Access, ErrorKind, GraphRead};
use isomer_value::Map;

#[test]
fn a_label_that_was_absent_and_is_used_concurrently_is_a_conflict() {
    let store = memory();
    let mut first = store.begin(Access::Write).unwrap();
    assert_eq!(first.name_ids().find_label("New"), None);
    let mut second = store.begin(Access::Write).unwrap();
    let label = second.name_ids().intern_label("New").unwrap();
    second
        .graph_mut()
        .create_node(&[label], &Map::new())
        .unwrap();
    second.commit().unwrap();
    let label = first.name_ids().intern_label("New").unwrap();
    first
        .graph_mut()
        .create_node(&[label], &Map::new())
        .unwrap();
    assert_eq!(first.commit().unwrap_err().kind(), ErrorKind::Retry);
}

#[test]
fn a_property_that_was_absent_and_is_set_concurrently_is_a_conflict() {
    let store = memory();
    let mut setup = store.begin(Access::Write).unwrap();
    let label = setup.name_ids().intern_label("A").unwrap();
    let node = setup
        .graph_mut()
        .create_node(&[label], &Map::new())
        .unwrap();
    setup.commit().unwrap();

    let mut first = store.begin(Access::Write).unwrap();
    assert_eq!(first.name_ids().find_prop("flag"), None);
    first
        .graph_mut()
        .create_node(&[label], &map(&[("seen", int(0))]))
        .unwrap();
    let mut second = store.begin(Access::Write).unwrap();
    second
        .graph_mut()
        .set_node_property(node, &["flag"], int(1))
        .unwrap();
    second.commit().unwrap();
    assert_eq!(first.commit().unwrap_err().kind(), ErrorKind::Retry);
}

#[test]
fn other_new_names_are_not_a_conflict() {
    let store = memory();
    let mut first = store.begin(Access::Write).unwrap();
    assert_eq!(first.name_ids().find_type("ABSENT"), None);
    let mut second = store.begin(Access::Write).unwrap();
    let label = second.name_ids().intern_label("ABSENT").unwrap();
    second
        .graph_mut()
        .create_node(&[label], &map(&[("other", int(1))]))
        .unwrap();
    second.commit().unwrap();
    let label = first.name_ids().intern_label("Mine").unwrap();
    first
        .graph_mut()
        .create_node(&[label], &Map::new())
        .unwrap();
    first.commit().unwrap();
}

#[test]
fn a_read_transaction_finds_what_is_there() {
    let store = memory();
    let reader = store.begin(Access::Read).unwrap();
    assert_eq!(reader.name_ids().find_label("New"), None);
    let writer = store.begin(Access::Write).unwrap();
    let label = writer.name_ids().intern_label("New").unwrap();
    writer.commit().unwrap();
    assert_eq!(reader.name_ids().find_label("New"), Some(label));
    assert_eq!(reader.exact_node_count(Some(label)).unwrap(), 0);
}

#[test]
fn looking_up_and_then_inserting_a_document_does_not_conflict_with_itself() {
    let store = memory();
    let mut tx = store.begin(Access::Write).unwrap();
    assert_eq!(tx.documents().get("New", &int(1)).unwrap(), None);
    tx.documents_mut()
        .insert("New", &map(&[("_key", int(1))]))
        .unwrap();
    tx.commit().unwrap();
}
