//! Puts and deletions stored consecutively, in chunks of memory that are never reallocated: a growing buffer
//! would be copied into twice as much memory repeatedly, which the operating system has to provide if it is
//! large.

/// A key with its value; `None` if it was deleted.
pub(super) type Write<'a> = (&'a [u8], Option<&'a [u8]>);

/// Position of a write: the number of its chunk and, in the lowest bits, the offset in it. Later ones are
/// greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WritePosition(pub(super) u32);

/// Bits of the offset: a write begins within this many bytes of its chunk.
const OFFSET_BITS: u32 = 18;
/// Bytes of the first chunk; each further one has as many as there are so far, up to the maximum, or what a
/// write needs.
const FIRST_PIECE_BYTES: usize = 1 << 10;
const PIECE_BYTES: usize = 1 << OFFSET_BITS;
const MAX_PIECES: usize = if cfg!(test) {
    64
} else {
    1 << (32 - OFFSET_BITS)
};

/// Before a key: its length, and the length of its value, 32 bits each.
const HEAD_BYTES: usize = 8;
const DELETED: u32 = u32::MAX;

impl WritePosition {
    fn new(piece: usize, offset: usize) -> Self {
        Self(((piece << OFFSET_BITS) + offset) as u32)
    }

    fn piece(self) -> usize {
        (self.0 >> OFFSET_BITS) as usize
    }

    fn offset(self) -> usize {
        self.0 as usize & (PIECE_BYTES - 1)
    }
}

/// Writes in order. Memory: 8 bytes each in addition to key and value.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Each is filled within its capacity; none is empty.
    pieces: Vec<Vec<u8>>,
    /// Bytes in all of them.
    bytes: usize,
    len: usize,
}

impl Content {
    /// Number of writes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of keys and values.
    pub(super) fn bytes(&self) -> usize {
        self.bytes - HEAD_BYTES * self.len
    }

    /// Whether no more writes may be pushed.
    pub(super) fn is_full(&self) -> bool {
        self.pieces.len() == MAX_PIECES
    }

    /// Appends a write, and returns its position.
    pub(super) fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> WritePosition {
        let value_len = value.map_or(DELETED, |value| narrow(value.len()));
        let value = value.unwrap_or_default();
        let needed = HEAD_BYTES + key.len() + value.len();
        let piece = match self.pieces.last_mut() {
            Some(last) if last.len() < PIECE_BYTES && last.capacity() - last.len() >= needed => {
                last
            }
            _ => {
                let usual = self.bytes.clamp(FIRST_PIECE_BYTES, PIECE_BYTES);
                self.pieces.push(Vec::with_capacity(usual.max(needed)));
                self.pieces.last_mut().expect("just made")
            }
        };
        let head = u64::from(narrow(key.len())) | u64::from(value_len) << 32;
        let offset = piece.len();
        piece.extend_from_slice(&head.to_le_bytes());
        piece.extend_from_slice(key);
        piece.extend_from_slice(value);
        self.bytes += needed;
        self.len += 1;
        WritePosition::new(self.pieces.len() - 1, offset)
    }

    /// The write at a position.
    #[inline]
    pub(super) fn at(&self, position: WritePosition) -> Write<'_> {
        let bytes = &self.pieces[position.piece()][position.offset()..];
        let (head, rest) = bytes.split_first_chunk().expect("a write begins there");
        let head = u64::from_le_bytes(*head);
        let (key, rest) = rest.split_at(head as u32 as usize);
        let value_len = (head >> 32) as u32;
        (
            key,
            (value_len != DELETED).then(|| &rest[..value_len as usize]),
        )
    }

    /// The writes from a position on.
    pub(super) fn since(
        &self,
        from: WritePosition,
    ) -> impl Iterator<Item = (WritePosition, Write<'_>)> {
        let mut next = from;
        std::iter::from_fn(move || {
            if next.offset() >= self.pieces.get(next.piece())?.len() {
                next = WritePosition::new(next.piece() + 1, 0);
                self.pieces.get(next.piece())?;
            }
            let position = next;
            let (key, value) = self.at(position);
            let bytes = HEAD_BYTES + key.len() + value.map_or(0, <[u8]>::len);
            // A write that is larger than a chunk is alone in its chunk.
            next = WritePosition::new(
                position.piece(),
                (position.offset() + bytes).min(PIECE_BYTES),
            );
            Some((position, (key, value)))
        })
    }

    /// Position of the next write: there, or at the beginning of the next chunk.
    pub(super) fn end(&self) -> WritePosition {
        match self.pieces.last() {
            Some(last) => WritePosition::new(self.pieces.len() - 1, last.len().min(PIECE_BYTES)),
            None => WritePosition::default(),
        }
    }

    /// Removes everything from a position on, keeping `len` writes.
    pub(super) fn truncate(&mut self, from: WritePosition, len: usize) {
        self.pieces
            .truncate(from.piece() + usize::from(from.offset() > 0));
        if let Some(last) = self.pieces.get_mut(from.piece()) {
            last.truncate(from.offset());
        }
        self.bytes = self.pieces.iter().map(Vec::len).sum();
        self.len = len;
    }
}

fn narrow(len: usize) -> u32 {
    u32::try_from(len).expect("keys and values are far below 4 GiB")
}
