//! Random histories of several nodes on one faulty log, each deterministic by its seed.
//!
//! Nodes begin transactions, read some keys, and commit in groups; they fall behind, and come back from a checkpoint,
//! which some of them take and trim the log by. They stop for long and crash between calls, and within a call of the
//! log or of the objects: before it takes effect, or after that and before the answer. Within these calls another node,
//! whose connection is good, commits, takes a checkpoint and trims the log. Log and objects lose requests and answers,
//! deliver late and twice; the log forgets what is trimmed. A group takes time to validate, so that nodes which lose
//! positions reserve one, and crash with the reservation. Afterwards the log alone is the truth:
//! - every transaction in it read what all before it had written (serializable, in the order of the log);
//! - one that was acknowledged is in it once; one that was refused is not; one with an unknown outcome at most once;
//! - a transaction that began after another one was acknowledged reads its writes (strict);
//! - every node's state is that of the log up to its position.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use isomer_shared_log::{
    BlobError, Blobs, Fate, Faults, Hook, LogError, LogId, LogNode, MemoryBlobs, MemoryLog, Moment,
    NodeError, Options, Position, Record, RecordHash, Retry, SharedLog, StateMachine, Validated,
};
use isomer_vfs::{SimTime, Time};

/// Histories of a run; with `ISOMER_TEST_QUICK` a tenth of them.
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

/// The state of a node. Each validation takes a while.
#[derive(Debug)]
struct Machine {
    numbers: Numbers,
    time: SimTime,
    takes: Duration,
    validations: usize,
}

impl Machine {
    fn new(numbers: Numbers, time: &SimTime, takes: Duration) -> Self {
        Self {
            numbers,
            time: time.clone(),
            takes,
            validations: 0,
        }
    }
}

impl StateMachine for Machine {
    type Transaction<'t> = Transaction;
    type Refused = ();

    fn validate(&mut self, group: &[Transaction]) -> Validated<()> {
        self.validations += 1;
        self.time.advance(self.takes);
        self.numbers.validate(group)
    }

    fn batch_bytes(&self) -> usize {
        // A few records.
        400
    }

    fn apply(&mut self, at: Position, _: RecordHash, content: &[u8]) -> Result<(), String> {
        self.numbers.apply(at, content);
        Ok(())
    }
}

impl Numbers {
    fn validate(&self, group: &[Transaction]) -> Validated<()> {
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

    fn apply(&mut self, at: Position, content: &[u8]) {
        for transaction in Transaction::decode_all(content) {
            for (key, value) in transaction.writes {
                self.0.insert(key, (value, at));
            }
        }
    }
}

/// SplitMix64.
#[derive(Clone, Debug)]
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

/// What the nodes reported, and the source of all chance.
#[derive(Debug)]
struct Ledger {
    random: Random,
    outcomes: BTreeMap<u64, (Transaction, Outcome)>,
    /// The highest position that was acknowledged.
    acknowledged: Position,
    ids: u64,
    fenced: u64,
    /// Crashes and stalls within calls.
    crashes: u64,
    stalls: u64,
}

impl Ledger {
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
}

/// What all nodes share, and the world's books about them. Clones share it.
#[derive(Clone)]
struct Common {
    log: MemoryLog,
    blobs: MemoryBlobs,
    time: SimTime,
    ledger: Arc<Mutex<Ledger>>,
}

/// A node, and its connections.
struct Member {
    node: LogNode<MemoryLog, Machine>,
    log: MemoryLog,
    blobs: MemoryBlobs,
}

/// Why a member stopped working.
enum Failure {
    Node(NodeError),
    Blobs,
    Crashed,
}

impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Self {
        Self::Node(error)
    }
}

impl From<BlobError> for Failure {
    fn from(error: BlobError) -> Self {
        assert!(
            !matches!(error, BlobError::Name(_) | BlobError::Damaged { .. }),
            "{error}"
        );
        Self::Blobs
    }
}

