//! Anomalies that a serializable database never shows.

use std::fmt;

/// Classes of anomalies, from the simplest to the subtlest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A transaction did not see its own writes.
    Internal,
    /// A value that no transaction wrote.
    Garbage,
    /// A committed write that a later transaction does not see, and that was not overwritten.
    LostWrite,
    /// Two readers saw the versions of one object in different orders.
    IncompatibleOrder,
    /// A value of an aborted transaction was read.
    G1a,
    /// A value was read that its writer overwrote before it committed.
    G1b,
    /// Writes of two transactions depend on each other in both directions.
    G0,
    /// A cycle of writes and reads, without anti-dependencies.
    G1c,
    /// Two transactions read one version of an object and both overwrote it.
    LostUpdate,
    /// A cycle with exactly one anti-dependency: a fractured read.
    GSingle,
    /// A cycle with several anti-dependencies on single objects (G2-item).
    WriteSkew,
    /// A cycle with an anti-dependency on a predicate (G2): what matched it changed.
    Phantom,
    /// A cycle only through the real-time order in which clients saw transactions begin and end.
    Stale,
}

impl Class {
    /// The name of the class in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::Garbage => "garbage read",
            Self::LostWrite => "lost write",
            Self::IncompatibleOrder => "incompatible order",
            Self::G1a => "G1a (aborted read)",
            Self::G1b => "G1b (intermediate read)",
            Self::G0 => "G0 (write cycle)",
            Self::G1c => "G1c (circular information flow)",
            Self::LostUpdate => "lost update",
            Self::GSingle => "G-single (read skew)",
            Self::WriteSkew => "G2-item (write skew)",
            Self::Phantom => "G2 (phantom)",
            Self::Stale => "stale read",
        }
    }
}

/// An anomaly with its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Its class.
    pub class: Class,
    /// Transactions, objects and values, as text.
    pub story: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class.name(), self.story)
    }
}
