//! Random histories of several nodes on one faulty log, each deterministic by its seed.
//!
//! Nodes begin transactions, read some keys, and commit in groups; they fall behind, stop for long, crash between calls
//! and come back from a checkpoint, which some of them take and trim the log by. The log loses requests and answers,
//! delivers late and twice, and forgets what is trimmed. Afterwards the log alone is the truth:
//! - every transaction in it read what all before it had written (serializable, in the order of the log);
//! - one that was acknowledged is in it once; one that was refused is not; one with an unknown outcome at most once;
//! - a transaction that began after another one was acknowledged reads its writes (strict);
//! - every node's state is that of the log up to its position.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use isomer_shared_log::{
    Blobs, Created, Faults, LogError, MemoryBlobs, MemoryLog, Node, NodeError, Options, Position,
    Record, RecordHash, Replaced, StateMachine, Validated,
};
use isomer_vfs::{SimTime, Time};

const HISTORIES: u64 = 10_000;
const STEPS: usize = 80;
const KEYS: u64 = 6;
const GRACE: Duration = Duration::from_secs(60);
const MANIFEST: &str = "manifest";

/// A transaction: the position that it read at, what it read, what it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Transaction {
    id: u64,
    began_at: Position,
    reads: Vec<(u64, u64)>,
    writes: Vec<(u64, u64)>,
}

fn put(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn take(bytes: &mut &[u8]) -> u64 {
    let (number, rest) = bytes.split_first_chunk().expect("a number");
    *bytes = rest;
    u64::from_le_bytes(*number)
}

fn encode_pairs(out: &mut Vec<u8>, pairs: &[(u64, u64)]) {
    put(out, pairs.len() as u64);
    for (key, value) in pairs {
        put(out, *key);
        put(out, *value);
    }
}

fn decode_pairs(bytes: &mut &[u8]) -> Vec<(u64, u64)> {
    let count = take(bytes);
    (0..count).map(|_| (take(bytes), take(bytes))).collect()
}

impl Transaction {
    fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.id);
        put(out, self.began_at);
        encode_pairs(out, &self.reads);
        encode_pairs(out, &self.writes);
    }

    fn decode_all(mut bytes: &[u8]) -> Vec<Self> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            all.push(Self {
                id: take(&mut bytes),
                began_at: take(&mut bytes),
                reads: decode_pairs(&mut bytes),
                writes: decode_pairs(&mut bytes),
            });
        }
        all
    }
}

/// Numbers by key, with the position that changed each last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Numbers(BTreeMap<u64, (u64, Position)>);

impl Numbers {
    fn get(&self, key: u64) -> u64 {
        self.0.get(&key).map_or(0, |(value, _)| *value)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (key, (value, at)) in &self.0 {
            put(&mut out, *key);
            put(&mut out, *value);
            put(&mut out, *at);
        }
        out
    }

    fn decode(mut bytes: &[u8]) -> Self {
        let mut numbers = Self::default();
        while !bytes.is_empty() {
            let (key, value, at) = (take(&mut bytes), take(&mut bytes), take(&mut bytes));
            numbers.0.insert(key, (value, at));
        }
        numbers
    }
}

impl StateMachine for Numbers {
    type Transaction = Transaction;
    type Refused = ();

    fn validate(&mut self, group: &[Transaction]) -> Validated<()> {
        let mut written = Vec::new();
        let mut content = Vec::new();
        let mut outcomes = Vec::new();
        for transaction in group {
            let is_valid = transaction.reads.iter().all(|(key, _)| {
                let changed_at = self.0.get(key).map_or(0, |(_, at)| *at);
                changed_at < transaction.began_at && !written.contains(key)
            });
            if is_valid {
                written.extend(transaction.writes.iter().map(|(key, _)| *key));
                transaction.encode(&mut content);
            }
            outcomes.push(is_valid.then_some(()).ok_or(()));
        }
        Validated {
            outcomes,
            content: (!content.is_empty()).then_some(content),
        }
    }

    fn apply(&mut self, at: Position, content: &[u8]) -> Result<(), String> {
        for transaction in Transaction::decode_all(content) {
            for (key, value) in transaction.writes {
                self.0.insert(key, (value, at));
            }
        }
        Ok(())
    }
}

/// SplitMix64.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Acknowledged(Position),
    Refused,
    Unknown,
}

