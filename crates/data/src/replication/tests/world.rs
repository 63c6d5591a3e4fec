//! Databases that write, exchange pages over a bad network, join one another's states and are opened anew.

use std::sync::Arc;

use isomer_storage::{Engine, MemoryEngine};
use isomer_value::{Map, NodeId, RelId, Value};

use super::{
    dump::{dump, plain_lines},
    naive,
};
use crate::{
    Access, BucketKind, BucketOptions, ConvergentOp, ConvergentOwner, DataError, ErrorKind,
    GraphRead, KeyRange, Store, StoreOptions, Transaction,
    replication::{
        entry::Entry,
        wire::{self, Incoming},
    },
};

/// A seed's numbers (splitmix64).
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

pub(super) struct World {
    numbers: Numbers,
    engines: Vec<Arc<MemoryEngine>>,
    pub(super) stores: Vec<Option<Store>>,
    /// Pages under way, and for whom.
    network: Vec<(usize, Vec<u8>)>,
    /// All entries ever written, in the numbers of the archive.
    archive: Store,
    entries: Vec<Entry>,
    next: u64,
}

fn open(engine: &Arc<MemoryEngine>) -> Store {
    let engine: Arc<dyn Engine> = engine.clone();
    Store::open(engine, StoreOptions::default()).unwrap()
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let count = 3 + numbers.below(3) as usize;
        let engines: Vec<_> = (0..count).map(|_| Arc::new(MemoryEngine::new())).collect();
        let stores: Vec<_> = engines.iter().map(open).collect();
        for store in &stores {
            store.begin_replication().unwrap();
        }
        let archive = open(&Arc::new(MemoryEngine::new()));
        archive.begin_replication().unwrap();
        Self {
            numbers,
            engines,
            stores: stores.into_iter().map(Some).collect(),
            network: Vec::new(),
            archive,
            entries: Vec::new(),
            next: 0,
        }
    }

    fn store(&self, at: usize) -> &Store {
        self.stores[at].as_ref().unwrap()
    }

    pub(super) fn step(&mut self) {
        let count = self.stores.len() as u64;
        let at = self.numbers.below(count) as usize;
        let other = self.numbers.below(count) as usize;
        match self.numbers.below(21) {
            0..=8 => self.write(at),
            9..=12 if at != other => self.ask(at, other),
            13..=16 => self.deliver(),
            17 if at != other => self.join(at, other),
            18 => self.reopen(at),
            19 if !self.store(at).is_joining() => self.store(at).cut_log().unwrap(),
            _ => {}
        }
        for store in self.stores.iter().flatten() {
            check_halves(store);
        }
    }

    /// A transaction of several operations.
    fn write(&mut self, at: usize) {
        if self.store(at).is_joining() {
            return;
        }
        let store = self.store(at).clone();
        let mut tx = store.begin(Access::Write).unwrap();
        self.next += 1;
        let name = self.next.to_be_bytes();
        tx.kv_put("left", &name, b"1").unwrap();
        for _ in 0..1 + self.numbers.below(4) {
            let mark = tx.mark();
            if let Err(error) = self.operate(&mut tx, at) {
                let known = matches!(
                    error.kind(),
                    ErrorKind::Exists | ErrorKind::Invalid | ErrorKind::NotFound
                );
                assert!(known, "{error}");
                tx.rollback_to(mark).unwrap();
            }
        }
        tx.kv_put("right", &name, b"1").unwrap();
        if self.numbers.below(12) == 0 {
            return; // given up
        }
        tx.commit().unwrap();
        self.keep(at);
    }

    /// Keeps the newest entry of a store for the interpreter.
    fn keep(&mut self, at: usize) {
        let store = self.store(at);
        let page = store.last_entry_page().unwrap();
        let (mut map, mut items) = Incoming::open(&self.archive, &page).unwrap();
        while let Some((_, content)) = wire::take_item(&mut items).unwrap() {
            let entry = Entry::decode(content).unwrap();
            self.entries.push(wire::entry(&mut map, &entry).unwrap());
        }
    }

    fn operate(&mut self, tx: &mut Transaction, at: usize) -> Result<(), DataError> {
        let n = &mut self.numbers;
        let labels = ["L", "M"];
        let key = *n.of(&KEYS);
        let node = tx.document_node("L", &Value::from(key))?;
        let value = Value::Int((at as i64 + 1) * 1_000_000 + n.below(1000) as i64);
        let nodes = {
            let mut ids = Vec::new();
            tx.scan_nodes(None, None, 100, &mut ids)?;
            ids
        };
        let any: Option<NodeId> = (!nodes.is_empty()).then(|| *n.of(&nodes));
        let rels: Vec<RelId> = {
            let mut rows = Vec::new();
            tx.scan_relationships(None, None, 100, &mut rows)?;
            rows.iter().map(|row| row.id).collect()
        };
        let rel: Option<RelId> = (!rels.is_empty()).then(|| *n.of(&rels));
        match n.below(22) {
            0..=3 => {
                let label = tx.intern_label("L")?;
                let mut properties = Map::new();
                properties.insert("_key", Value::from(key));
                properties.insert("p", value);
                tx.create_node(&[label], &properties)?;
            }
            4 => {
                let mut properties = Map::new();
                properties.insert("q", value);
                let label = tx.intern_label(labels[n.below(2) as usize])?;
                tx.create_node(&[label], &properties)?;
            }
            5 | 6 => {
                if let Some(id) = node.or(any) {
                    tx.delete_node(id, true)?;
                }
            }
            7 | 8 => {
                if let Some(id) = any {
                    tx.set_node_property(id, &[*n.of(&["p", "q"])], value)?;
                }
            }
            9 => {
                if let Some(id) = any {
                    tx.set_node_property(id, &["p"], Value::Null)?;
                }
            }
            10 => {
                if let Some(id) = any {
                    let label = tx.intern_label("M")?;
                    match n.below(2) {
                        0 => tx.add_label(id, label)?,
                        _ => tx.remove_label(id, label)?,
                    };
                }
            }
            11 | 12 => {
                if let Some(source) = any {
                    let target = *n.of(&nodes);
                    let type_id = tx.intern_type("T")?;
                    let mut properties = Map::new();
                    properties.insert("w", value);
                    tx.create_relationship(type_id, source, target, &properties)?;
                }
            }
            13 => {
                if let Some(rel) = rel {
                    tx.set_relationship_property(rel, &["w"], value)?;
                }
            }
            14 => {
                if let Some(rel) = rel {
                    tx.delete_relationship(rel)?;
                }
            }
            15 | 16 => {
                let owner = match (rel, any) {
                    (Some(rel), _) if n.below(4) == 0 => ConvergentOwner::Relationship(rel),
                    (_, Some(id)) => ConvergentOwner::Node(id),
                    _ => return Ok(()),
                };
                let element = Value::from(*n.of(&KEYS));
                let (path, op): (&[&str], _) = match n.below(8) {
                    0 | 1 => (&["count"], ConvergentOp::Count(n.below(9) as i64 - 2)),
                    2 | 3 => (&["set"], ConvergentOp::Insert(element)),
                    4 => (&["set"], ConvergentOp::Remove(element)),
                    5 => (&["map", "set"], ConvergentOp::Insert(element)),
                    6 => (&["map"], ConvergentOp::Clear),
                    _ => (&["count"], ConvergentOp::Clear),
                };
                tx.converge(owner, path, &op, None)?;
            }
            17 | 18 => tx.kv_put("b", key.as_bytes(), format!("{value:?}").as_bytes())?,
            19 => tx.kv_delete("b", key.as_bytes())?,
            20 => {
                let range = KeyRange {
                    start: b"b",
                    end: Some(b"d"),
                };
                tx.kv_delete_range("b", range)?;
            }
            _ => {
                let options = BucketOptions {
                    kind: BucketKind::Multi,
                    reversible: false,
                };
                if !tx.list_buckets()?.iter().any(|(name, _)| &**name == "m") {
                    tx.create_bucket("m", options)?;
                }
                let value = *n.of(&KEYS);
                match n.below(3) {
                    0 => tx.kv_remove("m", key.as_bytes(), value.as_bytes())?,
                    _ => tx.kv_add("m", key.as_bytes(), value.as_bytes())?,
                }
            }
        }
        Ok(())
    }

    /// A page for `to` of what `from` has, by what `to` has now; it may come late, twice, or never.
    fn ask(&mut self, from: usize, to: usize) {
        let greeting = self.store(to).greeting().unwrap();
        let bytes = [200, 2000, 1 << 20][self.numbers.below(3) as usize];
        match self.store(from).entries_for(&greeting, bytes) {
            Ok(page) => {
                let page = match self.numbers.below(4) {
                    0 => self.without_one(&page),
                    _ => page,
                };
                self.network.push((to, page));
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }

    /// A page that has lost one of its items.
    fn without_one(&mut self, page: &[u8]) -> Vec<u8> {
        let items = wire::items(page).unwrap();
        let mut left = page[..page.len() - items.len()].to_vec();
        let (mut rest, mut ends) = (items, vec![0]);
        while wire::take_item(&mut rest).unwrap().is_some() {
            ends.push(items.len() - rest.len());
        }
        let lost = self.numbers.below(ends.len() as u64) as usize;
        for (at, two) in ends.windows(2).enumerate() {
            if at != lost {
                left.extend_from_slice(&items[two[0]..two[1]]);
            }
        }
        left
    }

    fn deliver(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let at = self.numbers.below(self.network.len() as u64) as usize;
        let (to, page) = match self.numbers.below(4) {
            0 => self.network[at].clone(), // and again
            _ => self.network.swap_remove(at),
        };
        if self.numbers.below(10) == 0 {
            return; // lost
        }
        self.apply(to, &page);
    }

    fn apply(&mut self, to: usize, page: &[u8]) {
        match self.store(to).apply_entries(page) {
            Ok(_) => {}
            // A process that ended meanwhile.
            Err(error) if error.kind() == ErrorKind::Unavailable => {}
            // Reordered: what comes before is still under way.
            Err(error) => assert!(error.to_string().contains("came before"), "{error}"),
        }
    }

    /// `to` joins the state of `from`, perhaps without the end.
    fn join(&mut self, from: usize, to: usize) {
        if self.store(from).is_joining() {
            return;
        }
        let bytes = [100, 1000, 1 << 20][self.numbers.below(3) as usize];
        let mut joining = self.store(to).begin_join().unwrap();
        for _ in 0..1 + self.numbers.below(40) {
            let page = self
                .store(from)
                .snapshot_page(joining.place(), bytes)
                .unwrap();
            if joining.join_page(self.store(to), &page).unwrap() {
                break;
            }
            if self.numbers.below(5) == 0 {
                self.write(from);
            }
        }
    }

    fn reopen(&mut self, at: usize) {
        self.stores[at] = None;
        self.stores[at] = Some(open(&self.engines[at]));
    }

    /// Everybody hears of everything.
    pub(super) fn settle(&mut self) {
        let count = self.stores.len();
        for round in 0..12 {
            let mut news = false;
            for from in 0..count {
                for to in (0..count).filter(|to| *to != from) {
                    news |= self.bring(from, to);
                }
            }
            if !news {
                return;
            }
            assert!(
                round < 11,
                "no rest: {:?}",
                self.stores
                    .iter()
                    .flatten()
                    .map(Store::is_joining)
                    .collect::<Vec<_>>()
            );
        }
    }

    fn bring(&mut self, from: usize, to: usize) -> bool {
        let mut news = false;
        for _ in 0..50 {
            let greeting = self.store(to).greeting().unwrap();
            let page = match self.store(from).entries_for(&greeting, 1 << 20) {
                Ok(page) => page,
                Err(error) if error.kind() == ErrorKind::Unavailable => return true,
                Err(error) => panic!("{error}"),
            };
            let applied = self.store(to).apply_entries(&page).unwrap();
            news |= applied.transactions > 0;
            if std::env::var_os("ISOMER_LOUD").is_some() {
                eprintln!(
                    "{from}->{to} {applied:?} joining {}",
                    self.store(to).is_joining()
                );
            }
            if applied.behind || self.store(to).is_joining() && !applied.more {
                news = true;
                let mut joining = self.store(to).begin_join().unwrap();
                loop {
                    let page = self
                        .store(from)
                        .snapshot_page(joining.place(), 1 << 20)
                        .unwrap();
                    if joining.join_page(self.store(to), &page).unwrap() {
                        break;
                    }
                }
            } else if !applied.more {
                break;
            }
        }
        news
    }

    /// All hold the same, and what the history says.
    pub(super) fn compare(&self) {
        let first = dump(self.store(0));
        for store in self.stores.iter().flatten() {
            assert!(!store.is_joining());
            assert_eq!(dump(store), first);
            check_halves(store);
            assert_eq!(store.check_convergent().unwrap(), Vec::<String>::new());
        }
        // Convergent fields have an interpreter of their own.
        assert_eq!(
            plain_lines(self.store(0)),
            naive::lines(&self.archive, &self.entries)
        );
    }
}

/// Every transaction puts its number into two buckets.
fn check_halves(store: &Store) {
    if store.is_joining() {
        return;
    }
    let tx = store.begin(Access::Read).unwrap();
    let keys = |bucket: &str| {
        let mut keys = Vec::new();
        let range = KeyRange {
            start: b"",
            end: None,
        };
        let limit = crate::PageLimit {
            keys: usize::MAX,
            bytes: usize::MAX,
        };
        tx.kv_scan_values(
            bucket,
            range,
            crate::Order::Ascending,
            limit,
            None,
            &mut |key, _| {
                keys.push(format!("{key:?}"));
            },
        )
        .unwrap();
        keys
    };
    assert_eq!(
        keys("left"),
        keys("right"),
        "half a transaction is to be seen"
    );
}
