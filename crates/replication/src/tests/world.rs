//! Databases that write, exchange pages over a bad network, join one another's states and are reopened.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_check::check;
use isomer_data::{
    Access, BucketKind, BucketOptions, Clock, ConvergentKind, ConvergentOp, ConvergentOwner,
    DataError, DataStore, DataStoreOptions, Direction, ErrorKind, FieldPath, GraphRead, IndexField,
    IndexSpec, KeyRange, Neighbours, RelRow, ReplicaId, SchemaChange, ScopeName, Transaction,
    internals::{convergent::seeded, own_replica},
};
use isomer_storage::{Engine, MemoryEngine};
use isomer_value::{Map, NodeId, RelId, Value};

use super::{
    dump::{dump, outside, plain_lines},
    files, naive,
    small::copy,
    volatile::Volatile,
};
use crate::{
    ReplicatedSpace, begin,
    entry::LogEntry,
    exchange, members, scope,
    state_transfer::{receive, send},
    wire::{self, Incoming},
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

    pub(super) fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

pub(super) struct World {
    clock: Arc<SteppingClock>,
    numbers: Numbers,
    /// The kind of all convergent fields, and then of half the operations; none: any.
    kind: Option<ConvergentKind>,
    /// Whether only a part of each database is replicated.
    is_spaced: bool,
    engines: Vec<Arc<Volatile>>,
    pub(super) stores: Vec<Option<DataStore>>,
    backups: Vec<Option<Arc<MemoryEngine>>>,
    /// Pages under way, with their receivers.
    network: Vec<(usize, Vec<u8>)>,
    /// All entries ever written, in the numbers of the archive.
    archive: DataStore,
    entries: Vec<LogEntry>,
    next: u64,
    /// Substitute names of files that were seen somewhere.
    substitute_paths: Vec<String>,
}

/// A shared clock that advances when it is read: many events have the same time.
#[derive(Debug, Default)]
struct SteppingClock(AtomicU64);

impl Clock for SteppingClock {
    fn now_ms(&self) -> u64 {
        1_700_000_000_000 + self.0.fetch_add(1, Ordering::Relaxed) / 16
    }

    fn passed_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed) / 16
    }
}