struct World {
    random: Random,
    log: MemoryLog,
    blobs: MemoryBlobs,
    time: SimTime,
    nodes: Vec<Option<Node<MemoryLog, Numbers>>>,
    outcomes: BTreeMap<u64, (Transaction, Outcome)>,
    /// The highest position that was acknowledged.
    acknowledged: Position,
    ids: u64,
    fenced: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let log = match random.below(2) {
            0 => MemoryLog::new(),
            _ => MemoryLog::forgetful(),
        };
        let count = 2 + random.below(4);
        let mut world = Self {
            random,
            log,
            blobs: MemoryBlobs::default(),
            time: SimTime::default(),
            nodes: (0..count).map(|_| None).collect(),
            outcomes: BTreeMap::new(),
            acknowledged: 0,
            ids: 0,
            fenced: 0,
        };
        world.run();
        world
    }

    fn run(&mut self) {
        for _ in 0..STEPS {
            let at = self.random.below(self.nodes.len() as u64) as usize;
            self.time
                .sleep(Duration::from_millis(self.random.below(200)));
            let mut node = match self.nodes[at].take() {
                Some(node) => node,
                None => self.open(),
            };
            let outcome = match self.random.below(20) {
                // The whole machine of this node stops, while others go on.
                0 => {
                    self.time.sleep(GRACE / 3);
                    Ok(())
                }
                1 => self.checkpoint(&mut node),
                2 => self.trim(&mut node),
                // It crashes.
                3 => continue,
                _ => self.commit(&mut node),
            };
            self.keep(at, node, outcome);
        }
    }

    /// Puts a node back after a call, unless it must be opened again or crashes.
    fn keep(&mut self, at: usize, node: Node<MemoryLog, Numbers>, outcome: Result<(), NodeError>) {
        match outcome {
            Ok(()) | Err(NodeError::Log(LogError::Unavailable(_))) => self.nodes[at] = Some(node),
            Err(NodeError::CommitUnknown(_)) if self.random.below(2) == 0 => {
                self.nodes[at] = Some(node);
            }
            Err(NodeError::CommitUnknown(_)) => {}
            Err(NodeError::Fenced) => self.fenced += 1,
            Err(error) => panic!("{error}"),
        }
    }

    /// A node from the newest checkpoint, over a connection with some faults.
    fn open(&mut self) -> Node<MemoryLog, Numbers> {
        let some = |random: &mut Random, most| match random.below(3) {
            0 => 0,
            _ => random.below(most) as u32,
        };
        let faults = Faults {
            lost_requests: some(&mut self.random, 100),
            lost_answers: some(&mut self.random, 200),
            late: some(&mut self.random, 150),
            duplicated: some(&mut self.random, 150),
            unavailable: some(&mut self.random, 100),
        };
        let (machine, next, last) = match self.blobs.get(MANIFEST).expect("memory") {
            None => (Numbers::default(), 1, RecordHash::default()),
            Some((manifest, _)) => {
                let mut rest = &manifest[..];
                let (next, last) = (take(&mut rest), RecordHash(take(&mut rest)));
                (Numbers::decode(rest), next, last)
            }
        };
        let mut nonces = Random(self.random.next());
        let options = Options {
            writer: self.random.next(),
            nonces: Box::new(move || u128::from(nonces.next()) << 64 | u128::from(nonces.next())),
            time: Arc::new(self.time.clone()),
            grace: GRACE,
            attempts: 1 + self.random.below(4) as u32,
        };
        let log = self.log.with_faults(faults, self.random.next());
        Node::new(log, machine, next, last, options)
    }

    /// Begins some transactions, lets others commit in between now and then, and commits them as a group.
    fn commit(&mut self, node: &mut Node<MemoryLog, Numbers>) -> Result<(), NodeError> {
        node.catch_up()?;
        let (began_at, _) = node.applied();
        assert!(
            began_at > self.acknowledged,
            "a commit that has returned is not read"
        );
        let group: Vec<Transaction> = (0..=self.random.below(3))
            .map(|_| self.transaction(node.machine(), began_at))
            .collect();
        for at in 0..self.nodes.len() {
            if self.random.below(3) == 0
                && let Some(mut other) = self.nodes[at].take()
            {
                let outcome = self.commit_now(&mut other);
                self.keep(at, other, outcome);
            }
        }
        if self.random.below(12) == 0 {
            // It is stopped between its validation and its append: others trim what it has not applied.
            self.time.sleep(GRACE * 2);
            self.advance_and_trim();
        }
        self.commit_group(node, group)
    }

    /// A commit of a node that does not catch up first.
    fn commit_now(&mut self, node: &mut Node<MemoryLog, Numbers>) -> Result<(), NodeError> {
        let (began_at, _) = node.applied();
        let transaction = self.transaction(node.machine(), began_at);
        self.commit_group(node, vec![transaction])
    }

    fn transaction(&mut self, state: &Numbers, began_at: Position) -> Transaction {
        self.ids += 1;
        let random = &mut self.random;
        let reads = (0..random.below(4)).map(|_| random.below(KEYS));
        let reads = reads.map(|key| (key, state.get(key))).collect();
        let id = self.ids;
        let writes = (0..random.below(3)).map(|_| random.below(KEYS));
        let writes = writes.map(|key| (key, id)).collect();
        Transaction {
            id,
            began_at,
            reads,
            writes,
        }
    }

    fn commit_group(
        &mut self,
        node: &mut Node<MemoryLog, Numbers>,
        group: Vec<Transaction>,
    ) -> Result<(), NodeError> {
        let committed = node.commit(&group);
        let outcomes: Vec<Outcome> = match &committed {
            Ok(outcomes) => outcomes
                .iter()
                .map(|outcome| outcome.map_or(Outcome::Refused, Outcome::Acknowledged))
                .collect(),
            Err(NodeError::CommitUnknown(_)) => vec![Outcome::Unknown; group.len()],
            Err(_) => vec![Outcome::Refused; group.len()],
        };
        for (transaction, outcome) in group.into_iter().zip(outcomes) {
            if let Outcome::Acknowledged(at) = outcome {
                self.acknowledged = self.acknowledged.max(at);
            }
            self.outcomes.insert(transaction.id, (transaction, outcome));
        }
        committed.map(drop)
    }

    fn checkpoint(&mut self, node: &mut Node<MemoryLog, Numbers>) -> Result<(), NodeError> {
        node.catch_up()?;
        let (next, last) = node.applied();
        let mut content = Vec::new();
        put(&mut content, next);
        put(&mut content, last.0);
        content.extend(node.machine().encode());
        match self.blobs.get(MANIFEST).expect("memory") {
            None => {
                let created = self.blobs.create(MANIFEST, &content).expect("memory");
                assert!(matches!(created, Created::Created(_)));
            }
            Some((_, tag)) => {
                let replaced = self
                    .blobs
                    .replace(MANIFEST, &tag, &content)
                    .expect("memory");
                assert!(matches!(replaced, Replaced::Replaced(_)));
            }
        }
        Ok(())
    }

    fn trim(&mut self, node: &mut Node<MemoryLog, Numbers>) -> Result<(), NodeError> {
        if let Some((manifest, _)) = self.blobs.get(MANIFEST).expect("memory") {
            node.trim(take(&mut &manifest[..]))?;
        }
        Ok(())
    }

    /// Another node takes a checkpoint, and trims what is old.
    fn advance_and_trim(&mut self) {
        let Some(at) = (0..self.nodes.len()).find(|at| self.nodes[*at].is_some()) else {
            return;
        };
        let Some(mut other) = self.nodes[at].take() else {
            return;
        };
        let outcome = self
            .checkpoint(&mut other)
            .and_then(|()| self.trim(&mut other));
        self.keep(at, other, outcome);
    }

    /// Compares everything with the log.
    fn check(&self) {
        let mut state = Numbers::default();
        let mut states = vec![state.clone()];
        let mut last = RecordHash::default();
        let mut found = BTreeMap::new();
        for (at, bytes) in (1..).zip(self.log.history()) {
            let (record, hash) = Record::decode(&bytes, at, last).expect("a valid record");
            last = hash;
            for transaction in Transaction::decode_all(record.content) {
                for (key, value) in &transaction.reads {
                    assert_eq!(
                        state.get(*key),
                        *value,
                        "{transaction:?} at {at} read another value"
                    );
                }
                for (key, value) in &transaction.writes {
                    state.0.insert(*key, (*value, at));
                }
                let twice = found.insert(transaction.id, (at, transaction));
                assert_eq!(twice, None, "committed twice");
            }
            states.push(state.clone());
        }
        for (id, (transaction, outcome)) in &self.outcomes {
            match (outcome, found.get(id)) {
                (Outcome::Acknowledged(at), Some((found_at, found))) => {
                    assert_eq!((at, transaction), (found_at, found));
                }
                (Outcome::Acknowledged(at), None) => {
                    panic!("{transaction:?} was acknowledged at {at} and is not in the log");
                }
                (Outcome::Refused, Some(found)) => panic!("{found:?} was refused"),
                (Outcome::Refused, None) | (Outcome::Unknown, _) => {}
            }
        }
        for node in self.nodes.iter().flatten() {
            let (next, _) = node.applied();
            assert_eq!(
                *node.machine(),
                states[next as usize - 1],
                "the state before {next}"
            );
        }
    }
}

#[test]
fn no_history_of_nodes_has_an_anomaly() {
    let (mut acknowledged, mut refused, mut unknown, mut fenced) = (0, 0, 0, 0);
    for seed in 0..HISTORIES {
        let run = std::panic::catch_unwind(|| {
            let world = World::new(seed);
            world.check();
            world
        });
        let world = run.unwrap_or_else(|reason| {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(reason)
        });
        for (_, outcome) in world.outcomes.values() {
            match outcome {
                Outcome::Acknowledged(_) => acknowledged += 1,
                Outcome::Refused => refused += 1,
                Outcome::Unknown => unknown += 1,
            }
        }
        fenced += world.fenced;
    }
    // The histories contain what they are about.
    let seen = format!(
        "{acknowledged} acknowledged, {refused} refused, {unknown} unknown, {fenced} fenced"
    );
    eprintln!("{seen}");
    assert!(
        acknowledged > 10 * HISTORIES && refused > HISTORIES,
        "{seen}"
    );
    assert!(unknown > HISTORIES && fenced > HISTORIES / 10, "{seen}");
}
