//! Cursors over buckets.

use isomer_data::{BucketCursor, BytePair};
use isomer_value::Value;

use crate::{ReadTransaction, Result};

/// A position between two pairs of a bucket: see [`crate::ReadBucket::cursor`]. [`Cursor::next`] returns the pair
/// after it and moves past it, [`Cursor::previous`] the pair before it.
///
/// It belongs to no transaction: each step is given one and sees its data, including writes since the last step, so
/// that a bucket may be changed while it is traversed. Pairs are read ahead, at most 256 KiB of them.
///
/// ```
/// use isomerdb::Database;
///
/// let db = Database::open_in_memory()?;
/// let tx = db.begin()?;
/// for day in ["2026-11-19", "2026-11-20", "2026-11-21"] {
///     tx.bucket("log").put(day, day.len() as i64)?;
/// }
/// let mut at = tx.bucket("log").cursor();
/// at.seek("2026-11-20");
/// assert_eq!(at.next(&tx)?.unwrap().0, b"2026-11-20");
/// assert_eq!(at.previous(&tx)?.unwrap().0, b"2026-11-20");
/// assert_eq!(at.previous(&tx)?.unwrap().0, b"2026-11-19");
/// at.to_end();
/// let (last, _) = at.previous(&tx)?.unwrap();
/// tx.bucket("log").delete(&last)?;
/// assert_eq!(at.previous(&tx)?.unwrap().0, b"2026-11-20");
/// tx.commit()?;
/// # Ok::<(), isomerdb::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cursor(BucketCursor);

impl Cursor {
    pub(crate) fn new(cursor: BucketCursor) -> Self {
        Self(cursor)
    }

    /// Moves before the first pair.
    pub fn to_start(&mut self) {
        self.0.to_start();
    }

    /// Moves after the last pair.
    pub fn to_end(&mut self) {
        self.0.to_end();
    }

    /// Moves before the first pair whose key is `key` or greater.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        self.0.seek(key.as_ref());
    }

    /// The next pair; none at the end, where it stays.
    pub fn next(&mut self, tx: &ReadTransaction) -> Result<Option<(Vec<u8>, Value)>> {
        tx.reading(|data| self.0.next_value(data))
    }

    /// The previous pair; none at the start, where it stays.
    pub fn previous(&mut self, tx: &ReadTransaction) -> Result<Option<(Vec<u8>, Value)>> {
        tx.reading(|data| self.0.previous_value(data))
    }

    /// Like [`Cursor::next`], as bytes: a bucket with several values per key returns one pair per value.
    pub fn next_bytes(&mut self, tx: &ReadTransaction) -> Result<Option<BytePair>> {
        tx.reading(|data| self.0.next(data))
    }

    /// Like [`Cursor::previous`], as bytes.
    pub fn previous_bytes(&mut self, tx: &ReadTransaction) -> Result<Option<BytePair>> {
        tx.reading(|data| self.0.previous(data))
    }
}
