//! The nodes that have an entry of an index.

use isomer_layout::{
    DataError,
    index::IndexEntry,
    keyspace::{after_prefix, entry_node},
};
use isomer_value::NodeId;

use crate::{Indexes, footprint::Space};

impl Indexes<'_> {
    /// As [`Indexes::holder`], with the observation in the footprint.
    pub(crate) fn observed_holder(
        self,
        entry: &IndexEntry,
        node: NodeId,
    ) -> Result<Option<NodeId>, DataError> {
        self.tx.footprint().read_fields(
            Space::Index(entry.index.0),
            entry.ends.len(),
            &entry.values,
        );
        self.holder(entry, node)
    }

    /// A node other than `node` that has the entry's values.
    #[doc(hidden)]
    pub fn holder(self, entry: &IndexEntry, node: NodeId) -> Result<Option<NodeId>, DataError> {
        let prefix = entry.prefix();
        let mut holder = None;
        // Two: one of them may be the node itself.
        self.tx.raw().each_pair(
            &prefix,
            after_prefix(&prefix).as_deref(),
            2,
            |key, value| {
                let found = entry_node(key, value)?;
                if found != node {
                    holder = Some(found);
                }
                Ok(())
            },
        )?;
        Ok(holder)
    }
}
