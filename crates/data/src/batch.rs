//! Batched lookups: many keys in one round trip.

use std::{mem, ops::ControlFlow};

use isomer_layout::DataError;
use isomer_storage::Read;

/// The keys of a batch, concatenated in one buffer: they are many and small.
pub(crate) struct KeyBatch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyBatch {
    /// An empty batch, with capacity for `keys` keys of `bytes` bytes in total.
    pub(crate) fn with_room(keys: usize, bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ends: Vec::with_capacity(keys),
        }
    }

    /// Adds the key that `append` writes.
    pub(crate) fn push(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        append(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Calls `visit` with the position and the value of each key, in order, until it breaks or fails.
    pub(crate) fn visit(
        &self,
        read: &dyn Read,
        mut visit: impl FnMut(usize, Option<&[u8]>) -> Result<ControlFlow<()>, DataError>,
    ) -> Result<ControlFlow<()>, DataError> {
        let mut start = 0;
        let ends = self.ends.iter();
        let keys: Vec<&[u8]> = ends
            .map(|&end| &self.bytes[mem::replace(&mut start, end)..end])
            .collect();
        let (mut place, mut flow) = (0, Ok(ControlFlow::Continue(())));
        read.visit_many(&keys, &mut |value| {
            flow = visit(place, value);
            place += 1;
            match flow {
                Ok(flow) => flow,
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        flow
    }
}
