//! Damaged, forged and foreign frames leave a database that is not a replica unchanged.

use isomer_data::{Access, DataStore};
use isomer_db::{Database, internals::DatabaseInternals as _};
use isomer_replication::ReplicatedSpace;
use isomer_sync::{Local, PeerConnection, Result, answer, exchange, scrub};
use xxhash_rust::xxh3::Xxh3;

/// Bytes before the content of a frame.
const HEAD: usize = 27;

/// Kinds of frames, see `frame.rs`.
const GREET: u8 = 1;
const ENTRIES: u8 = 2;
const REFUSED: u8 = 127;

/// Pseudo-random numbers of a seed (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }
}

fn seal(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut frame = b"isomsync\x01".to_vec();
    frame.extend_from_slice(&[kind, 0]);
    for _ in 0..2 {
        frame.extend_from_slice(&(content.len() as u32).to_le_bytes());
    }
    let mut hasher = Xxh3::new();
    hasher.update(&frame);
    hasher.update(content);
    frame.extend_from_slice(&hasher.digest().to_le_bytes());
    frame.extend_from_slice(content);
    frame
}

fn open_frame(frame: &[u8]) -> (u8, Vec<u8>) {
    let unpacked = u32::from_le_bytes(frame[11..15].try_into().unwrap()) as usize;
    let content = match frame[10] {
        0 => frame[HEAD..].to_vec(),
        _ => lz4_flex::block::decompress(&frame[HEAD..], unpacked).unwrap(),
    };
    (frame[9], content)
}

/// A peer that records its requests.
struct Recorder {
    peer: Local,
    asked: Vec<Vec<u8>>,
}

impl PeerConnection for Recorder {
    fn name(&self) -> &str {
        self.peer.name()
    }

    fn request(&mut self, frame: &[u8]) -> Result<Vec<u8>> {
        self.asked.push(frame.to_vec());
        self.peer.request(frame)
    }
}

fn plain() -> (Database, DataStore) {
    let database = Database::open_in_memory().unwrap();
    database
        .query("CREATE (:P {_key: 1})-[:R]->(:P {_key: 2})")
        .unwrap();
    let store = database.store().unwrap();
    (database, store)
}

/// Requests of every kind, as real exchanges send them.
fn recorded() -> Vec<Vec<u8>> {
    let mut asked = Vec::new();
    for (full, empty) in [
        (plain().0, Database::open_in_memory().unwrap()),
        (Database::open_in_memory().unwrap(), plain().0),
    ] {
        let (store, other) = (full.store().unwrap(), empty.store().unwrap());
        isomer_replication::begin_replication(&store).unwrap();
        let mut peer = Recorder {
            peer: Local::new("peer", &empty).unwrap(),
            asked: Vec::new(),
        };
        exchange(&store, &mut peer, &mut |_| ()).unwrap();
        full.query("CREATE (:P {_key: 3, text: 'new'})").unwrap();
        empty
            .query("CREATE (p:P {_key: 4}) SET p.n = counter.add(p.n, 1)")
            .unwrap();
        exchange(&store, &mut peer, &mut |_| ()).unwrap();
        // Data that one of the two lost is repaired: all kinds of requests are sent.
        assert!(other.is_replicated());
        scrub(&store, &mut peer, &mut |_| ()).unwrap();
        asked.append(&mut peer.asked);
    }
    let ranges: Vec<u8> = (0..4096_u16).flat_map(u16::to_le_bytes).collect();
    asked.extend([seal(7, &ranges), seal(8, &[]), seal(4, &[])]);
    asked
}

/// What a damaged or forged frame may be made of.
fn mutated(frames: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let frame = &frames[numbers.below(frames.len() as u64) as usize];
    let other = &frames[numbers.below(frames.len() as u64) as usize];
    let (kind, mut content) = open_frame(frame);
    let mut anywhere = |length: usize| numbers.below(length.max(1) as u64) as usize;
    match anywhere(8) {
        0 => return frame[..anywhere(frame.len())].to_vec(),
        1 => {
            let mut damaged = frame.clone();
            let at = anywhere(damaged.len());
            damaged[at] ^= 1 << anywhere(8);
            return damaged;
        }
        2 => return (0..anywhere(200)).map(|_| anywhere(256) as u8).collect(),
        // These get a new checksum: their content has changed.
        3 => content.truncate(anywhere(content.len())),
        4 => {
            for _ in 0..1 + anywhere(3) {
                let at = anywhere(content.len());
                if let Some(byte) = content.get_mut(at) {
                    *byte = anywhere(256) as u8;
                }
            }
        }
        5 => content = open_frame(other).1,
        6 => {
            let theirs = open_frame(other).1;
            content.truncate(anywhere(content.len()));
            content.extend_from_slice(&theirs[anywhere(theirs.len())..]);
        }
        _ => return seal(anywhere(256) as u8, &content),
    }
    seal(kind, &content)
}