impl Common {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("no panic")
    }

    fn below(&self, limit: u64) -> u64 {
        self.ledger().random.below(limit)
    }

    fn some_faults(&self) -> Faults {
        let mut ledger = self.ledger();
        let mut some = |most| match ledger.random.below(3) {
            0 => 0,
            _ => ledger.random.below(most) as u32,
        };
        Faults {
            lost_requests: some(100),
            lost_answers: some(200),
            late: some(150),
            duplicated: some(150),
            unavailable: some(100),
            stale_lists: 0,
        }
    }

    /// A member from the newest checkpoint, over connections with some faults, and with a hook if `rival` is given.
    fn open(&self, faults: Faults, rival: Option<&Rival>) -> Result<Member, Failure> {
        let hook = rival.map(|rival| rival.hook());
        let seed = self.ledger().random.next();
        let log = self.log.with_faults(faults, seed, hook.clone());
        let blobs = self.blobs.with_faults(faults, !seed, hook);
        let (machine, next, last) = match blobs.get(MANIFEST)? {
            None => (Numbers::default(), 1, RecordHash::default()),
            Some((manifest, _)) => decode_manifest(&manifest),
        };
        let mut nonces = Random(self.ledger().random.next());
        let options = Options {
            writer: nonces.next(),
            nonces: Box::new(move || u128::from(nonces.next()) << 64 | u128::from(nonces.next())),
            time: Arc::new(self.time.clone()),
            retry: Retry {
                deadline: Duration::from_millis(self.below(200)),
                ..Retry::default()
            },
        };
        let takes = Duration::from_millis(self.below(4));
        let machine = Machine::new(machine, &self.time, takes);
        let node = LogNode::open(log.clone(), machine, next, last, options)?;
        Ok(Member { node, log, blobs })
    }

    /// Begins some transactions, calls `between`, and commits them as a group.
    fn commit(&self, member: &mut Member, between: impl FnOnce()) -> Result<(), Failure> {
        let acknowledged = self.ledger().acknowledged;
        member.node.catch_up()?;
        let (began_at, _) = member.node.applied();
        assert!(
            began_at > acknowledged,
            "a commit that has returned is not read"
        );
        let group: Vec<Transaction> = (0..=self.below(3))
            .map(|_| {
                self.ledger()
                    .transaction(&member.node.machine().numbers, began_at)
            })
            .collect();
        between();
        self.commit_group(member, group)
    }

    /// A commit of a node that does not catch up first.
    fn commit_now(&self, member: &mut Member) -> Result<(), Failure> {
        let (began_at, _) = member.node.applied();
        let transaction = self
            .ledger()
            .transaction(&member.node.machine().numbers, began_at);
        self.commit_group(member, vec![transaction])
    }

    fn commit_group(&self, member: &mut Member, group: Vec<Transaction>) -> Result<(), Failure> {
        let mut rest = &group[..];
        while !rest.is_empty() {
            let committed = member.node.commit(rest);
            // A node that crashed reports nothing.
            let is_crashed = member.log.is_crashed();
            let outcomes: Vec<Outcome> = match &committed {
                _ if is_crashed => vec![Outcome::Unknown; rest.len()],
                Ok(outcomes) => outcomes
                    .iter()
                    .map(|outcome| outcome.map_or(Outcome::Refused, Outcome::Acknowledged))
                    .collect(),
                Err(NodeError::CommitUnknown(_)) => vec![Outcome::Unknown; rest.len()],
                Err(_) => vec![Outcome::Refused; rest.len()],
            };
            let (now, later) = rest.split_at(outcomes.len());
            let mut ledger = self.ledger();
            for (transaction, outcome) in now.iter().zip(outcomes) {
                if let Outcome::Acknowledged(at) = outcome {
                    ledger.acknowledged = ledger.acknowledged.max(at);
                }
                ledger
                    .outcomes
                    .insert(transaction.id, (transaction.clone(), outcome));
            }
            rest = later;
            drop(ledger);
            if is_crashed {
                return Err(Failure::Crashed);
            }
            committed?;
        }
        Ok(())
    }

    /// Replaces the checkpoint unless there is a newer one. It may fail, and take effect later.
    fn checkpoint(&self, member: &mut Member) -> Result<(), Failure> {
        member.node.catch_up()?;
        let (next, last) = member.node.applied();
        let mut content = Vec::new();
        put(&mut content, next);
        put(&mut content, last.0);
        content.extend(member.node.machine().numbers.encode());
        match member.blobs.get(MANIFEST)? {
            None => drop(member.blobs.create(MANIFEST, &content)?),
            Some((manifest, tag)) if decode_manifest(&manifest).1 < next => {
                drop(member.blobs.replace(MANIFEST, &tag, &content)?);
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn trim(&self, member: &mut Member) -> Result<(), Failure> {
        if let Some((manifest, _)) = member.blobs.get(MANIFEST)? {
            member.node.trim(decode_manifest(&manifest).1)?;
        }
        Ok(())
    }
}

fn decode_manifest(manifest: &[u8]) -> (Numbers, Position, RecordHash) {
    let mut rest = manifest;
    let (next, last) = (take(&mut rest), RecordHash(take(&mut rest)));
    (Numbers::decode(rest), next, last)
}

/// A node that works while others are within a call.
#[derive(Clone)]
struct Rival {
    common: Common,
    member: Arc<Mutex<Member>>,
}

impl Rival {
    fn new(common: &Common) -> Self {
        let Ok(member) = common.open(Faults::default(), None) else {
            panic!("a good connection fails");
        };
        Self {
            common: common.clone(),
            member: Arc::new(Mutex::new(member)),
        }
    }

    /// What may happen within the calls of another node.
    fn hook(&self) -> Hook {
        let rival = self.clone();
        Arc::new(move |moment| rival.pass(moment))
    }

    fn pass(&self, _: Moment) -> Fate {
        match self.common.below(150) {
            0 => {
                self.common.ledger().crashes += 1;
                return Fate::Crash;
            }
            1 => self.common.time.advance(GRACE / 3),
            2..5 => self.work(|member| self.common.commit_now(member)),
            5 => {
                // The node is stopped for long, and all that it has not applied is trimmed.
                self.common.ledger().stalls += 1;
                self.work(|member| self.common.commit(member, || {}));
                self.common.time.advance(GRACE * 2);
                self.work(|member| self.common.checkpoint(member));
                self.work(|member| self.common.trim(member));
                self.work(|member| self.common.commit(member, || {}));
            }
            _ => {}
        }
        Fate::Continue
    }

    /// Runs a call of the rival. It is opened again when it was too far behind.
    fn work(&self, call: impl FnOnce(&mut Member) -> Result<(), Failure>) {
        let mut member = self.member.lock().expect("no panic");
        match call(&mut member) {
            Ok(()) => {}
            // It was stopped itself, or its position was trimmed while it was behind.
            Err(Failure::Node(NodeError::Fenced | NodeError::CommitUnknown(_))) => {
                match self.common.open(Faults::default(), None) {
                    Ok(opened) => *member = opened,
                    Err(_) => panic!("a good connection fails"),
                }
            }
            // Another node has reserved the next position for longer than this one repeats its call.
            Err(Failure::Node(NodeError::Log(LogError::Unavailable(_)))) => {}
            Err(Failure::Node(error)) => panic!("a good connection fails: {error}"),
            Err(Failure::Blobs | Failure::Crashed) => panic!("a good connection fails"),
        }
    }
}

struct World {
    common: Common,
    rival: Rival,
    members: Vec<Option<Member>>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let id = LogId(random.next().into());
        let log = match random.below(2) {
            0 => MemoryLog::new(id, GRACE),
            _ => MemoryLog::forgetful(id, GRACE),
        };
        // A group of several transactions takes several records now and then.
        let log = match random.below(4) {
            0 => log.with_max_record_bytes(400),
            _ => log,
        };
        let count = 2 + random.below(4);
        let ledger = Ledger {
            random,
            outcomes: BTreeMap::new(),
            acknowledged: 0,
            ids: 0,
            fenced: 0,
            crashes: 0,
            stalls: 0,
        };
        let common = Common {
            log,
            blobs: MemoryBlobs::default(),
            time: SimTime::default(),
            ledger: Arc::new(Mutex::new(ledger)),
        };
        let mut world = Self {
            rival: Rival::new(&common),
            common,
            members: (0..count).map(|_| None).collect(),
        };
        world.run();
        world
    }

    fn run(&mut self) {
        let common = self.common.clone();
        for _ in 0..STEPS {
            let at = common.below(self.members.len() as u64) as usize;
            common
                .time
                .advance(Duration::from_millis(common.below(200)));
            let opened = match self.members[at].take() {
                Some(member) => Ok(member),
                None => common.open(common.some_faults(), Some(&self.rival)),
            };
            let mut member = match opened {
                Ok(member) => member,
                Err(failure) => {
                    self.note(&failure);
                    continue;
                }
            };
            let outcome = match common.below(20) {
                // The whole machine of this node stops, while others go on.
                0 => {
                    common.time.advance(GRACE / 3);
                    Ok(())
                }
                1 => common.checkpoint(&mut member),
                2 => common.trim(&mut member),
                // It crashes.
                3 => continue,
                _ => self.commit(&mut member),
            };
            self.keep(at, member, outcome);
        }
    }

    /// A failure that histories may have.
    fn note(&self, failure: &Failure) {
        match failure {
            Failure::Node(NodeError::Fenced) => self.common.ledger().fenced += 1,
            Failure::Node(
                NodeError::Log(LogError::Unavailable(_) | LogError::Refused(_))
                | NodeError::CommitUnknown(_),
            )
            | Failure::Blobs
            | Failure::Crashed => {}
            Failure::Node(error) => panic!("{error}"),
        }
    }

    /// Puts a member back after a call, unless it must be opened again or crashes.
    fn keep(&mut self, at: usize, member: Member, outcome: Result<(), Failure>) {
        if member.log.is_crashed() || member.blobs.is_crashed() {
            return;
        }
        if let Err(failure) = &outcome {
            self.note(failure);
        }
        let continues = match outcome {
            Ok(()) | Err(Failure::Blobs | Failure::Node(NodeError::Log(_))) => true,
            Err(Failure::Node(NodeError::CommitUnknown(_))) => self.common.below(2) == 0,
            Err(_) => false,
        };
        if continues {
            self.members[at] = Some(member);
        }
    }

    /// Begins some transactions, lets others commit in between now and then, and commits them as a group.
    fn commit(&mut self, member: &mut Member) -> Result<(), Failure> {
        let common = self.common.clone();
        common.commit(member, || {
            for at in 0..self.members.len() {
                if common.below(3) == 0
                    && let Some(mut other) = self.members[at].take()
                {
                    let outcome = common.commit_now(&mut other);
                    self.keep(at, other, outcome);
                }
            }
            if common.below(12) == 0 {
                // It is stopped between its validation and its append: others trim what it has not applied.
                common.time.advance(GRACE * 2);
                self.advance_and_trim();
            }
        })
    }

    /// Another node takes a checkpoint, and trims what is old.
    fn advance_and_trim(&mut self) {
        let Some(at) = (0..self.members.len()).find(|at| self.members[*at].is_some()) else {
            return;
        };
        let Some(mut other) = self.members[at].take() else {
            return;
        };
        let checkpoint = self.common.checkpoint(&mut other);
        let outcome = checkpoint.and_then(|()| self.common.trim(&mut other));
        self.keep(at, other, outcome);
    }

    /// Compares everything with the log.
    fn check(&self) {
        let mut state = Numbers::default();
        let mut states = vec![state.clone()];
        let mut last = RecordHash::default();
        let mut found = BTreeMap::new();
        for (at, bytes) in (1..).zip(self.common.log.history()) {
            let decoded = Record::decode(&bytes, at, self.common.log.id());
            let (record, hash) = decoded.expect("a valid record");
            assert_eq!(record.follows(at, last), Ok(()));
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
        for (id, (transaction, outcome)) in &self.common.ledger().outcomes {
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
        let rival = self.rival.member.lock().expect("no panic");
        for member in self.members.iter().flatten().chain([&*rival]) {
            let (next, _) = member.node.applied();
            assert_eq!(
                member.node.machine().numbers,
                states[next as usize - 1],
                "the state before {next}"
            );
        }
    }
}

#[test]
fn no_history_of_nodes_has_an_anomaly() {
    let (mut acknowledged, mut refused, mut unknown) = (0, 0, 0);
    let (mut fenced, mut crashes, mut stalls) = (0, 0, 0);
    let histories = match std::env::var_os("ISOMER_TEST_QUICK") {
        None => HISTORIES,
        Some(_) => HISTORIES / 10,
    };
    for seed in 0..histories {
        let run = std::panic::catch_unwind(|| {
            let world = World::new(seed);
            world.check();
            world
        });
        let world = run.unwrap_or_else(|reason| {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(reason)
        });
        let ledger = world.common.ledger();
        for (_, outcome) in ledger.outcomes.values() {
            match outcome {
                Outcome::Acknowledged(_) => acknowledged += 1,
                Outcome::Refused => refused += 1,
                Outcome::Unknown => unknown += 1,
            }
        }
        fenced += ledger.fenced;
        crashes += ledger.crashes;
        stalls += ledger.stalls;
    }
    // The histories contain what they are about.
    let seen = format!(
        "{acknowledged} acknowledged, {refused} refused, {unknown} unknown, {fenced} fenced, \
         {crashes} crashes and {stalls} stalls within a call"
    );
    eprintln!("{seen}");
    assert!(
        acknowledged > 10 * histories && refused > histories,
        "{seen}"
    );
    assert!(unknown > histories && fenced > histories / 10, "{seen}");
    assert!(crashes > histories && stalls > histories, "{seen}");
}

/// Nodes of tests over a good connection.
fn open(
    log: &MemoryLog,
    next: Position,
    last: RecordHash,
) -> Result<LogNode<MemoryLog, Machine>, NodeError> {
    let time = SimTime::default();
    open_slow(log, (next, last), 1, &time, Duration::ZERO)
}

/// A node whose validations take that long.
fn open_slow(
    log: &MemoryLog,
    (next, last): (Position, RecordHash),
    writer: u64,
    time: &SimTime,
    takes: Duration,
) -> Result<LogNode<MemoryLog, Machine>, NodeError> {
    // A node knows its records by the nonces.
    let mut nonces = Random(next + (writer << 32));
    let options = Options {
        writer,
        nonces: Box::new(move || nonces.next().into()),
        time: Arc::new(time.clone()),
        retry: Retry::default(),
    };
    let machine = Machine::new(Numbers::default(), time, takes);
    LogNode::open(log.clone(), machine, next, last, options)
}

fn writing(id: u64) -> Transaction {
    Transaction {
        id,
        began_at: 1,
        reads: Vec::new(),
        writes: vec![(id, id)],
    }
}

#[test]
fn a_state_of_another_log_is_refused_when_a_node_opens() {
    let log = MemoryLog::new(LogId(1), GRACE);
    let mut node = open(&log, 1, RecordHash::default()).expect("an empty log");
    for id in 1..=3 {
        node.commit(&[writing(id)]).expect("committed");
    }
    let (next, last) = node.applied();
    assert!(open(&log, next, last).is_ok());
    for (next, last) in [(next, RecordHash(7)), (1, RecordHash(7))] {
        let refused = open(&log, next, last).expect_err("another history");
        assert!(matches!(refused, NodeError::Record(_)), "{refused}");
    }
    let refused = open(&log, next + 1, last).expect_err("the log is shorter");
    assert!(
        matches!(refused, NodeError::Log(LogError::Damaged(_))),
        "{refused}"
    );
    log.trim(next).expect("trimmed");
    assert!(
        open(&log, next, last).is_ok(),
        "there is nothing to compare with"
    );
    assert_eq!(open(&log, 2, last).expect_err("trimmed"), NodeError::Fenced);
    // A record of another log.
    let other = MemoryLog::new(LogId(2), GRACE);
    let (bytes, _) = Record {
        log: LogId(1),
        writer: 1,
        nonce: 1,
        previous: RecordHash::default(),
        content: b"",
    }
    .encode(1);
    other.append(1, &bytes).expect("appended");
    let mut node = open(&other, 1, RecordHash::default()).expect("nothing to compare with");
    let refused = node.catch_up().expect_err("of another log");
    assert!(
        refused.to_string().contains("belongs to the shared log"),
        "{refused}"
    );
}

#[test]
fn a_group_that_no_record_can_hold_is_committed_in_parts() {
    let log = MemoryLog::new(LogId(1), GRACE).with_max_record_bytes(400);
    let mut node = open(&log, 1, RecordHash::default()).expect("an empty log");
    let group: Vec<Transaction> = (1..=20).map(writing).collect();
    let mut rest = &group[..];
    while !rest.is_empty() {
        let outcomes = node.commit(rest).expect("committed");
        assert!(!outcomes.is_empty() && outcomes.iter().all(Result::is_ok));
        rest = &rest[outcomes.len()..];
    }
    assert!(log.end().expect("an end") > 3, "several records");
    let mut large = writing(21);
    large.writes = vec![(1, 1); 100];
    let refused = node.commit(&[large, writing(22)]).expect_err("too large");
    assert!(
        matches!(refused, NodeError::Log(LogError::TooLarge { .. })),
        "{refused}"
    );
    assert!(node.commit(&[writing(22)]).is_ok(), "the node continues");
}

/// Another node commits within each append of one whose commits take long to prepare, and would get each position.
#[test]
fn a_commit_that_takes_long_gets_through_beside_a_constant_writer() {
    const MOST: u64 = 1_000;
    let log = MemoryLog::new(LogId(1), GRACE);
    let time = SimTime::default();
    let start = (1, RecordHash::default());
    let patient = log.with_faults(Faults::default(), 2, None);
    let rival = open_slow(&patient, start, 2, &time, Duration::ZERO).expect("an empty log");
    let rival = Arc::new(Mutex::new((rival, 0)));
    let hook: Hook = {
        let rival = rival.clone();
        Arc::new(move |moment| {
            let (rival, committed) = &mut *rival.lock().expect("no panic");
            // Without a reservation, the slow node never gets there.
            if moment == Moment::BeforeEffect && *committed < MOST {
                match rival.commit(&[writing(*committed)]) {
                    Ok(_) => *committed += 1,
                    Err(NodeError::Log(LogError::Unavailable(_))) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            Fate::Continue
        })
    };
    let slow = log.with_faults(Faults::default(), 1, Some(hook));
    let takes = Duration::from_millis(30);
    let mut node = open_slow(&slow, start, 1, &time, takes).expect("an empty log");
    for round in 1..=5 {
        let before = node.machine().validations;
        let outcomes = node.commit(&[writing(MOST + round)]).expect("committed");
        assert!(outcomes[0].is_ok());
        let attempts = node.machine().validations - before;
        assert!(attempts <= 3, "{attempts} attempts");
        let mut rival = rival.lock().expect("no panic");
        let began = time.now();
        let committed = rival.0.commit(&[writing(0)]).expect("it is released");
        assert_eq!(time.now(), began, "it is released at once");
        assert!(committed[0].is_ok() && rival.1 < MOST);
    }
    assert!(rival.lock().expect("no panic").1 > 10, "it was in the way");
}

/// A refused call is not repeated, and one that cannot be reached is until the deadline.
#[test]
fn only_passing_failures_are_repeated() {
    let log = MemoryLog::new(LogId(1), GRACE);
    for (crashes, most) in [(true, 0), (false, 10)] {
        let hook: Hook = Arc::new(move |_| if crashes { Fate::Crash } else { Fate::Continue });
        let faults = Faults {
            unavailable: 1000,
            ..Faults::default()
        };
        let time = SimTime::default();
        let options = Options {
            writer: 1,
            nonces: Box::new(|| 0),
            time: Arc::new(time.clone()),
            retry: Retry::default(),
        };
        let handle = log.with_faults(faults, 1, Some(hook));
        let opened = LogNode::open(
            handle,
            Machine::new(Numbers::default(), &time, Duration::ZERO),
            1,
            RecordHash::default(),
            options,
        );
        let mut node = opened.expect("the empty state needs no call");
        let refused = node.catch_up().expect_err("it cannot be reached");
        assert!(matches!(refused, NodeError::Log(_)), "{refused}");
        let passed = time.now().as_secs();
        assert!(passed <= most && (crashes || passed > 8), "{passed} s");
    }
}
