//! Exchanges between two databases in one process.

use isomer_data::{Access, ConvergentOp, ConvergentOwner};
use isomer_db::{Database, Durability, Value, internals::DatabaseInternals as _};
use isomer_sync::{Local, PeerConnection, Result, SyncError, exchange, scrub};

/// A peer that records its requests, and disconnects after a number of them.
struct Watched {
    peer: Local,
    asked: usize,
    gone_after: usize,
}

impl Watched {
    fn new(database: &Database) -> Self {
        Self {
            peer: Local::new("peer", database).unwrap(),
            asked: 0,
            gone_after: usize::MAX,
        }
    }
}

impl PeerConnection for Watched {
    fn name(&self) -> &str {
        self.peer.name()
    }

    fn request(&mut self, frame: &[u8]) -> Result<Vec<u8>> {
        self.asked += 1;
        if self.asked > self.gone_after {
            return Err(SyncError::Unreachable {
                peer: self.name().to_owned(),
                reason: "the cable was pulled".into(),
            });
        }
        self.peer.request(frame)
    }
}

/// Adds elements of 200 bytes to a set in a map, and increments a counter.
fn fill(database: &Database, count: usize) {
    let store = database.store().unwrap();
    let mut tx = store.begin(Access::Write).unwrap();
    let label = tx.name_ids().intern_label("Owner").unwrap();
    let mut properties = isomer_db::Map::new();
    properties.insert("_key", Value::from("owner"));
    let node = tx.graph_mut().create_node(&[label], &properties).unwrap();
    tx.commit().unwrap();
    for first in (0..count).step_by(2_500) {
        let mut tx = store.begin(Access::Write).unwrap();
        for number in first..(first + 2_500).min(count) {
            let element = Value::from(format!("{number:0>200}").as_str());
            tx.fields_mut()
                .converge(
                    ConvergentOwner::Node(node),
                    &["map", "set"],
                    &ConvergentOp::Insert(element),
                    None,
                )
                .unwrap();
        }
        let count = ConvergentOp::Count(1);
        tx.fields_mut()
            .converge(ConvergentOwner::Node(node), &["map", "count"], &count, None)
            .unwrap();
        tx.commit_with(Durability::Buffered).unwrap();
    }
}

fn held(database: &Database) -> (i64, i64) {
    let rows = database
        .query("MATCH (o:Owner) RETURN size(o.map.set) AS size, o.map.count AS count")
        .unwrap();
    let row = rows.single().unwrap();
    (row.get("size").unwrap(), row.get("count").unwrap())
}

fn two(folder: &std::path::Path) -> (Database, Database) {
    (
        Database::open(folder.join("one")).unwrap(),
        Database::open(folder.join("other")).unwrap(),
    )
}

/// Replicas with the same state exchange two greetings and an empty page, whatever their size.
#[test]
fn equal_replicas_exchange_only_the_handshake() {
    let mut sizes = Vec::new();
    for count in [50, 5_000] {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = two(folder.path());
        let (from, to) = (one.store().unwrap(), other.store().unwrap());
        isomer_replication::begin_replication(&from).unwrap();
        isomer_replication::begin_replication(&to).unwrap();
        fill(&one, count);
        let mut peer = Watched::new(&one);
        let first = exchange(&to, &mut peer, &mut |_| ()).unwrap();
        assert!(first.received > 0);
        assert_eq!(held(&other), held(&one));

        peer.asked = 0;
        let again = exchange(&to, &mut peer, &mut |_| ()).unwrap();
        assert_eq!((again.received, again.sent, again.pages), (0, 0, 0));
        assert_eq!(peer.asked, 2, "what it lacks, and what the peer has");
        let page = isomer_replication::entries_for(
            &from,
            &isomer_replication::greeting(&to).unwrap(),
            1 << 20,
        )
        .unwrap();
        // Its format, no names of four kinds, no replicas, and nothing after them.
        assert_eq!(page, [3, 0, 0, 0, 0, 0]);
        sizes.push(again.bytes);
    }
    // Numbers of transactions may take a byte more.
    assert!(sizes[1] <= sizes[0] + 8, "{sizes:?} bytes were exchanged");
}

/// A state of several pages is produced while it is joined. A peer that disconnects ends it with an error, and the
/// transfer is repeated.
#[test]
fn pages_of_a_state_are_produced_while_others_are_joined() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = two(folder.path());
    fill(&one, 15_000);
    let (from, to) = (one.store().unwrap(), other.store().unwrap());
    isomer_replication::begin_replication(&from).unwrap();
    isomer_replication::begin_replication(&to).unwrap();

    let mut peer = Watched::new(&one);
    peer.gone_after = 3; // entries, and two pages
    let broken = exchange(&to, &mut peer, &mut |_| ()).unwrap_err();
    assert!(
        broken.to_string().contains("the cable was pulled"),
        "{broken}"
    );
    assert!(to.is_joining());
    let error = other.query("MATCH (n) RETURN n").unwrap_err();
    assert_eq!(error.kind(), isomer_db::ErrorKind::Unavailable);

    let mut peer = Watched::new(&one);
    let mut steps = Vec::new();
    let done = exchange(&to, &mut peer, &mut |so_far| {
        steps.push((so_far.pages, so_far.bytes));
    })
    .unwrap();
    assert!(done.joined && done.pages >= 3, "{done:?}");
    assert!(!to.is_joining());
    assert!(steps.is_sorted(), "progress is monotonic: {steps:?}");
    assert!(done.bytes >= steps.last().unwrap().1);
    assert_eq!(held(&other), (15_000, 6));
    assert_eq!(held(&one), (15_000, 6));
    assert_eq!(scrub(&to, &mut peer, &mut |_| ()).unwrap(), 0);

    // Data from before joining is compared: what one removed does not reappear.
    one.query((
        "MATCH (o:Owner) SET o.map.set = set.remove(o.map.set, $e)",
        isomer_db::params! {
            "e" => format!("{:0>200}", 7).as_str()
        },
    ))
    .unwrap();
    exchange(&to, &mut peer, &mut |_| ()).unwrap();
    assert_eq!(held(&other), (14_999, 6));
}

