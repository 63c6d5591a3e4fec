//! Puts and deletions one behind the other, in pieces of memory that are never copied: one that grew would be copied into
//! twice as much memory again and again, fresh from the operating system where it is large.

/// A key with its value; none where it was deleted.
pub(super) type Write<'a> = (&'a [u8], Option<&'a [u8]>);

/// Where a write begins: the number of its piece and, in the lowest bits, how far into it. Later ones are greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(pub(super) u32);

/// Bits of how far into a piece: a write begins within so many bytes of it.
const OFFSET_BITS: u32 = 18;
/// Bytes of the first piece; each further one has as many as there are so far, up to the most, or what a write needs.
const FIRST_PIECE_BYTES: usize = 1 << 10;
const PIECE_BYTES: usize = 1 << OFFSET_BITS;
const MOST_PIECES: usize = if cfg!(test) {
    64
} else {
    1 << (32 - OFFSET_BITS)
};

/// Before a key: how long it is, and how long its value, 32 bits each.
const HEAD_BYTES: usize = 8;
const DELETED: u32 = u32::MAX;

impl Place {
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

/// Writes as they came. Memory: 8 bytes each beside key and value.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Each is filled within what it was allocated with; none is empty.
    pieces: Vec<Vec<u8>>,
    /// Bytes in all of them.
    bytes: usize,
    len: usize,
}

impl Content {
    /// How many writes there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of keys and values.
    pub(super) fn bytes(&self) -> usize {
        self.bytes - HEAD_BYTES * self.len
    }

    /// Whether nothing more may be pushed.
    pub(super) fn is_full(&self) -> bool {
        self.pieces.len() == MOST_PIECES
    }

    /// Appends a write, and says where it is.
    pub(super) fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Place {
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
        Place::new(self.pieces.len() - 1, offset)
    }

    /// The write at a place.
    #[inline]
    pub(super) fn at(&self, place: Place) -> Write<'_> {
        let bytes = &self.pieces[place.piece()][place.offset()..];
        let (head, rest) = bytes.split_first_chunk().expect("a write begins there");
        let head = u64::from_le_bytes(*head);
        let (key, rest) = rest.split_at(head as u32 as usize);
        let value_len = (head >> 32) as u32;
        (
            key,
            (value_len != DELETED).then(|| &rest[..value_len as usize]),
        )
    }

    /// The writes from a place on.
    pub(super) fn since(&self, from: Place) -> impl Iterator<Item = (Place, Write<'_>)> {
        let mut next = from;
        std::iter::from_fn(move || {
            if next.offset() >= self.pieces.get(next.piece())?.len() {
                next = Place::new(next.piece() + 1, 0);
                self.pieces.get(next.piece())?;
            }
            let place = next;
            let (key, value) = self.at(place);
            let bytes = HEAD_BYTES + key.len() + value.map_or(0, <[u8]>::len);
            // One that is larger than a piece is alone in its own.
            next = Place::new(place.piece(), (place.offset() + bytes).min(PIECE_BYTES));
            Some((place, (key, value)))
        })
    }

    /// Where the next write will be: there, or at the beginning of the piece behind.
    pub(super) fn end(&self) -> Place {
        match self.pieces.last() {
            Some(last) => Place::new(self.pieces.len() - 1, last.len().min(PIECE_BYTES)),
            None => Place::default(),
        }
    }

    /// Takes everything from a place on out, after `len` writes.
    pub(super) fn truncate(&mut self, from: Place, len: usize) {
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
