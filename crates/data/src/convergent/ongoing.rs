//! What a transaction keeps for its convergent operations.

use isomer_layout::convergent::{clock::Vector, position::FieldPosition};
use rustc_hash::FxHashSet;

use crate::convergent::replica::Ticket;

/// The state of a transaction with convergent operations.
pub(crate) struct Ongoing {
    pub(crate) ticket: Ticket,
    pub(crate) seen: Vector,
    pub(crate) time: u64,
    pub(crate) next_op: u32,
    /// Places whose kind was checked.
    pub(crate) checked: FxHashSet<Vec<u8>>,
    /// Counters that were added to.
    pub(crate) counters: Vec<FieldPosition>,
}

/// Work that is left for after the commit.
pub(crate) struct AfterCommit {
    pub(crate) ticket: Ticket,
    pub(crate) counters: Vec<FieldPosition>,
}