/// An index follows when another replica makes its property convergent. If it cannot hold the values, lookups scan
/// the records and find them, also with plans that were made before.
#[test]
fn an_indexed_property_that_becomes_convergent_elsewhere_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = two(folder.path());
    let (from, to) = (one.store().unwrap(), other.store().unwrap());
    isomer_replication::begin_replication(&from).unwrap();
    isomer_replication::begin_replication(&to).unwrap();
    one.query("UNWIND range(1, 50) AS k CREATE (:Post {_key: k})")
        .unwrap();
    let mut peer = Watched::new(&one);
    exchange(&to, &mut peer, &mut |_| ()).unwrap();
    other
        .query("CREATE INDEX FOR (p:Post) ON (p.likes)")
        .unwrap();
    other
        .query("MATCH (p:Post {_key: 7}) SET p.likes = 5")
        .unwrap();
    let wanted = "MATCH (p:Post) WHERE p.likes = 5 RETURN p._key AS k ORDER BY k";
    let found = |database: &Database| -> Vec<i64> {
        let rows = database.query(wanted).unwrap();
        rows.iter().map(|row| row.get("k").unwrap()).collect()
    };
    assert_eq!(found(&other), [7]);
    let seeks = |database: &Database| {
        let plan = database.query(&format!("EXPLAIN {wanted}")).unwrap();
        format!("{plan:?}").contains("IndexSeek")
    };
    assert!(seeks(&other));

    one.query(
        "MATCH (p:Post) WHERE p._key > 40 SET p.likes = counter.add(p.likes, p._key % 2 + 4)",
    )
    .unwrap();
    exchange(&to, &mut peer, &mut |_| ()).unwrap();
    assert_eq!(found(&other), [7, 41, 43, 45, 47, 49]);
    assert_eq!(found(&one), found(&other));
    assert!(seeks(&other), "the index follows");
    other
        .query("MATCH (p:Post {_key: 41}) SET p.likes = counter.add(p.likes, 0)")
        .unwrap();
    one.query("MATCH (p:Post {_key: 41}) SET p.likes = counter.add(p.likes, 1)")
        .unwrap();
    exchange(&to, &mut peer, &mut |_| ()).unwrap();
    assert_eq!(found(&other), [7, 43, 45, 47, 49]);
    assert!(seeks(&other));
    let refused = other
        .query("MATCH (p:Post {_key: 3}) SET p.likes = set.add(p.likes, 5)")
        .unwrap_err();
    assert!(refused.to_string().contains("indexed by"), "{refused}");
    one.query("MATCH (p:Post {_key: 3}) SET p.likes = set.add(p.likes, 5)")
        .unwrap();
    exchange(&to, &mut peer, &mut |_| ()).unwrap();
    assert!(!seeks(&other), "a set is not in it");
    assert_eq!(found(&other), [7, 43, 45, 47, 49]);
    assert_eq!(other.check().run().unwrap(), Vec::<String>::new());
    let refused = one
        .query("CREATE INDEX FOR (p:Post) ON (p.likes)")
        .unwrap_err();
    assert!(refused.to_string().contains("is a convergent"), "{refused}");
}

/// An incomplete join is completed when the other side exchanges, too: it pushes its state, and pulls what was
/// written here before.
#[test]
fn an_exchange_from_the_other_side_completes_a_join() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = two(folder.path());
    fill(&one, 15_000);
    other.query("CREATE (:Own {_key: 1})").unwrap();
    let (from, to) = (one.store().unwrap(), other.store().unwrap());
    isomer_replication::begin_replication(&from).unwrap();
    isomer_replication::begin_replication(&to).unwrap();
    let mut peer = Watched::new(&one);
    peer.gone_after = 3; // entries, and two pages
    exchange(&to, &mut peer, &mut |_| ()).unwrap_err();
    assert!(to.is_joining());
    let status = isomer_sync::report(&to)
        .unwrap()
        .expect("a replica")
        .lines()
        .join("\n");
    assert!(status.contains("JOINING a snapshot since"), "{status}");

    let done = exchange(&from, &mut Watched::new(&other), &mut |_| ()).unwrap();
    assert!(done.pages >= 3, "{done:?}");
    assert!(!to.is_joining());
    assert_eq!(held(&other), (15_000, 6));
    for database in [&one, &other] {
        let rows = database
            .query("MATCH (n:Own) RETURN count(n) AS n")
            .unwrap();
        assert_eq!(rows.rows()[0].get::<i64>("n").unwrap(), 1);
    }
}

/// After an exchange neither side lists the other one as behind.
#[test]
fn after_an_exchange_neither_side_lists_the_other_as_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = two(folder.path());
    let (from, to) = (one.store().unwrap(), other.store().unwrap());
    isomer_replication::begin_replication(&from).unwrap();
    for database in [&one, &other] {
        database.query("CREATE (:P)").unwrap();
    }
    let mut peer = Watched::new(&other);
    for round in 0..2 {
        exchange(&from, &mut peer, &mut |_| ()).unwrap();
        for store in [&from, &to] {
            let members = isomer_replication::replica_members(store).unwrap();
            assert_eq!(members.len(), 1);
            assert_eq!(members[0].lacks, 0, "round {round}");
        }
        one.query("CREATE (:P)").unwrap();
        other.query("CREATE (:P)").unwrap();
    }
}
