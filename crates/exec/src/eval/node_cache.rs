//! What is kept of nodes that were read.

use isomer_value::{LabelId, NodeId, PropId, Value};
use rustc_hash::FxHashMap;

/// The cached reads.
#[derive(Default)]
pub(crate) struct Remembered {
    pub(super) properties: FxHashMap<PropId, FxHashMap<NodeId, Value>>,
    pub(super) labels: FxHashMap<NodeId, Box<[LabelId]>>,
    /// Their estimated bytes.
    pub(super) held_bytes: usize,
}
