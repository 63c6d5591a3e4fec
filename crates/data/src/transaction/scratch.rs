//! Buffers that a transaction uses again.

/// Most buffers that are kept.
const MAX_BUFFERS: usize = 4;

/// Empty buffers for keys and records.
#[derive(Default)]
pub(crate) struct ScratchBuffers {
    kept: Vec<Vec<u8>>,
}

impl ScratchBuffers {
    /// An empty buffer, to be returned by [`ScratchBuffers::keep`].
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.kept.pop().unwrap_or_default()
    }

    pub(crate) fn keep(&mut self, mut buffer: Vec<u8>) {
        if self.kept.len() < MAX_BUFFERS {
            buffer.clear();
            self.kept.push(buffer);
        }
    }
}
