//! What tests can switch off, one at a time, to see that they notice.

/// A deliberate mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)] // all but tests leave the rules alone
pub(crate) enum Mutant {
    /// Transactions are applied before those that they have seen.
    NoCausalGate,
    /// Transactions are applied before earlier ones of their replica.
    NoGapGate,
    /// Joining a snapshot takes what the other one lacks for unknown to it.
    SnapshotIgnoresVector,
    /// Of concurrent values the one that came last is read.
    LastAppliedWins,
    /// A deletion takes what it has not seen.
    DeletesUnseen,
    /// Relationships stay when the ends that they were made for are gone.
    EndsIgnored,
    /// A transaction that was applied before is applied again.
    AppliesTwice,
    /// A restored copy goes on under its old epoch.
    NoEpochAfterRestore,
    /// A copy goes on under the name of its original.
    CopyKeepsName,
    /// A number is shipped while a lower one is under way.
    ShipsUnsettled,
    /// A transaction is applied in two commits, and now and then the second one does not come.
    HalfTransactions,
    /// What is beside the space is told to others.
    TellsBeside,
    /// What is beside the space is taken for a part of it.
    TakesBeside,
    /// Of files that are called alike the first one that came keeps the name.
    FirstFileKeepsName,
    /// All files have one hash. (No mistake: somebody may make such names who means no good.)
    HashesMeet,
    /// Each page of a snapshot is of the newest state.
    PagesOfAnyState,
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

    /// Makes a mistake on this thread until told otherwise.
    pub(crate) fn break_rule(mutant: Option<Mutant>) {
        BROKEN.set(mutant);
    }

    pub(crate) fn broken(mutant: Mutant) -> bool {
        BROKEN.get() == Some(mutant)
    }
}