fn open(engine: Arc<dyn Engine>, clock: &Arc<SteppingClock>) -> DataStore {
    let mut options = DataStoreOptions::default();
    options.clock = clock.clone();
    crate::open(engine, options).unwrap()
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        seeded::begin(seed);
        let mut numbers = Numbers(seed);
        let clock = Arc::new(SteppingClock::default());
        let count = 3 + numbers.below(3) as usize;
        let new = |_| Volatile::new(Arc::new(MemoryEngine::new()));
        let engines: Vec<Arc<Volatile>> = (0..count).map(new).collect();
        let stores: Vec<_> = engines
            .iter()
            .map(|engine| open(engine.clone(), &clock))
            .collect();
        let is_spaced = (seed / 16).is_multiple_of(4);
        for store in &stores {
            if is_spaced {
                scope::declare_space(store, &space()).unwrap();
            }
            begin::begin_replication(store).unwrap();
            store.keep_endpoints("KEEPS", true).unwrap();
        }
        if numbers.below(3) == 0 {
            index(&stores[0], &ScopeName::label("L"), false);
            index(&stores[0], &ScopeName::rel_type("T"), false);
            // Some records of the others cannot be in them.
            index(&stores[1], &ScopeName::label("M"), true);
            index(&stores[1], &ScopeName::rel_type("KEEPS"), true);
        }
        let archive = open(Arc::new(MemoryEngine::new()), &clock);
        begin::begin_replication(&archive).unwrap();
        Self {
            clock,
            numbers,
            // Every other history is of all kinds, the others are of one.
            kind: (seed % 2 == 1).then(|| ConvergentKind::ALL[(seed / 2 % 8) as usize]),
            is_spaced,
            engines,
            stores: stores.into_iter().map(Some).collect(),
            backups: vec![None; count],
            network: Vec::new(),
            archive,
            entries: Vec::new(),
            next: 0,
            substitute_paths: Vec::new(),
        }
    }

    fn store(&self, at: usize) -> &DataStore {
        self.stores[at].as_ref().unwrap()
    }

    pub(super) fn step(&mut self) {
        let count = self.stores.len() as u64;
        let at = self.numbers.below(count) as usize;
        let other = self.numbers.below(count) as usize;
        // What was not changed was checked before.
        let touched = match self.numbers.below(25) {
            0..=8 => {
                self.write(at);
                [Some(at), None]
            }
            9..=12 if at != other => {
                self.ask(at, other);
                [Some(at), Some(other)]
            }
            13..=16 => [self.deliver(), None],
            17 if at != other => {
                self.transfer_state(at, other);
                [Some(at), Some(other)]
            }
            18 => {
                self.reopen(at);
                [Some(at), None]
            }
            19 if !self.store(at).is_joining() => {
                members::trim_log(self.store(at)).unwrap();
                [Some(at), None]
            }
            21 | 22 => {
                self.kill(at);
                [Some(at), None]
            }
            23 if !self.store(at).is_joining() => {
                self.backups[at] = Some(copy(self.store(at)));
                [None, None]
            }
            24 => {
                self.restore(at);
                [Some(at), None]
            }
            _ => [None, None],
        };
        for touched in touched.into_iter().flatten() {
            check_halves(self.store(touched));
            check_ends(self.store(touched));
        }
    }

    /// A transaction of several operations.
    fn write(&mut self, at: usize) {
        if self.store(at).is_joining() {
            return;
        }
        let store = self.store(at).clone();
        if self.is_spaced && self.numbers.below(4) == 0 {
            let mut tx = store.begin(Access::Write).unwrap();
            for _ in 0..1 + self.numbers.below(3) {
                self.operate_outside(&mut tx).unwrap();
            }
            match tx.commit() {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::Retry, "{error}"),
            }
        }
        let mut tx = store.begin(Access::Write).unwrap();
        self.next += 1;
        let name = self.next.to_be_bytes();
        tx.kv_mut().put("left", &name, b"1").unwrap();
        for _ in 0..1 + self.numbers.below(4) {
            let mark = tx.savepoint();
            if let Err(error) = self.operate(&mut tx, at) {
                let known = matches!(
                    error.kind(),
                    ErrorKind::Exists | ErrorKind::Invalid | ErrorKind::NotFound
                );
                assert!(known, "{error}");
                tx.rollback_to(mark).unwrap();
            }
        }
        if self.is_spaced && self.numbers.below(2) == 0 {
            self.operate_outside(&mut tx).unwrap();
        }
        tx.kv_mut().put("right", &name, b"1").unwrap();
        if self.numbers.below(12) == 0 {
            return; // given up
        }
        match tx.commit() {
            Ok(_) => self.keep(at),
            // It read which fields are indexed before a property became convergent, by its own operation.
            Err(error) => assert_eq!(error.kind(), ErrorKind::Retry, "{error}"),
        }
    }

    /// Keeps the newest entry of a store for the interpreter.
    fn keep(&mut self, at: usize) {
        let store = self.store(at);
        let page = exchange::last_entry_page(store).unwrap();
        let (mut map, mut items) = Incoming::open(&self.archive, &page).unwrap();
        while let Some((_, content)) = wire::take_item(&mut items).unwrap() {
            let entry = LogEntry::decode(content).unwrap();
            self.entries.push(entry.mapped(&mut map).unwrap());
        }
    }

    fn operate(&mut self, tx: &mut Transaction, at: usize) -> Result<(), DataError> {
        let is_spaced = self.is_spaced;
        let n = &mut self.numbers;
        if !is_spaced && n.below(4) == 0 {
            return files::operate(n, tx, &mut self.substitute_paths);
        }
        let labels = ["L", "M"];
        let key = *n.of(&KEYS);
        let node = tx.documents().node("L", &Value::from(key))?;
        let value = Value::Int((at as i64 + 1) * 1_000_000 + n.below(1000) as i64);
        let nodes = {
            let mut ids = Vec::new();
            tx.scan_nodes(None, None, 100, &mut ids)?;
            self.in_space(tx, ids)?
        };
        let n = &mut self.numbers;
        let any: Option<NodeId> = (!nodes.is_empty()).then(|| *n.of(&nodes));
        let rels: Vec<RelId> = {
            let mut rows = Vec::new();
            tx.scan_relationships(None, None, 100, &mut rows)?;
            let ends = |row: &&RelRow| nodes.contains(&row.source) && nodes.contains(&row.target);
            rows.iter().filter(ends).map(|row| row.id).collect()
        };
        let rel: Option<RelId> = (!rels.is_empty()).then(|| *n.of(&rels));
        let choice = match self.kind {
            Some(_) if n.below(2) == 0 => 15,
            _ => n.below(28),
        };
        match choice {
            0..=3 => {
                let label = tx.name_ids().intern_label("L")?;
                let mut properties = Map::new();
                properties.insert("_key", Value::from(key));
                properties.insert("p", value);
                tx.graph_mut().create_node(&[label], &properties)?;
            }
            4 => {
                let mut properties = Map::new();
                properties.insert("q", value);
                let label = tx.name_ids().intern_label(labels[n.below(2) as usize])?;
                tx.graph_mut().create_node(&[label], &properties)?;
            }
            5 | 6 => {
                if let Some(id) = node.or(any) {
                    tx.graph_mut().delete_node(id, true)?;
                }
            }
            7 | 8 => {
                if let Some(id) = any {
                    tx.graph_mut()
                        .set_node_property(id, &[*n.of(&["p", "q"])], value)?;
                }
            }
            9 => {
                if let Some(id) = any {
                    tx.graph_mut().set_node_property(id, &["p"], Value::Null)?;
                }
            }
            10 => {
                if let Some(id) = any {
                    let [l, m] = [
                        tx.name_ids().intern_label("L")?,
                        tx.name_ids().intern_label("M")?,
                    ];
                    match n.below(2) {
                        0 => tx.graph_mut().add_label(id, m)?,
                        // One of two, so that it does not leave the space; other replicas may remove the other one.
                        _ if is_spaced => {
                            let mut contents = Vec::new();
                            tx.node_contents(&[id], &mut contents)?;
                            let count = contents.pop().flatten().map(|own| own.labels.len());
                            match count == Some(2) {
                                true => tx.graph_mut().remove_label(id, *n.of(&[l, m]))?,
                                false => tx.graph_mut().add_label(id, m)?,
                            }
                        }
                        _ => tx.graph_mut().remove_label(id, m)?,
                    };
                }
            }
            11 | 12 => {
                if let Some(source) = any {
                    let target = *n.of(&nodes);
                    let type_name = *n.of(&["T", "KEEPS"]);
                    let type_id = tx.name_ids().intern_type(type_name)?;
                    let mut properties = Map::new();
                    properties.insert("w", value);
                    tx.graph_mut()
                        .create_relationship(type_id, source, target, &properties)?;
                }
            }
            13 => {
                if let Some(rel) = rel {
                    tx.graph_mut()
                        .set_relationship_property(rel, &["w"], value)?;
                }
            }
            14 => {
                if let Some(rel) = rel {
                    tx.graph_mut().delete_relationship(rel)?;
                }
            }
            15 | 16 => {
                let owner = match (rel, any) {
                    (Some(rel), _) if n.below(4) == 0 => ConvergentOwner::Relationship(rel),
                    (_, Some(id)) => ConvergentOwner::Node(id),
                    _ => return Ok(()),
                };
                let kind = match self.kind {
                    Some(kind) => kind,
                    None => *n.of(&ConvergentKind::ALL),
                };
                let (path, op) = field_operation(n, kind, value);
                tx.fields_mut().converge(owner, path, &op, None)?;
            }
            17 | 18 => tx
                .kv_mut()
                .put("b", key.as_bytes(), format!("{value:?}").as_bytes())?,
            19 => tx.kv_mut().delete("b", key.as_bytes())?,
            20 => {
                let range = KeyRange {
                    start: b"b",
                    end: Some(b"d"),
                };
                tx.kv_mut().delete_range("b", range)?;
            }
            21 | 22 => {
                let bucket = *n.of(&["b", "m"]);
                tx.kv_mut().drop_bucket(bucket)?;
            }
            23 | 24 => {
                let (kind, reversible) = *n.of(&[
                    (BucketKind::Map, false),
                    (BucketKind::Map, true),
                    (BucketKind::Multi, false),
                ]);
                let bucket = *n.of(&["b", "m"]);
                tx.kv_mut()
                    .create_bucket(bucket, BucketOptions::new(kind, reversible))?;
            }
            25 | 26 => {
                let (bucket, name) = (*n.of(&["b", "s"]), *n.of(&["x", "y"]));
                tx.kv_mut().sequence_next(bucket, name)?;
            }
            _ => {
                let options = BucketOptions::multi_value();
                if !tx
                    .kv()
                    .list_buckets()?
                    .iter()
                    .any(|(name, _)| &**name == "m")
                {
                    tx.kv_mut().create_bucket("m", options)?;
                }
                let value = *n.of(&KEYS);
                match n.below(3) {
                    0 => tx.kv_mut().remove("m", key.as_bytes(), value.as_bytes())?,
                    _ => tx.kv_mut().add("m", key.as_bytes(), value.as_bytes())?,
                }
            }
        }
        Ok(())
    }

    /// The nodes that are replicated.
    fn in_space(&self, tx: &Transaction, ids: Vec<NodeId>) -> Result<Vec<NodeId>, DataError> {
        if !self.is_spaced {
            return Ok(ids);
        }
        let mut contents = Vec::new();
        tx.node_contents(&ids, &mut contents)?;
        let is_own = |labels: &[Arc<str>]| labels.iter().any(|label| **label == *"Outside");
        let all = ids.into_iter().zip(contents);
        Ok(all
            .filter(|(_, content)| content.as_ref().is_some_and(|own| !is_own(&own.labels)))
            .map(|(id, _)| id)
            .collect())
    }

    /// A change that is not sent to any other replica.
    fn operate_outside(&mut self, tx: &mut Transaction) -> Result<(), DataError> {
        let mut nodes = Vec::new();
        tx.scan_nodes(None, None, 100, &mut nodes)?;
        let shared = self.in_space(tx, nodes.clone())?;
        nodes.retain(|id| !shared.contains(id));
        let n = &mut self.numbers;
        let value = Value::Int(n.below(1000) as i64);
        let own: Option<NodeId> = (!nodes.is_empty()).then(|| *n.of(&nodes));
        let other: Option<NodeId> = (!shared.is_empty()).then(|| *n.of(&shared));
        let key = *n.of(&KEYS);
        match (n.below(9), own, other) {
            (0 | 1, ..) | (_, None, _) => {
                let label = tx.name_ids().intern_label("Outside")?;
                let mut properties = Map::new();
                if tx.documents().node("Outside", &Value::from(key))?.is_none() {
                    properties.insert("_key", Value::from(key));
                }
                properties.insert("p", value);
                tx.graph_mut().create_node(&[label], &properties)?;
            }
            (2, Some(id), _) => drop(tx.graph_mut().delete_node(id, true)?),
            (3, Some(id), _) => drop(tx.graph_mut().set_node_property(id, &["p"], value)?),
            (4, Some(id), _) => {
                let owner = ConvergentOwner::Node(id);
                tx.fields_mut()
                    .converge(owner, &["own"], &ConvergentOp::Count(1), None)?;
            }
            (5, Some(id), Some(other)) => {
                let type_id = tx.name_ids().intern_type("T")?;
                tx.graph_mut()
                    .create_relationship(type_id, id, other, &Map::new())?;
            }
            (6, _, Some(other)) => {
                let type_id = tx.name_ids().intern_type("OUTSIDE")?;
                let target = *n.of(&shared);
                tx.graph_mut()
                    .create_relationship(type_id, other, target, &Map::new())?;
            }
            (7, ..) => {
                tx.kv_mut().put("outside", key.as_bytes(), b"1")?;
                tx.kv_mut().sequence_next("outside", "x")?;
            }
            _ => drop(tx.kv_mut().drop_bucket("outside")?),
        }
        Ok(())
    }

    /// Applies something from another replica, and compares the content outside the space with what it was before.
    fn merge<T>(&self, to: usize, body: impl FnOnce(&DataStore) -> T) -> T {
        if !self.is_spaced {
            return body(self.store(to));
        }
        let before = outside(self.store(to));
        let value = body(self.store(to));
        before.is_left_alone(&outside(self.store(to)));
        value
    }

    /// A page for `to` of what `from` has, by what `to` has now; it may arrive late, twice, or never.
    fn ask(&mut self, from: usize, to: usize) {
        let greeting = exchange::greeting(self.store(to)).unwrap();
        let bytes = [200, 2000, 1 << 20][self.numbers.below(3) as usize];
        match exchange::entries_for(self.store(from), &greeting, bytes) {
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
        // The first replica has the replicated content.
        let lost = if self.is_spaced { lost.max(1) } else { lost };
        for (at, two) in ends.windows(2).enumerate() {
            if at != lost {
                left.extend_from_slice(&items[two[0]..two[1]]);
            }
        }
        left
    }

    /// Returns the receiver.
    fn deliver(&mut self) -> Option<usize> {
        if self.network.is_empty() {
            return None;
        }
        let at = self.numbers.below(self.network.len() as u64) as usize;
        let (to, page) = match self.numbers.below(4) {
            0 => self.network[at].clone(), // and again
            _ => self.network.swap_remove(at),
        };
        if self.numbers.below(10) == 0 {
            return None; // lost
        }
        self.apply(to, &page);
        Some(to)
    }

    fn apply(&mut self, to: usize, page: &[u8]) {
        match self.merge(to, |store| exchange::apply_entries(store, page)) {
            Ok(_) => {}
            // A process that ended during the exchange.
            Err(error) if error.kind() == ErrorKind::Unavailable => {}
            // Reordered: what comes before is still under way.
            Err(error) => assert!(error.to_string().contains(" arrived before "), "{error}"),
        }
    }

    /// `to` merges the state of `from`, perhaps without the end.
    fn transfer_state(&mut self, from: usize, to: usize) {
        if self.store(from).is_joining() {
            return;
        }
        let bytes = [100, 1000, 1 << 20][self.numbers.below(3) as usize];
        let mut transfer = receive::begin_state_transfer(self.store(to)).unwrap();
        for _ in 0..1 + self.numbers.below(40) {
            let page = send::state_page(self.store(from), transfer.cursor(), bytes).unwrap();
            if self
                .merge(to, |store| transfer.merge_page(store, &page))
                .unwrap()
            {
                break;
            }
            if self.numbers.below(5) == 0 {
                self.write(from);
            }
        }
    }

    fn reopen(&mut self, at: usize) {
        self.stores[at] = None;
        self.stores[at] = Some(open(self.engines[at].clone(), &self.clock));
    }

    /// The process ends while a transaction is under way whose number others will miss. Commits that were not synced
    /// are lost: also some pages of a state that is being merged.
    fn kill(&mut self, at: usize) {
        if self.store(at).is_joining() {
            self.engines[at] = self.engines[at].after_crash();
            return self.reopen(at);
        }
        let store = self.store(at).clone();
        let mut begun = store.begin(Access::Write).unwrap();
        let mut nodes = Vec::new();
        begun.scan_nodes(None, None, 1, &mut nodes).unwrap();
        if let Some(id) = nodes.first() {
            let owner = ConvergentOwner::Node(*id);
            let op = ConvergentOp::Count(1);
            begun
                .fields_mut()
                .converge(owner, &["count"], &op, None)
                .unwrap();
        }
        if self.numbers.below(2) == 0 {
            self.write(at); // concurrently
        }
        // What the process would have done at its end is not done.
        self.engines[at] = self.engines[at].after_crash();
        drop((begun, store));
        self.reopen(at);
    }

    /// A backup replaces a replica, under a new epoch. What only the replica knew is lost.
    fn restore(&mut self, at: usize) {
        // A replica that has merged a part of a state waits for all that it had seen, also for what would be lost.
        if self.stores.iter().flatten().any(DataStore::is_joining) {
            return;
        }
        let Some(backup) = self.backups[at].take() else {
            return;
        };
        // Messages in flight were requested by a replica that is gone, or are what is lost.
        self.network.clear();
        self.stores[at] = None;
        self.engines[at] = Volatile::new(backup);
        self.reopen(at);
        let archive = self.archive.clone();
        let stores = &self.stores;
        self.entries.retain(|entry| {
            let name = own_replica(&archive).name(entry.origin).unwrap();
            let mut all = stores.iter().flatten();
            all.any(|store| has(store, name, entry.number))
        });
        self.store(at).numbering().begin_epoch().unwrap();
    }

    /// All replicas receive everything.
    pub(super) fn quiesce(&mut self) {
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
                    .map(DataStore::is_joining)
                    .collect::<Vec<_>>()
            );
        }
    }

    fn bring(&mut self, from: usize, to: usize) -> bool {
        let mut news = false;
        // As an exchange does: numbers that a killed process had begun are given up once all members were asked for
        // them.
        let before = exchange::greeting(self.store(to)).unwrap();
        let theirs = exchange::greeting(self.store(from)).unwrap();
        exchange::read_greeting(self.store(to), &theirs).unwrap();
        exchange::give_up_unknown(self.store(to)).unwrap();
        news |= exchange::greeting(self.store(to)).unwrap() != before;
        for _ in 0..50 {
            let greeting = exchange::greeting(self.store(to)).unwrap();
            let page = match exchange::entries_for(self.store(from), &greeting, 1 << 20) {
                Ok(page) => page,
                Err(error) if error.kind() == ErrorKind::Unavailable => return true,
                Err(error) => panic!("{error}"),
            };
            let applied = self
                .merge(to, |store| exchange::apply_entries(store, &page))
                .unwrap();
            news |= applied.transactions > 0;
            if std::env::var_os("ISOMER_LOUD").is_some() {
                eprintln!(
                    "{from}->{to} {applied:?} joining {}",
                    self.store(to).is_joining()
                );
            }
            if applied.behind || self.store(to).is_joining() && !applied.more {
                news = true;
                let mut transfer = receive::begin_state_transfer(self.store(to)).unwrap();
                loop {
                    let page =
                        send::state_page(self.store(from), transfer.cursor(), 1 << 20).unwrap();
                    if self
                        .merge(to, |store| transfer.merge_page(store, &page))
                        .unwrap()
                    {
                        break;
                    }
                }
            } else if !applied.more {
                break;
            }
        }
        news
    }

    /// Everything that the first one holds, with all names.
    pub(super) fn journal(&self) -> Vec<String> {
        let names = self
            .stores
            .iter()
            .flatten()
            .map(|store| format!("{:?}", store.replica()));
        dump(self.store(0)).into_iter().chain(names).collect()
    }

    /// All hold the same, and what the history says.
    pub(super) fn compare(&self) {
        let first = dump(self.store(0));
        for (at, store) in self.stores.iter().flatten().enumerate() {
            assert!(!store.is_joining());
            let own = dump(store);
            let missing: Vec<_> = first.iter().filter(|line| !own.contains(line)).collect();
            let more: Vec<_> = own.iter().filter(|line| !first.contains(line)).collect();
            assert!(
                own == first,
                "replica {at} lacks what the first one has: {missing:#?}, and has more: {more:#?}"
            );
            check_halves(store);
            let mut found = check(store, &mut |_, _| ControlFlow::Continue(())).unwrap();
            // The change stream has the rest, which copies of a killed replica lack.
            found.retain(|one| one.contains("index "));
            assert_eq!(found, Vec::<String>::new(), "replica {at}");
            assert_eq!(store.check_convergent().unwrap(), Vec::<String>::new());
            assert_eq!(store.check_buckets().unwrap(), Vec::<String>::new());
            assert_eq!(store.check_files().unwrap(), Vec::<String>::new());
        }
        // Convergent fields have a separate interpreter.
        assert_eq!(
            plain_lines(self.store(0)),
            naive::lines(&self.archive, &self.entries)
        );
        assert_eq!(
            files::lines(self.store(0)),
            files::said(&self.archive, &self.entries)
        );
    }
}

