//! Deliberate mistakes, for the tests on the simulated disk that must catch them (`cargo xtask test --suite mutants`). In a
//! program nothing is ever broken.

/// One mistake that an implementation could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mutant {
    /// Nothing of the log is synced.
    LogNotSynced = 1,
    /// The folder of the log is not synced after a segment got its name.
    SegmentNameNotSynced,
    /// The closing part of a segment is not synced.
    ClosingNotSynced,
    /// A segment with entries of the change stream is synced and closed, and what is before it without any may still be lost.
    ClosedAheadOfEarlier,
    /// Opening closes segments from the last to the first, each by itself.
    SettledOutOfOrder,
    /// A record says that those before it are durable, which were not synced.
    DurableBeforeSync,
    /// A sync that failed is repeated, and what it then answers is believed.
    FailedSyncRepeated,
    /// The manifest names tables that were not synced.
    ManifestBeforeTables,
    /// The manifest itself is not synced.
    ManifestNotSynced,
    /// Opening builds upon a manifest whose name may not be durable.
    ManifestNameNotSettled,
    /// Segments go before what stays tells durably that their part of the change stream is forgotten.
    TrimNotDurable,
}

#[cfg(feature = "mutants")]
pub use switch::{break_rule, broken};

#[cfg(feature = "mutants")]
mod switch {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::Mutant;

    static BROKEN: AtomicU8 = AtomicU8::new(0);

    /// Whether a rule is broken.
    pub fn broken(mutant: Mutant) -> bool {
        BROKEN.load(Ordering::Relaxed) == mutant as u8
    }

    /// Breaks a rule, in the whole process.
    pub fn break_rule(mutant: Option<Mutant>) {
        BROKEN.store(mutant.map_or(0, |mutant| mutant as u8), Ordering::Relaxed);
    }
}

/// Whether a rule is broken: never, outside of tests.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub(crate) fn broken(_: Mutant) -> bool {
    false
}
