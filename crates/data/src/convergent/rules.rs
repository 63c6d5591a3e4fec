//! Mutants, for the tests that must catch them. In a release build no rule is broken.

/// One mutant of the implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)] // some are made by tests alone
pub(crate) enum Mutant {
    /// Applies a transaction before what it has seen.
    NoCausalGate,
    /// Applies a replica's transactions with gaps.
    NoGapGate,
    /// Applies a transaction that was applied before.
    AppliesTwice,
    /// Joins states as if nothing had ever been removed.
    JoinIgnoresVector,
    /// Reuses numbers after a restore.
    ReusesDots,
    /// A removal removes what its client had not seen.
    IgnoresContext,
    /// A removal removes what its transaction had not seen.
    RemovesUnseen,
    /// Setting a register forgets what was set concurrently.
    AssignForgetsSiblings,
    /// A register takes the value that arrived last, whatever its time.
    LastArrivalWins,
    /// Increments are folded before all members have seen them.
    FoldsUnstable,
    /// A join counts increments that the other side has folded already.
    JoinCountsFoldedTwice,
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

    pub(crate) fn broken(mutant: Mutant) -> bool {
        BROKEN.get() == Some(mutant)
    }

    /// Breaks a rule on this thread.
    pub(crate) fn break_rule(mutant: Option<Mutant>) {
        BROKEN.set(mutant);
    }
}

/// Whether a rule is broken: never, outside of tests.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn broken(_: Mutant) -> bool {
    false
}