/// The replicated space, if not everything is replicated.
fn space() -> ReplicatedSpace {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    ReplicatedSpace {
        name: "shared".into(),
        labels: names(&["L", "M"]),
        rel_types: names(&["T", "KEEPS"]),
        buckets: names(&["b", "m", "s", "left", "right"]),
    }
}

/// Indexes over the convergent fields of a label or type, and over a plain property; over all as if none were a set,
/// where `wrong`.
fn index(store: &DataStore, scope: &ScopeName, wrong: bool) {
    let paths: [&[&str]; 10] = [
        &["w"],
        &["count"],
        &["set"],
        &["grown"],
        &["last"],
        &["all"],
        &["flag"],
        &["map", "set"],
        &["map", "count"],
        &["map", "map", "last"],
    ];
    for path in paths {
        let spec = IndexSpec {
            name: None,
            scope: scope.clone(),
            fields: vec![IndexField {
                path: FieldPath::new(path.iter().copied()),
                each: !wrong && matches!(path, [.., "set" | "grown"]),
            }],
            unique: false,
        };
        let change = SchemaChange::CreateIndex {
            spec,
            if_not_exists: false,
        };
        store.change_schema(change).unwrap();
    }
}

/// Whether a store has a transaction.
fn has(store: &DataStore, origin: ReplicaId, number: u64) -> bool {
    let Some(replica) = own_replica(store).number(origin) else {
        return false;
    };
    let snapshot = store.engine().snapshot().unwrap();
    store
        .numbering()
        .seen_in(&*snapshot, None)
        .unwrap()
        .saw(replica, number)
}