/// Twenty thousand frames, truncated, damaged, forged and mixed: a database that is not a replica is unchanged after
/// it refuses one, and refuses all except greetings.
#[test]
fn only_a_greeting_makes_a_replica() {
    let frames = recorded();
    for wanted in 1..=8 {
        assert!(
            frames.iter().any(|frame| frame[9] == wanted),
            "no frame of kind {wanted}"
        );
    }
    let quick = std::env::var_os("ISOMER_TEST_QUICK").is_some();
    let tries = if quick { 2_000 } else { 20_000 };
    let mut numbers = Numbers(26);
    let (mut database, mut store) = plain();
    let (mut refused, mut greeted) = (0, 0);
    for number in 0..tries {
        let frame = match frames.get(number) {
            Some(frame) => frame.clone(),
            None => mutated(&frames, &mut numbers),
        };
        let before = store.engine().version();
        let (kind, said) = open_frame(&answer(&store, &frame));
        if !store.is_replicated() {
            assert_eq!(kind, REFUSED, "frame {number}");
            assert_eq!(
                store.engine().version(),
                before,
                "frame {number} wrote something"
            );
            assert_eq!(store.replica(), None, "frame {number}");
            refused += 1;
            continue;
        }
        greeted += 1;
        assert!(
            [GREET, ENTRIES].contains(&frame[9]),
            "frame {number}: {}",
            String::from_utf8_lossy(&said)
        );
        (database, store) = plain();
    }
    assert!(
        greeted > 0 && refused > tries / 2,
        "{greeted} greeted, {refused} refused"
    );
    // It is unchanged.
    let found = database
        .query("MATCH (:P {_key: 1})-[:R]->(p:P) RETURN p._key AS k")
        .unwrap();
    assert_eq!(found.rows()[0].get::<i64>("k").unwrap(), 2);
    assert_eq!(isomer_replication::replica_members(&store).unwrap(), []);
}

/// A valid greeting of a replica of another part of a database, or under this database's own id, is refused before
/// anything is written.
#[test]
fn invalid_greetings_make_no_replica() {
    let (_database, store) = plain();
    let spaced = Database::open_in_memory().unwrap();
    let spaced = spaced.store().unwrap();
    isomer_replication::declare_space(
        &spaced,
        &ReplicatedSpace {
            name: "team".into(),
            labels: ["Task".to_owned()].into(),
            rel_types: Default::default(),
            buckets: Default::default(),
        },
    )
    .unwrap();
    isomer_replication::begin_replication(&spaced).unwrap();
    let before = store.engine().version();
    let refuses = |greeting: &[u8], wanted: &str| {
        let (kind, said) = open_frame(&answer(&store, &seal(ENTRIES, greeting)));
        let said = String::from_utf8_lossy(&said).into_owned();
        assert_eq!(kind, REFUSED, "{said}");
        assert!(said.contains(wanted), "{said}");
        assert!(!store.is_replicated());
    };
    refuses(
        &isomer_replication::greeting(&spaced).unwrap(),
        "do not replicate the same",
    );
    assert_eq!(store.engine().version(), before);
    // It has an id since it wrote a convergent field.
    let mut tx = store.begin(Access::Write).unwrap();
    let label = tx.name_ids().intern_label("P").unwrap();
    let node = tx
        .graph_mut()
        .create_node(&[label], &isomer_db::Map::new())
        .unwrap();
    let (owner, count) = (
        isomer_data::ConvergentOwner::Node(node),
        isomer_data::ConvergentOp::Count(1),
    );
    tx.fields_mut()
        .converge(owner, &["n"], &count, None)
        .unwrap();
    tx.commit().unwrap();
    let own = store.replica().unwrap().to_bytes();
    let other = Database::open_in_memory().unwrap();
    let other = other.store().unwrap();
    let name = isomer_replication::begin_replication(&other)
        .unwrap()
        .to_bytes();
    let greeting = isomer_replication::greeting(&other).unwrap();
    let at = greeting
        .windows(name.len())
        .position(|bytes| bytes == name)
        .unwrap();
    let mut forged = greeting.clone();
    forged[at..at + own.len()].copy_from_slice(&own);
    refuses(&forged, "own name");
    let (kind, _) = open_frame(&answer(&store, &seal(ENTRIES, &greeting)));
    assert_ne!(kind, REFUSED);
    assert!(store.is_replicated());
}
