//! Deferred constraint checks: a violation by one write of a statement may be repaired by a later write of the same
//! statement.
//!
//! While checks are deferred, a violating write is remembered instead of refused, and checked again at the end of the
//! statement. A write that violates nothing costs what it costs without deferral.
//!
//! Rules of one record (existence, type, bounds, closed labels) depend on the last state of the record alone: a record
//! is remembered while its last write violates one. Uniqueness depends on other records too: of two records that have
//! one value at the end of a statement, the second one got it while the first one had it, and was remembered then.
//!
//! A `_key` leads to one node. Other nodes that get it wait, in order, until the node before them releases it; a lookup
//! of a key for which a node waits is refused, as it would have to return several nodes.
//!
//! Memory: some 16 bytes a remembered record, counted as bytes of the transaction's write set.

use std::collections::VecDeque;

use isomer_layout::graph::state::RecordId;
use isomer_value::{IndexId, LabelId, NodeId};
use rustc_hash::{FxHashMap, FxHashSet};

/// The checks that are due at the end of a statement.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    pub(crate) is_on: bool,
    /// Records whose last write violates a rule.
    pub(crate) broken: FxHashSet<RecordId>,
    /// Records that got a value of a unique index while another one had it.
    pub(crate) claims: FxHashSet<(IndexId, RecordId)>,
    /// Nodes that wait for a `_key` in a label.
    pub(crate) waiting: FxHashMap<(LabelId, Vec<u8>), VecDeque<NodeId>>,
    /// Approximate bytes of the keys for which nodes wait.
    waiting_bytes: usize,
}

/// Bytes of one entry in the map of waiting nodes, without the key.
const WAITING_BYTES: usize = 128;

impl Deferred {
    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.broken.capacity() * (size_of::<RecordId>() + 1)
            + self.claims.capacity() * (size_of::<(IndexId, RecordId)>() + 1)
            + self.waiting_bytes
    }

    /// Whether some node waits for a key.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Adds a node to the queue for a key that another one has; returns whether checks are deferred.
    pub(crate) fn wait_for_key(&mut self, id: NodeId, (label, key): (LabelId, &[u8])) -> bool {
        if self.is_on {
            self.waiting_bytes += WAITING_BYTES + key.len();
            let waiting = self.waiting.entry((label, key.to_vec()));
            waiting.or_default().push_back(id);
        }
        self.is_on
    }

    /// A node releases a key; returns `None` if no other node waits for it. Returns the node to which the key leads
    /// from now on, if that changes.
    pub(crate) fn release_key(
        &mut self,
        id: NodeId,
        place: &(LabelId, Vec<u8>),
    ) -> Option<Option<NodeId>> {
        let waiting = self.waiting.get_mut(place)?;
        let next = match waiting.iter().position(|other| *other == id) {
            Some(at) => {
                waiting.remove(at);
                None
            }
            None => waiting.pop_front(),
        };
        self.waiting_bytes -= WAITING_BYTES + place.1.len();
        if waiting.is_empty() {
            self.waiting.remove(place);
        }
        Some(next)
    }
}