/// An operation on a field of that kind, and the field.
fn field_operation(
    n: &mut Numbers,
    kind: ConvergentKind,
    value: Value,
) -> (&'static [&'static str], ConvergentOp) {
    let element = Value::from(*n.of(&KEYS));
    let is_clear = n.below(8) == 0;
    let (path, op): (&[&str], _) = match kind {
        ConvergentKind::Counter => (&["count"], ConvergentOp::Count(n.below(9) as i64 - 2)),
        ConvergentKind::Set if n.below(3) == 0 => (&["set"], ConvergentOp::Remove(element)),
        ConvergentKind::Set => (&["set"], ConvergentOp::Insert(element)),
        ConvergentKind::GrowSet => (&["grown"], ConvergentOp::InsertGrowing(element)),
        ConvergentKind::Register => (&["last"], ConvergentOp::Assign(value)),
        ConvergentKind::MultiRegister => (&["all"], ConvergentOp::AssignMulti(value)),
        ConvergentKind::Flag if n.below(2) == 0 => (&["flag"], ConvergentOp::Disable),
        ConvergentKind::Flag => (&["flag"], ConvergentOp::Enable),
        ConvergentKind::Sketch => (&["sketch"], ConvergentOp::Observe(value, Some(4))),
        ConvergentKind::Map => match n.below(4) {
            0 => (&["map", "set"], ConvergentOp::Insert(element)),
            1 => (&["map", "set"], ConvergentOp::Remove(element)),
            2 => (&["map", "count"], ConvergentOp::Count(1)),
            _ => (&["map", "map", "last"], ConvergentOp::Assign(value)),
        },
        other => unreachable!("no operation on a {}", other.name()),
    };
    match is_clear {
        true => (&path[..1], ConvergentOp::Clear),
        false => (path, op),
    }
}

