//! Group commit under a model checker: in every interleaving tried there is no deadlock, no commit is lost, and
//! readers only see whole groups.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    path::Path,
    sync::Arc,
    task::{Poll, Wake, Waker},
};

use crate::{
    Backend, Capabilities, Commit, Durability, EngineCommit, Granule, GuardMode, KeyRange,
    Optimistic, Order, PairIterator, Statistics, StorageError, StreamEntry, Version, View, Visitor,
    sync::{Condvar, Mutex, RwLock},
};

type Tree = BTreeMap<Vec<u8>, Vec<u8>>;

/// Faults of a backend that the model must find.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// A version is published before all of it is applied.
    ShownEarly,
    /// A group is reported as durable before it is.
    DurableEarly,
}

/// Commits in a map; several scheduling points each.
struct Slow {
    fault: Fault,
    tree: Mutex<Tree>,
    shown: RwLock<Arc<Shown>>,
    written: Mutex<Version>,
    durable: Mutex<Version>,
}

struct Shown {
    version: Version,
    tree: Tree,
}

impl View for Shown {
    fn version(&self) -> Version {
        self.version
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(self.tree.get(key).cloned())
    }

    fn visit(
        &self,
        _: KeyRange<'_>,
        _: Order,
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError> {
        for (key, value) in &self.tree {
            if visit(key, value) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }
}

fn not_here<T>() -> Result<T, StorageError> {
    Err(StorageError::Unavailable("not in this model".into()))
}

impl Slow {
    fn new(fault: Fault) -> Self {
        let shown = Shown {
            version: 0,
            tree: Tree::new(),
        };
        Self {
            fault,
            tree: Mutex::default(),
            shown: RwLock::new(Arc::new(shown)),
            written: Mutex::default(),
            durable: Mutex::default(),
        }
    }

    fn show(&self, version: Version) {
        let tree = self.tree.lock().clone();
        *self.shown.write() = Arc::new(Shown { version, tree });
    }
}

impl Backend for Slow {
    type View = Shown;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "model",
            max_key_bytes: 100,
            max_value_bytes: 100,
            max_transaction_bytes: 10_000,
            ingest: false,
            durable: true,
            several_processes: false,
        }
    }

    fn view(&self) -> Result<Arc<Shown>, StorageError> {
        Ok(self.shown.read().clone())
    }

