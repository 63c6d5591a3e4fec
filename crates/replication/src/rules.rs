//! Mutants: rules that tests can break, one at a time, to verify that the tests notice.

/// A deliberate mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)] // all but tests leave the rules alone
pub(crate) enum Mutant {
    /// Transactions are applied before those that they have seen.
    NoCausalGate,
    /// Transactions are applied before earlier ones of their replica.
    NoGapGate,
    /// Joining a snapshot treats records that the other side lacks as unknown to it.
    SnapshotIgnoresVector,
    /// Of concurrent values the last one to arrive is read.
    LastAppliedWins,
    /// A deletion removes what it has not seen.
    DeletesUnseen,
    /// Relationships stay when the lives of their ends are gone.
    EndsIgnored,
    /// A transaction that was applied before is applied again.
    AppliesTwice,
    /// A restored copy continues under its old epoch.
    NoEpochAfterRestore,
    /// A number is shipped while a lower one is under way.
    ShipsUnsettled,
    /// A transaction is applied in two commits, and from time to time the second one is lost.
    HalfTransactions,
    /// Changes outside the space are sent to others.
    SendsOutside,
    /// Received changes outside the space are applied.
    AppliesOutside,
    /// Of files with one path the first one to arrive keeps it.
    FirstFileKeepsName,
    /// All files have one hash. (Not a mutant of the code: an attacker may choose colliding names.)
    HashesMeet,
    /// Each page of a snapshot is of the newest state.
    PagesOfAnyState,
}

/// The number of times that [`end_point`] is reached before the process exits: a test sets it for a process that it
/// starts.
#[cfg(debug_assertions)]
const END_AT: &str = "ISOMER_TEST_END_AT";

/// A point at which a test may kill the process, as `kill -9` does, between two steps of an exchange. Does nothing in a
/// release build.
#[inline]
pub fn end_point() {
    #[cfg(debug_assertions)]
    {
        use std::sync::{
            LazyLock,
            atomic::{AtomicU64, Ordering},
        };
        static LEFT: LazyLock<Option<AtomicU64>> = LazyLock::new(|| {
            let times = std::env::var(END_AT).ok()?;
            times.parse().ok().map(AtomicU64::new)
        });
        if let Some(left) = &*LEFT
            && left.fetch_sub(1, Ordering::Relaxed) == 1
        {
            std::process::abort();
        }
    }
}

#[cfg(not(test))]
pub(crate) const fn broken(_: Mutant) -> bool {
    false
}

#[cfg(test)]
pub(crate) use switch::{break_rule, broken};

#[cfg(test)]
mod switch {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        static BROKEN: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Enables a mutant on this thread until changed.
    pub(crate) fn break_rule(mutant: Option<Mutant>) {
        BROKEN.set(mutant);
    }

    pub(crate) fn broken(mutant: Mutant) -> bool {
        BROKEN.get() == Some(mutant)
    }
}
