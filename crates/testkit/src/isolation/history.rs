//! Histories: what concurrent transactions did and saw, recorded while they ran.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

/// Something that transactions share: a list, a register or a set. An index into [`History::objects`].
pub type ObjectId = u32;

/// A value that is written only once in a whole history, so that a reader of it identifies its writer.
pub type Element = u64;

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Append `element` to a list.
    Append {
        /// The list.
        object: ObjectId,
        /// The appended element.
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
        /// The written value.
        value: Element,
    },
    /// Read a register.
    Read {
        /// The register.
        object: ObjectId,
        /// The value read.
        seen: Option<Element>,
    },
    /// Added to a set. An element is added to one set, once.
    Add {
        /// The set.
        object: ObjectId,
        /// The added element.
        element: Element,
    },
    /// Removed from a set, after it was read there.
    Remove {
        /// The set.
        object: ObjectId,
        /// The removed element.
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
    /// The object of the operation.
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

/// Outcome of a transaction, as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect.
    Committed,
    /// It was rolled back.
    Aborted,
    /// Unknown: it counts as committed if any of its writes was seen.
    Unknown,
}

/// A transaction as its client saw it.
#[derive(Clone, Debug)]
pub struct Txn {
    /// Its operations in order.
    pub events: Vec<Event>,
    /// Its outcome.
    pub outcome: Outcome,
    /// Time point just before it began. Time points of one history are distinct and follow real time.
    pub begin: u64,
    /// Time point just after it ended.
    pub end: u64,
}

/// The operations of several clients on one database.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Names of the objects, for display.
    pub objects: Vec<String>,
    /// All transactions, in any order.
    pub txns: Vec<Txn>,
}

/// Records a history from many threads.
#[derive(Debug, Default)]
pub struct Recorder {
    clock: AtomicU64,
    next_element: AtomicU64,
    ended: AtomicU32,
    names: Mutex<(HashMap<String, ObjectId>, Vec<String>)>,
    txns: Mutex<Vec<Txn>>,
}

/// A transaction being recorded. If it is dropped without an outcome, it is not part of the history.
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

    /// The number of the object with this name.
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

    /// A new element, unique in the history.
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
    /// Adds an operation.
    pub fn push(&mut self, event: Event) {
        self.events.push(event);
    }
}
