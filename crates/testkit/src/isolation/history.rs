//! What concurrent transactions did and saw, written down as they ran.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

/// Something that transactions share: a list, a register or a set. An index into [`History::objects`].
pub type ObjectId = u32;

/// A value that is written once in a whole history, so that whoever sees it knows who wrote it.
pub type Element = u64;

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Put `element` at the end of a list.
    Append {
        /// The list.
        object: ObjectId,
        /// What was put.
        element: Element,
    },
    /// Read a whole list.
    List {
        /// The list.
        object: ObjectId,
        /// Its elements in order.
        seen: Vec<Element>,
    },
    /// Wrote a register.
    Write {
        /// The register.
        object: ObjectId,
        /// What was written.
        value: Element,
    },
    /// Read a register.
    Read {
        /// The register.
        object: ObjectId,
        /// What was there.
        seen: Option<Element>,
    },
    /// Added to a set. An element is added to one set, once.
    Add {
        /// The set.
        object: ObjectId,
        /// What was added.
        element: Element,
    },
    /// Removed from a set, after it was seen there.
    Remove {
        /// The set.
        object: ObjectId,
        /// What was removed.
        element: Element,
    },
    /// Read all members of a set: the matches of a predicate.
    Members {
        /// The set.
        object: ObjectId,
        /// Its members in any order.
        seen: Vec<Element>,
    },
}

impl Event {
    /// What the step touched.
    pub fn object(&self) -> ObjectId {
        match self {
            Self::Append { object, .. }
            | Self::List { object, .. }
            | Self::Write { object, .. }
            | Self::Read { object, .. }
            | Self::Add { object, .. }
            | Self::Remove { object, .. }
            | Self::Members { object, .. } => *object,
        }
    }
}

/// How a transaction ended, as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect.
    Committed,
    /// It left no trace.
    Aborted,
    /// Nobody knows: it counts as committed if anything that it wrote was seen.
    Unknown,
}

/// A transaction as its client saw it.
#[derive(Clone, Debug)]
pub struct Txn {
    /// Its steps in order.
    pub events: Vec<Event>,
    /// How it ended.
    pub outcome: Outcome,
    /// Moment just before it began. Moments of one history are all different and follow real time.
    pub begin: u64,
    /// Moment just after it ended.
    pub end: u64,
}

/// What a number of clients did to one database.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Names of the objects, for people.
    pub objects: Vec<String>,
    /// All transactions, in any order.
    pub txns: Vec<Txn>,
}

/// Writes a history down from many threads.
#[derive(Debug, Default)]
pub struct Recorder {
    clock: AtomicU64,
    next_element: AtomicU64,
    ended: AtomicU32,
    names: Mutex<(HashMap<String, ObjectId>, Vec<String>)>,
    txns: Mutex<Vec<Txn>>,
}

/// A transaction that is being written down. Dropped without an end, it is not part of the history.
#[derive(Debug)]
pub struct Recording {
    events: Vec<Event>,
    begin: u64,
}

impl Recorder {
    /// An empty history.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of the object of that name.
    pub fn object(&self, name: &str) -> ObjectId {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = names.0.get(name) {
            return *id;
        }
        let id = ObjectId::try_from(names.1.len()).expect("a history has few objects");
        names.1.push(name.to_owned());
        names.0.insert(name.to_owned(), id);
        id
    }

    /// An element that nobody else gets.
    pub fn element(&self) -> Element {
        self.next_element.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Call before the transaction begins.
    pub fn begin(&self) -> Recording {
        Recording {
            events: Vec::new(),
            begin: self.clock.fetch_add(1, Ordering::SeqCst),
        }
    }

    /// Call after the transaction ended.
    pub fn end(&self, recording: Recording, outcome: Outcome) {
        let end = self.clock.fetch_add(1, Ordering::SeqCst);
        let Recording { events, begin } = recording;
        self.ended.fetch_add(1, Ordering::Relaxed);
        let mut txns = self.txns.lock().unwrap_or_else(PoisonError::into_inner);
        txns.push(Txn {
            events,
            outcome,
            begin,
            end,
        });
    }

    /// Transactions that ended so far.
    pub fn ended(&self) -> u32 {
        self.ended.load(Ordering::Relaxed)
    }

    /// The history.
    pub fn finish(self) -> History {
        let (_, objects) = self
            .names
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let txns = self
            .txns
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        History { objects, txns }
    }
}

impl Recording {
    /// Adds a step.
    pub fn push(&mut self, event: Event) {
        self.events.push(event);
    }
}
