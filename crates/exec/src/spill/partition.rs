//! Rows partitioned by the hash of their keys.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use isomer_data::{SpillFolder, SpillParts, SpillReader, SpillRun};
use isomer_plan::physical::OpId;
use isomer_value::{GroupKey, Value};
use rustc_hash::FxHasher;

use super::{
    codec::{keep_small, put_row, read_row},
    files::{failed, folder, most_open, note},
};
use crate::{
    context::Cx,
    error::{ExecError, Result},
};

/// Maximum number of repartitionings: a partition that is still too large then has few keys with many rows each.
pub(super) const MAX_LEVELS: u32 = 8;

/// Partitions being written.
pub(super) struct Partitions {
    op: OpId,
    folder: Arc<SpillFolder>,
    parts: SpillParts,
    /// Number of partitionings before this one: each uses other bits of the hash.
    level: u32,
    bytes: Vec<u8>,
    written: u64,
}

impl Partitions {
    pub(super) fn new(op: OpId, level: u32, cx: &Cx<'_>) -> Result<Self> {
        let folder = folder(cx);
        let file = folder.file().map_err(failed(&folder))?;
        Ok(Self {
            op,
            parts: SpillParts::new(file, most_open(cx).min(32)),
            folder,
            level,
            bytes: Vec::new(),
            written: 0,
        })
    }

    /// Adds a row to the partition of `key`.
    pub(super) fn push(&mut self, key: &[GroupKey], row: &[Value]) -> Result<()> {
        let mut hasher = FxHasher::default();
        self.level.hash(&mut hasher);
        key.iter().for_each(|part| part.hash(&mut hasher));
        // Mixed, because the hash's own bits may depend on few bits of the key.
        let mixed = (hasher.finish() ^ (hasher.finish() >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let part = (mixed >> 32) as usize % self.parts.count();
        self.bytes.clear();
        put_row(&mut self.bytes, row.iter())?;
        self.written += self.bytes.len() as u64;
        self.parts
            .write(part, &self.bytes)
            .map_err(failed(&self.folder))?;
        keep_small(&mut self.bytes);
        Ok(())
    }

    /// The partitions, to be read; each is deleted after reading.
    pub(super) fn finish(self, cx: &mut Cx<'_>) -> Result<Vec<Partition>> {
        note(cx, self.op, self.written);
        let runs = self.parts.finish().map_err(failed(&self.folder))?;
        let (folder, level) = (self.folder, self.level);
        let partition = |run| Partition {
            folder: folder.clone(),
            run,
            level,
        };
        Ok(runs.into_iter().map(partition).collect())
    }
}

/// A partition that was written.
pub(super) struct Partition {
    folder: Arc<SpillFolder>,
    run: SpillRun,
    level: u32,
}

impl Partition {
    pub(super) fn is_empty(&self) -> bool {
        self.run.is_empty()
    }

    /// The level at which this partition is partitioned again; none if that would not help.
    pub(super) fn next_level(&self) -> Option<u32> {
        (self.level + 1 < MAX_LEVELS).then_some(self.level + 1)
    }

    /// Its rows in the order of arrival.
    pub(super) fn rows(&self) -> PartitionRows {
        PartitionRows {
            folder: self.folder.clone(),
            input: self.run.reader(),
            buffer: Vec::new(),
        }
    }
}

/// Rows of a partition.
pub(super) struct PartitionRows {
    folder: Arc<SpillFolder>,
    input: SpillReader,
    buffer: Vec<u8>,
}

impl PartitionRows {
    /// Reads the next row into `row`; false at the end.
    pub(super) fn next(&mut self, row: &mut Vec<Value>, cx: &mut Cx<'_>) -> Result<bool> {
        cx.tick(1)?;
        let more = read_row(&mut self.input, &mut self.buffer, row);
        keep_small(&mut self.buffer);
        more.map_err(failed(&self.folder))
    }
}

/// The row number with which a spilled row begins.
pub(super) fn number(row: &[Value]) -> Result<i64> {
    row.first()
        .and_then(Value::as_int)
        .ok_or_else(|| ExecError::Internal("a spilled row has no number".into()))
}
