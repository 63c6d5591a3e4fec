//! Adjacency views through the reader, operation by operation. The model test is in `model.rs`.

use std::sync::Arc;

use isomer_data::{
    Access, DataStore, DataStoreOptions, Direction, GraphRead, Neighbours, RelRow, Transaction,
};
use isomer_storage::MemoryEngine;
use isomer_value::{LabelId, Map, NodeId, TypeId};
use isomer_views::{AdjacencySide, ViewKind, ViewOptions, ViewReader, ViewState, Views};

struct Fixture {
    store: DataStore,
    views: Arc<Views>,
    label: LabelId,
    knows: TypeId,
}

fn fixture() -> Fixture {
    let store =
        DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default()).unwrap();
    let mut options = ViewOptions::default();
    options.demand = 1;
    let views = Views::open(&store, options).unwrap();
    let tx = store.begin(Access::Write).unwrap();
    Fixture {
        label: tx.name_ids().intern_label("Person").unwrap(),
        knows: tx.name_ids().intern_type("KNOWS").unwrap(),
        store,
        views,
    }
}

impl Fixture {
    fn write<T>(&self, body: impl FnOnce(&mut Transaction) -> T) -> T {
        let mut tx = self.store.begin(Access::Write).unwrap();
        let answer = body(&mut tx);
        tx.commit().unwrap();
        answer
    }

    fn people(&self, count: usize) -> Vec<NodeId> {
        self.write(|tx| {
            let make = |_| {
                tx.graph_mut()
                    .create_node(&[self.label], &Map::new())
                    .unwrap()
            };
            (0..count).map(make).collect()
        })
    }

    fn know(&self, source: NodeId, target: NodeId) {
        self.write(|tx| {
            tx.graph_mut()
                .create_relationship(self.knows, source, target, &Map::new())
                .unwrap()
        });
    }

    fn state(&self, side: AdjacencySide) -> ViewState {
        let kind = ViewKind::Adjacency(self.knows, side);
        let all = self.views.status();
        let one = all.iter().find(|status| status.kind == kind);
        one.map_or(ViewState::Absent, |status| status.state)
    }

    /// Compares the result of views with that of rows.
    fn expand(&self, tx: &Transaction, nodes: &[NodeId], direction: Direction) -> Vec<Vec<RelRow>> {
        let at = self.views.at(tx);
        let reader = ViewReader::new(tx, &at);
        let groups = |read: &dyn GraphRead| {
            let mut found = Neighbours::new();
            read.expand(nodes, direction, &[self.knows], &mut found)
                .unwrap();
            (0..found.len())
                .map(|at| found.of(at).to_vec())
                .collect::<Vec<_>>()
        };
        let answer = groups(&reader);
        assert_eq!(answer, groups(tx));
        answer
    }
}

#[test]
fn a_view_is_made_on_demand_and_follows_commits() {
    let fixture = fixture();
    let nodes = fixture.people(5);
    fixture.know(nodes[0], nodes[1]);
    fixture.know(nodes[0], nodes[1]);
    fixture.know(nodes[2], nodes[2]);
    let before = fixture.store.begin(Access::Read).unwrap();
    assert_eq!(fixture.expand(&before, &nodes, Direction::Both)[0].len(), 2);
    fixture.views.wait_ready();
    assert_eq!(fixture.state(AdjacencySide::Out), ViewState::Standing);
    assert_eq!(fixture.state(AdjacencySide::In), ViewState::Standing);

    fixture.know(nodes[0], nodes[3]);
    fixture.know(nodes[4], nodes[0]);
    let after = fixture.store.begin(Access::Read).unwrap();
    for (tx, out, into) in [(&before, 2, 0), (&after, 3, 1)] {
        assert_eq!(
            fixture.expand(tx, &nodes, Direction::Outgoing)[0].len(),
            out
        );
        assert_eq!(
            fixture.expand(tx, &nodes, Direction::Incoming)[0].len(),
            into
        );
        assert_eq!(fixture.expand(tx, &nodes, Direction::Both)[2].len(), 1);
        let at = fixture.views.at(tx);
        let adjacency = at
            .adjacency(Some(fixture.knows), AdjacencySide::Out)
            .unwrap();
        let mut scratch = Vec::new();
        let expected: &[u32] = if out == 2 { &[1, 1] } else { &[1, 1, 3] };
        assert_eq!(adjacency.neighbours(0, &mut scratch), expected);
        assert_eq!(adjacency.degree(0), out as u32);
        // The reader's snapshot is older; later commits may or may not be applied by then.
        assert!(adjacency.id_bound() >= if out == 2 { 3 } else { 5 });
    }

    // A deleted relationship disappears for later readers only.
    fixture.write(|tx| {
        let mut found = Neighbours::new();
        tx.expand(&nodes[..1], Direction::Outgoing, &[], &mut found)
            .unwrap();
        tx.graph_mut()
            .delete_relationship(found.of(0)[0].id)
            .unwrap()
    });
    let last = fixture.store.begin(Access::Read).unwrap();
    assert_eq!(
        fixture.expand(&last, &nodes, Direction::Outgoing)[0].len(),
        2
    );
    assert_eq!(
        fixture.expand(&after, &nodes, Direction::Outgoing)[0].len(),
        3
    );
    assert_eq!(fixture.state(AdjacencySide::Out), ViewState::Standing);
}

#[test]
fn own_writes_are_asked_of_the_rows() {
    let fixture = fixture();
    let nodes = fixture.people(3);
    fixture.know(nodes[0], nodes[1]);
    fixture
        .views
        .make(&ViewKind::Adjacency(fixture.knows, AdjacencySide::Out))
        .unwrap();
    let mut tx = fixture.store.begin(Access::Write).unwrap();
    tx.graph_mut()
        .create_relationship(fixture.knows, nodes[0], nodes[2], &Map::new())
        .unwrap();
    let own = tx
        .graph_mut()
        .create_node(&[fixture.label], &Map::new())
        .unwrap();
    tx.graph_mut()
        .create_relationship(fixture.knows, own, nodes[2], &Map::new())
        .unwrap();
    let found = fixture.expand(
        &tx,
        &[nodes[0], own, nodes[1], NodeId(1 << 40)],
        Direction::Outgoing,
    );
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1, 0, 0]);
}

#[test]
fn cleared_views_are_rows() {
    let fixture = fixture();
    let nodes = fixture.people(2);
    fixture.know(nodes[0], nodes[1]);
    let kind = ViewKind::Adjacency(fixture.knows, AdjacencySide::Out);
    fixture.views.make(&kind).unwrap();
    assert_eq!(fixture.state(AdjacencySide::Out), ViewState::Standing);
    let tx = fixture.store.begin(Access::Read).unwrap();
    let at = fixture.views.at(&tx);
    let held = at
        .adjacency(Some(fixture.knows), AdjacencySide::Out)
        .unwrap();
    fixture.views.clear();
    assert_eq!(fixture.state(AdjacencySide::Out), ViewState::Absent);
    assert_eq!(held.degree(0), 1);
    assert_eq!(fixture.expand(&tx, &nodes, Direction::Outgoing)[0].len(), 1);
    fixture.views.close();
    assert_eq!(fixture.expand(&tx, &nodes, Direction::Outgoing)[0].len(), 1);
    assert!(!fixture.views.at(&tx).is_enabled());
}