    fn apply(&self, commits: &[Commit<'_>], durability: Durability) -> Result<(), StorageError> {
        let last = commits.last().map_or(0, |commit| commit.version);
        if self.fault == Fault::DurableEarly {
            *self.durable.lock() = last;
        }
        *self.written.lock() = last;
        if durability == Durability::Synced {
            *self.durable.lock() = last;
        }
        for commit in commits {
            for (key, value) in commit.writes.slots() {
                self.tree
                    .lock()
                    .insert(key.to_vec(), value.expect("no deletions").to_vec());
                if self.fault == Fault::ShownEarly {
                    self.show(last);
                }
            }
        }
        self.show(last);
        Ok(())
    }

    fn durable_version(&self) -> Version {
        let durable = *self.durable.lock();
        assert!(
            durable <= *self.written.lock(),
            "durable before it is written"
        );
        durable
    }

    fn stream(
        &self,
        _: Version,
        _: Version,
        _: usize,
        _: usize,
    ) -> Result<Vec<StreamEntry>, StorageError> {
        not_here()
    }

    fn trim_stream(&self, _: Version) -> Result<(), StorageError> {
        not_here()
    }

    fn stream_trimmed(&self) -> Result<Version, StorageError> {
        not_here()
    }

    fn sync(&self) -> Result<(), StorageError> {
        let written = *self.written.lock();
        *self.durable.lock() = written;
        Ok(())
    }

    fn checkpoint(&self, _: &Path) -> Result<(), StorageError> {
        not_here()
    }

    fn ingest(
        &self,
        _: Version,
        _: &mut PairIterator<'_>,
        _: Option<&[u8]>,
    ) -> Result<(), StorageError> {
        not_here()
    }

    fn statistics(&self) -> Result<Statistics, StorageError> {
        Ok(Statistics::default())
    }

    fn verify(&self, _: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>, StorageError> {
        not_here()
    }
}

const ROUNDS: u64 = 2;
const COUNTER: Granule = Granule(1);

/// How a writer commits.
#[derive(Clone, Copy, PartialEq)]
enum How {
    /// It waits, and leads if necessary.
    Itself,
    /// It starts a commit, and waits.
    Started,
    /// It starts a commit, and is woken.
    Awaited,
    /// It starts a commit, and its waker increments once more: the thread that runs the waker waits for another
    /// commit.
    Again,
}

const WRITERS: [How; 4] = [How::Started, How::Awaited, How::Itself, How::Again];

fn number(value: Option<Vec<u8>>) -> u64 {
    let bytes = value.map(|bytes| <[u8; 8]>::try_from(bytes).expect("eight bytes"));
    bytes.map_or(0, u64::from_be_bytes)
}

/// An engine, and the number of increments.
#[derive(Clone)]
struct Counting {
    engine: Arc<Optimistic<Slow>>,
    counted: Arc<Mutex<u64>>,
}

impl Counting {
    fn write(&self, how: How, first: u64) {
        for round in first..first + ROUNDS {
            let durability = match round % 2 {
                0 => Durability::Synced,
                _ => Durability::Buffered,
            };
            self.count(how, durability);
        }
    }

    /// Increments once, and writes the number under two keys.
    fn count(&self, how: How, durability: Durability) {
        loop {
            let mut transaction = self.engine.begin().expect("begins");
            let next = (number(transaction.get(b"first").expect("read")) + 1).to_be_bytes();
            transaction.guard(COUNTER, GuardMode::Write);
            transaction.put(b"first", &next).expect("put");
            transaction.put(b"second", &next).expect("put");
            let committed = match how {
                How::Itself => transaction.commit(durability),
                _ => {
                    let commit = transaction.start_commit(durability, Box::new(()));
                    match how {
                        How::Awaited => awaited(commit, None),
                        How::Again => awaited(commit, Some(self.clone())),
                        _ => commit.wait(),
                    }
                }
            };
            match committed {
                Ok(version) => {
                    assert!(self.engine.version() >= version, "committed and not seen");
                    if durability == Durability::Synced {
                        assert!(self.engine.backend().durable_version() >= version);
                    }
                    *self.counted.lock() += 1;
                    break;
                }
                Err(StorageError::Conflict { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
}

/// A task that is notified by a waker, which may increment first.
struct CountingWaker {
    counts: Option<Counting>,
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        if let Some(counting) = &self.counts {
            counting.count(How::Started, Durability::Buffered);
        }
        *self.woken.lock() = true;
        self.changed.notify_one();
    }
}

fn awaited(
    mut commit: Box<dyn EngineCommit>,
    counts: Option<Counting>,
) -> Result<Version, StorageError> {
    let woken_task = Arc::new(CountingWaker {
        counts,
        woken: Mutex::default(),
        changed: Condvar::new(),
    });
    let waker = Waker::from(woken_task.clone());
    loop {
        if let Poll::Ready(outcome) = commit.poll(&waker) {
            return outcome;
        }
        let mut woken = woken_task.woken.lock();
        while !std::mem::take(&mut *woken) {
            woken_task.changed.wait(&mut woken);
        }
    }
}

/// A transaction that has put a key.
fn putting(engine: &Optimistic<Slow>, key: u8) -> Box<dyn crate::EngineTransaction> {
    let mut transaction = engine.begin().expect("begins");
    transaction.put(&[key], b"value").expect("put");
    transaction
}

fn read(engine: &Optimistic<Slow>) {
    let mut last = 0;
    for _ in 0..3 {
        let snapshot = engine.snapshot().expect("a snapshot");
        let values = snapshot
            .get_many(&[b"first", b"second"])
            .expect("read")
            .into_iter()
            .map(number)
            .collect::<Vec<_>>();
        assert_eq!(values[0], values[1], "half a commit");
        assert_eq!(values[0], snapshot.version(), "each commit counts one up");
        assert!(snapshot.version() >= last, "the version decreased");
        last = snapshot.version();
        engine.backend().durable_version();
    }
}

fn model(fault: Fault) {
    shuttle::check_random(
        move || {
            let counting = Counting {
                engine: Arc::new(Optimistic::new(Slow::new(fault))),
                counted: Arc::default(),
            };
            let writers = (0..).zip(WRITERS).map(|(first, how)| {
                let counting = counting.clone();
                shuttle::thread::spawn(move || counting.write(how, first))
            });
            let mut threads: Vec<_> = writers.collect();
            let reading = counting.engine.clone();
            threads.push(shuttle::thread::spawn(move || read(&reading)));
            for thread in threads {
                thread.join().expect("a thread");
            }
            let counted = *counting.counted.lock();
            assert!(counted >= WRITERS.len() as u64 * ROUNDS);
            assert_eq!(counting.engine.version(), counted);
            let snapshot = counting.engine.snapshot().expect("a snapshot");
            assert_eq!(number(snapshot.get(b"first").expect("read")), counted);
        },
        5_000,
    );
}

#[test]
fn model_groups_commit_whole_without_deadlock() {
    model(Fault::None);
}

/// Transactions may outlive their engine: they are committed by the waiting threads, and dropping the engine
/// does not deadlock.
#[test]
fn model_an_engine_is_dropped_while_others_commit() {
    shuttle::check_random(
        || {
            let engine = Optimistic::new(Slow::new(Fault::None));
            // The leader thread and its standby run.
            let early = putting(&engine, 0).start_commit(Durability::Synced, Box::new(()));
            early.wait().expect("committed");
            let (itself, started) = (putting(&engine, 1), putting(&engine, 2));
            let threads = [
                shuttle::thread::spawn(move || itself.commit(Durability::Buffered)),
                shuttle::thread::spawn(move || {
                    awaited(started.start_commit(Durability::Synced, Box::new(())), None)
                }),
            ];
            drop(engine);
            for thread in threads {
                thread.join().expect("a thread").expect("committed");
            }
        },
        5_000,
    );
}

/// A waker that drops the engine.
struct Last(Mutex<Option<Optimistic<Slow>>>);

impl Wake for Last {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().take());
    }
}

/// The engine may be dropped on its own leader thread.
#[test]
fn model_an_engine_is_dropped_by_a_waker() {
    shuttle::check_random(
        || {
            let engine = Optimistic::new(Slow::new(Fault::None));
            let start = |key| putting(&engine, key).start_commit(Durability::Synced, Box::new(()));
            let (mut first, second) = (start(0), start(1));
            let waker = Waker::from(Arc::new(Last(Mutex::new(Some(engine)))));
            if let Poll::Ready(outcome) = first.poll(&waker) {
                outcome.expect("committed");
            }
            drop((first, waker));
            second.wait().expect("committed");
        },
        5_000,
    );
}

/// A waker that commits and blocks its thread on that.
struct Commits(Mutex<Option<Box<dyn crate::EngineTransaction>>>);

impl Wake for Commits {
    fn wake(self: Arc<Self>) {
        let transaction = self.0.lock().take().expect("woken once");
        let commit = transaction.start_commit(Durability::Synced, Box::new(()));
        commit.wait().expect("committed");
    }
}

/// When the engine is dropped.
#[derive(Clone, Copy, PartialEq)]
enum Dropped {
    Before,
    DuringCommit,
    After,
}

/// The thread that runs the waker is not the leader: otherwise the waker would deadlock.
fn waker_commits(dropped: Dropped) {
    shuttle::check_random(
        move || {
            let engine = Optimistic::new(Slow::new(Fault::None));
            let [itself, started, then, other] = [1, 2, 3, 4].map(|key| putting(&engine, key));
            let waker = Waker::from(Arc::new(Commits(Mutex::new(Some(then)))));
            let mut engine = Some(engine);
            if dropped == Dropped::Before {
                engine = None;
            }
            let threads = [
                shuttle::thread::spawn(move || itself.commit(Durability::Synced)),
                shuttle::thread::spawn(move || {
                    other.start_commit(Durability::Synced, Box::new(())).wait()
                }),
            ];
            let mut commit = started.start_commit(Durability::Synced, Box::new(()));
            if let Poll::Ready(outcome) = commit.poll(&waker) {
                outcome.expect("committed");
            }
            if dropped == Dropped::DuringCommit {
                engine = None;
            }
            for thread in threads {
                thread.join().expect("a thread").expect("committed");
            }
            drop(engine);
        },
        5_000,
    );
}

#[test]
fn model_a_waker_commits() {
    waker_commits(Dropped::After);
}

#[test]
fn model_a_waker_commits_while_the_engine_is_dropped() {
    waker_commits(Dropped::DuringCommit);
}

#[test]
fn model_a_waker_commits_after_the_engine_is_dropped() {
    waker_commits(Dropped::Before);
}

#[test]
#[should_panic(expected = "half a commit")]
fn model_finds_a_version_that_is_published_early() {
    model(Fault::ShownEarly);
}

#[test]
#[should_panic(expected = "durable before it is written")]
fn model_finds_a_group_that_is_called_durable_early() {
    model(Fault::DurableEarly);
}
