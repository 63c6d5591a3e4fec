//! Cursors over buckets.

use isomer_data::{BucketCursor, BytePair};
use isomer_value::Value;

use crate::{Result, Transaction};

/// A place between two pairs of a bucket: see [`crate::Bucket::cursor`]. [`Cursor::next`] gives the pair behind it and steps over
/// it, [`Cursor::previous`] the one in front of it.
///
/// It belongs to no transaction: each step is given one and sees what that one sees, its own writes since the last step included,
/// so that a walk may change what it walks over. Pairs are read ahead, at most 256 KiB of them.
///
/// ```
/// use isomer_db::Database;
///
/// let db = Database::open_in_memory()?;
/// let mut tx = db.begin()?;
/// for day in ["2026-11-19", "2026-11-20", "2026-11-21"] {
///     tx.bucket("log").put(day, day.len() as i64)?;
/// }
/// let mut at = tx.bucket("log").cursor();
/// at.seek("2026-11-20");
/// assert_eq!(at.next(&mut tx)?.unwrap().0, b"2026-11-20");
/// assert_eq!(at.previous(&mut tx)?.unwrap().0, b"2026-11-20");
/// assert_eq!(at.previous(&mut tx)?.unwrap().0, b"2026-11-19");
/// at.to_end();
/// let (last, _) = at.previous(&mut tx)?.unwrap();
/// tx.bucket("log").delete(&last)?;
/// assert_eq!(at.previous(&mut tx)?.unwrap().0, b"2026-11-20");
/// tx.commit()?;
/// # Ok::<(), isomer_db::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cursor(BucketCursor);

impl Cursor {
    pub(crate) fn new(cursor: BucketCursor) -> Self {
        Self(cursor)
    }

    /// Goes before the first pair.
    pub fn to_start(&mut self) {
        self.0.to_start();
    }

    /// Goes behind the last pair.
    pub fn to_end(&mut self) {
        self.0.to_end();
    }

    /// Goes before the first pair whose key is `key` or a later one.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        self.0.seek(key.as_ref());
    }

    /// The next pair; nothing at the end, where it stays.
    pub fn next(&mut self, tx: &mut Transaction) -> Result<Option<(Vec<u8>, Value)>> {
        tx.below(|data| self.0.next_value(data))
    }

    /// The pair before; nothing at the start, where it stays.
    pub fn previous(&mut self, tx: &mut Transaction) -> Result<Option<(Vec<u8>, Value)>> {
        tx.below(|data| self.0.previous_value(data))
    }

    /// As [`Cursor::next`], as bytes: a bucket of several values a key gives one pair for each.
    pub fn next_bytes(&mut self, tx: &mut Transaction) -> Result<Option<BytePair>> {
        tx.below(|data| self.0.next(data))
    }

    /// As [`Cursor::previous`], as bytes.
    pub fn previous_bytes(&mut self, tx: &mut Transaction) -> Result<Option<BytePair>> {
        tx.below(|data| self.0.previous(data))
    }
}
