//! Reading a whole table and checking its consistency.

use std::{collections::BTreeMap, sync::Arc};

use isomer_storage::StorageError;

use super::{
    Table,
    block::{BlockCursor, ValueKind, entry_order},
    filter::{filter_hash, may_hold},
};
use crate::blob::BlobRef;

impl Table {
    /// Reads every block: checksums, order, indexes, filters, counts. Calls `reference` with each reference to
    /// a blob file. Returns the first error found.
    pub(crate) fn verify(
        self: &Arc<Self>,
        reference: &mut dyn FnMut(&BlobRef) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let wrong = |offset: u64, what: &str| self.file.damaged(offset, what);
        let mut last: Option<(Vec<u8>, u64)> = None;
        let (mut entries, mut deletions, mut blocks, mut raw_bytes) = (0, 0, 0, 0);
        let mut blobs: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let (mut top, mut index, mut data) =
            (BlockCursor::new(), BlockCursor::new(), BlockCursor::new());
        top.set(self.top.block().clone());
        top.first().map_err(self.damaged(self.top_offset))?;
        while top.valid() {
            let handle = self.handle(top.value(), self.top_offset)?;
            let damaged = self.damaged(handle.offset);
            let partition = self.read_partition(handle)?;
            let filter = self.filter(&partition, handle)?;
            index.set(partition.clone());
            index.first().map_err(&damaged)?;
            let mut bound = None;
            while index.valid() {
                let at = self.handle(index.value(), handle.offset)?;
                let block_damaged = self.damaged(at.offset);
                data.set(self.parse_block(self.file.read(at)?, at)?);
                data.first().map_err(&block_damaged)?;
                while data.valid() {
                    let (version, held) = data.stamp().map_err(&block_damaged)?;
                    let here = (data.key(), version);
                    if let Some((key, version)) = &last
                        && !entry_order((key, *version), here).is_lt()
                    {
                        return Err(wrong(at.offset, "entries are not in order"));
                    }
                    let denied = |known: &[u8]| !may_hold(filter, filter_hash(known));
                    let lens = self.properties.filter_prefixes.iter();
                    let mut beginnings = lens.filter_map(|len| data.key().get(..*len));
                    if denied(data.key()) || beginnings.any(denied) {
                        return Err(wrong(handle.offset, "a filter denies an existing key"));
                    }
                    if !(self.properties.oldest..=self.properties.newest).contains(&version) {
                        return Err(wrong(
                            at.offset,
                            "a version is outside of the table's range",
                        ));
                    }
                    entries += 1;
                    raw_bytes += data.key().len() as u64;
                    match held {
                        ValueKind::Value => raw_bytes += data.value().len() as u64,
                        ValueKind::Deletion => deletions += 1,
                        ValueKind::Apart => {
                            let blob = BlobRef::parse(data.value())
                                .ok_or_else(|| self.unreadable(at.offset))?;
                            raw_bytes += blob.value_bytes;
                            let (bytes, values) = blobs.entry(blob.file).or_default();
                            *bytes += u64::from(blob.handle.len);
                            *values += 1;
                            reference(&blob)?;
                        }
                    }
                    let last = last.get_or_insert_default();
                    last.0.clear();
                    last.0.extend_from_slice(data.key());
                    last.1 = version;
                    data.next().map_err(&block_damaged)?;
                }
                let (separator_version, _) = index.stamp().map_err(&damaged)?;
                let separator = (index.key(), separator_version);
                let behind = |(key, version): &(Vec<u8>, u64)| {
                    entry_order((key, *version), separator).is_gt()
                };
                if last.as_ref().is_none_or(behind) {
                    return Err(wrong(handle.offset, "an index does not match its blocks"));
                }
                // Later entries must be after the separator.
                last = Some((separator.0.to_vec(), separator.1));
                bound = last.clone();
                blocks += 1;
                index.next().map_err(&damaged)?;
            }
            let (version, _) = top.stamp().map_err(self.damaged(self.top_offset))?;
            if bound.as_ref() != Some(&(top.key().to_vec(), version)) {
                return Err(wrong(
                    self.top_offset,
                    "the index does not match its partitions",
                ));
            }
            top.next().map_err(self.damaged(self.top_offset))?;
        }
        let blobs: Vec<_> = blobs
            .into_iter()
            .map(|(file, (bytes, values))| (file, bytes, values))
            .collect();
        let properties = &self.properties;
        if (entries, deletions, blocks, raw_bytes, &blobs)
            != (
                properties.entries,
                properties.deletions,
                properties.blocks,
                properties.raw_bytes,
                &properties.blobs,
            )
        {
            return Err(wrong(
                self.top_offset,
                "the table does not match its properties",
            ));
        }
        Ok(())
    }
}
