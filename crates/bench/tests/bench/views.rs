//! Read views of the generated network: exact, and within their size limits.

use isomer_bench::{
    Network,
    load::{FRIEND, PERSON, load_friendships, load_people},
    network,
};
use isomer_db::{
    Database,
    internals::{
        DatabaseInternals as _,
        data::{Access, GraphRead},
        views::{AdjacencySide, ViewKind},
    },
};

#[test]
fn adjacency_of_the_network_takes_few_bytes() {
    let mut network = Network::of_people(20_000, network::DEFAULT_SEED);
    let db = Database::open_in_memory().unwrap();
    load_people(&db, &network, &mut ()).unwrap();
    load_friendships(&db, &network, &mut ()).unwrap();
    let edges = network.take_edges();
    let store = db.store().unwrap();
    let catalog = store.catalog();
    let friend = catalog.type_id(FRIEND).unwrap();
    let views = db.views();
    let bytes_each = |side: AdjacencySide| {
        let kind = ViewKind::Adjacency(friend, side);
        let all = views.status();
        let view = all.iter().find(|view| view.kind == kind).unwrap();
        assert_eq!(view.count, edges.len() as u64);
        view.bytes as f64 / view.count as f64
    };
    for side in AdjacencySide::BOTH {
        let kind = ViewKind::Adjacency(friend, side);
        views.make_plain(&kind).unwrap();
        let plain = bytes_each(side);
        assert!(plain <= 5.0, "{plain} bytes a relationship");
    }
    views.clear();
    for side in AdjacencySide::BOTH {
        views.make(&ViewKind::Adjacency(friend, side)).unwrap();
        let with_ids = bytes_each(side);
        assert!(with_ids <= 10.0, "{with_ids} bytes a relationship");
    }

    // Every person's neighbours are the network's.
    let tx = store.begin(Access::Read).unwrap();
    let mut ids = Vec::new();
    let person = catalog.label_id(PERSON).unwrap();
    tx.scan_nodes(Some(person), None, usize::MAX, &mut ids)
        .unwrap();
    assert_eq!(ids.len(), 20_000);
    let first = ids[0].0 as u32;
    let at = views.at(&tx);
    let adjacency = at.adjacency(Some(friend), AdjacencySide::Out).unwrap();
    let mut scratch = Vec::new();
    for group in edges.chunk_by(|a, b| a.0 == b.0) {
        let targets: Vec<u32> = group.iter().map(|edge| edge.1 + first).collect();
        let found = adjacency.neighbours(group[0].0 + first, &mut scratch);
        assert_eq!(found, targets);
    }
}