/// Each relationship is found from both its ends, and both exist.
fn check_ends(store: &DataStore) {
    if store.is_joining() {
        return;
    }
    let tx = store.begin(Access::Read).unwrap();
    let (mut nodes, mut rows) = (Vec::new(), Vec::new());
    tx.scan_nodes(None, None, 10_000, &mut nodes).unwrap();
    tx.scan_relationships(None, None, 10_000, &mut rows)
        .unwrap();
    let ends = |row: &RelRow| (row.id, row.source, row.target);
    let mut listed: Vec<_> = rows.iter().map(ends).collect();
    listed.sort_unstable();
    for direction in [Direction::Outgoing, Direction::Incoming] {
        let mut found = Neighbours::new();
        tx.expand(&nodes, direction, &[], &mut found).unwrap();
        let mut seen: Vec<_> = found.rows().iter().map(ends).collect();
        seen.sort_unstable();
        assert_eq!(seen, listed, "relationships are not found from both ends");
    }
}

/// Every transaction puts its number into two buckets.
fn check_halves(store: &DataStore) {
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
        let limit = isomer_data::PageLimit {
            keys: usize::MAX,
            bytes: usize::MAX,
        };
        tx.kv()
            .scan_values(
                bucket,
                range,
                isomer_data::Order::Ascending,
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
