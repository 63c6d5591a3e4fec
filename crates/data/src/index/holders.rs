//! The nodes that have an entry of an index.

use crate::{Indexes, footprint::Space};
use isomer_layout::{
    DataError,
    graph::state::RecordId,
    index::IndexEntry,
    keyspace::{after_prefix, entry_record},
};

impl Indexes<'_> {
    /// As [`Indexes::holder`], with the observation in the footprint.
    pub(crate) fn observed_holder(
        self,
        entry: &IndexEntry,
        record: RecordId,
    ) -> Result<Option<RecordId>, DataError> {
        self.tx.footprint().read_fields(
            Space::Index(entry.index.0),
            entry.ends.len(),
            &entry.values,
        );
        let holder = self.holder(entry, record.parts().1)?;
        Ok(holder.map(|id| record.with_number(id)))
    }

    /// The id of a record other than `record` that has the entry's values.
    #[doc(hidden)]
    pub fn holder(self, entry: &IndexEntry, record: u64) -> Result<Option<u64>, DataError> {
        let prefix = entry.prefix();
        let mut holder = None;
        // Two: one of them may be the record itself.
        self.tx.raw().each_pair(
            &prefix,
            after_prefix(&prefix).as_deref(),
            2,
            |key, value| {
                let found = entry_record(key, value)?;
                if found != record {
                    holder = Some(found);
                }
                Ok(())
            },
        )?;
        Ok(holder)
    }
}
