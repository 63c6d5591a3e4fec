//! Cursors: positions in a bucket that move in either direction.

use isomer_layout::{
    DataError,
    keyspace::{after_prefix, push_terminated},
    kv::{
        content::{BucketEntry, Content},
        options::BucketKind,
    },
};
use isomer_storage::{KeyRange, Order, Page, PageLimit};
use isomer_value::Value;

use super::scan::KvCursor;
use crate::{Transaction, kv::bucket::Bucket, transaction::Stamp};

/// Pairs read ahead at first, and at most.
const FIRST_AHEAD: usize = 4;
const MAX_AHEAD: usize = 512;
const AHEAD_BYTES: usize = 256 << 10;

/// A position between two pairs of a bucket. [`BucketCursor::next`] returns the pair after it and moves past it,
/// [`BucketCursor::previous`] the one before it.
///
/// It belongs to no transaction: each call gets one, and sees what that one sees, including its own writes since the
/// last call. Within one read-only transaction, nothing moves. In a multi-value bucket, each value is a pair. Pairs are
/// read ahead, more the longer it moves in one direction (which a writing transaction observes, too), at most 256 KiB.
#[derive(Clone, Debug)]
pub struct BucketCursor {
    bucket: String,
    low: Bound,
    high: Bound,
    at: At,
    ahead: Ahead,
}

/// A key and its value, as bytes.
pub type BytePair = (Vec<u8>, Vec<u8>);

/// A bound of the range, as keys.
type Bound = Option<Vec<u8>>;

/// Its position.
#[derive(Clone, Debug)]
enum At {
    Start,
    End,
    /// Before the first pair with this key or a later one.
    Key(Vec<u8>),
    /// Before the first stored key (without the prefix of the bucket) that is this one or later.
    Stored(Vec<u8>),
}

/// Pairs that were read ahead, in the direction of the last call.
#[derive(Clone, Debug, Default)]
struct Ahead {
    pairs: std::collections::VecDeque<Read>,
    descending: bool,
    /// The state in which they were read; nothing if they are outdated.
    stamp: Option<Stamp>,
    /// How many were read the last time.
    size: usize,
    /// Whether nothing follows them.
    complete: bool,
}

#[derive(Clone, Debug)]
struct Read {
    stored: Vec<u8>,
    key: Vec<u8>,
    content: Content,
    value: Vec<u8>,
}

impl BucketCursor {
    /// A cursor over the keys from `from` (inclusive) to `to` (exclusive; none for the end), before the first of them.
    pub fn new(bucket: &str, from: &[u8], to: Option<&[u8]>) -> Self {
        Self {
            bucket: bucket.to_owned(),
            low: (!from.is_empty()).then(|| from.to_vec()),
            high: to.map(<[u8]>::to_vec),
            at: At::Start,
            ahead: Ahead::default(),
        }
    }

    /// A cursor over the keys that begin with `prefix`, before the first of them.
    pub fn over_prefix(bucket: &str, prefix: &[u8]) -> Self {
        Self::new(bucket, prefix, after_prefix(prefix).as_deref())
    }

    /// The bucket.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Moves before the first pair.
    pub fn to_start(&mut self) {
        self.move_to(At::Start);
    }

    /// Moves behind the last pair.
    pub fn to_end(&mut self) {
        self.move_to(At::End);
    }

    /// Moves before the first pair whose key is `key` or a later one.
    pub fn seek(&mut self, key: &[u8]) {
        self.move_to(At::Key(key.to_vec()));
    }

    fn move_to(&mut self, at: At) {
        self.at = at;
        self.ahead = Ahead::default();
    }

    /// The next pair, as bytes; nothing at the end, where it stays.
    pub fn next(&mut self, tx: &Transaction) -> Result<Option<BytePair>, DataError> {
        Ok(self
            .advance(tx, Order::Ascending)?
            .map(|read| (read.key, read.value)))
    }

    /// The previous pair, as bytes; nothing at the start, where it stays.
    pub fn previous(&mut self, tx: &Transaction) -> Result<Option<BytePair>, DataError> {
        Ok(self
            .advance(tx, Order::Descending)?
            .map(|read| (read.key, read.value)))
    }

    /// As [`BucketCursor::next`], with the value as in the query language.
    pub fn next_value(&mut self, tx: &Transaction) -> Result<Option<(Vec<u8>, Value)>, DataError> {
        self.advance(tx, Order::Ascending)?
            .map(|read| read.typed(tx))
            .transpose()
    }

    /// As [`BucketCursor::previous`], with the value as in the query language.
    pub fn previous_value(
        &mut self,
        tx: &Transaction,
    ) -> Result<Option<(Vec<u8>, Value)>, DataError> {
        self.advance(tx, Order::Descending)?
            .map(|read| read.typed(tx))
            .transpose()
    }

    fn advance(&mut self, tx: &Transaction, order: Order) -> Result<Option<Read>, DataError> {
        let descending = order == Order::Descending;
        let fresh = self.ahead.stamp == Some(tx.stamp()) && self.ahead.descending == descending;
        if !fresh || (self.ahead.pairs.is_empty() && !self.ahead.complete) {
            self.read(tx, order, fresh)?;
        }
        let Some(read) = self.ahead.pairs.pop_front() else {
            self.at = if descending { At::Start } else { At::End };
            return Ok(None);
        };
        let mut stored = read.stored.clone();
        if !descending {
            stored.push(0); // the smallest key behind it
        }
        self.at = At::Stored(stored);
        Ok(Some(read))
    }

    /// Reads ahead: twice as much as the last time, if that was in the same direction.
    fn read(&mut self, tx: &Transaction, order: Order, on: bool) -> Result<(), DataError> {
        let size = if on {
            (self.ahead.size * 2).clamp(FIRST_AHEAD, MAX_AHEAD)
        } else {
            FIRST_AHEAD
        };
        self.ahead = Ahead {
            descending: order == Order::Descending,
            stamp: Some(tx.stamp()),
            size,
            complete: true,
            ..Ahead::default()
        };
        let Some(bucket) = tx.kv().bucket(&self.bucket)? else {
            return Ok(());
        };
        let Some(rest) = self.rest(bucket, order) else {
            return Ok(());
        };
        let limit = PageLimit {
            keys: size,
            bytes: AHEAD_BYTES,
        };
        let whole = KeyRange {
            start: b"",
            end: None,
        };
        let pairs = &mut self.ahead.pairs;
        let more = tx.kv().visit(
            &self.bucket,
            whole,
            order,
            limit,
            Some(&rest),
            &mut Page::new(),
            &mut |key, entry: BucketEntry<'_>| {
                let mut stored = stored_key(bucket, key);
                if bucket.options.kind == BucketKind::Multi {
                    stored.extend_from_slice(entry.value);
                }
                pairs.push_back(Read {
                    stored,
                    key: key.to_vec(),
                    content: entry.content,
                    value: entry.value.to_vec(),
                });
                Ok(())
            },
        )?;
        self.ahead.complete = more.is_none();
        Ok(())
    }

    /// The rest of the range in a direction; nothing if it is empty.
    fn rest(&self, bucket: Bucket, order: Order) -> Option<KvCursor> {
        let bound = |key: &Vec<u8>| stored_key(bucket, key);
        let low = self.low.as_ref().map(bound).unwrap_or_default();
        let high = self.high.as_ref().map(bound);
        let at = match &self.at {
            At::Start => Some(low.clone()),
            At::End => high.clone(),
            At::Key(key) => Some(bound(key)),
            At::Stored(stored) => Some(stored.clone()),
        };
        let (start, end) = match (order, at) {
            (Order::Ascending, None) => return None, // at the end of a bucket
            (Order::Ascending, Some(at)) => (at.max(low), high),
            (Order::Descending, None) => (low, None),
            (Order::Descending, Some(at)) => {
                let end = high.map_or(at.clone(), |high| high.min(at));
                (low, Some(end))
            }
        };
        if end.as_ref().is_some_and(|end| *end <= start) {
            return None;
        }
        Some(KvCursor { start, end })
    }
}

/// The stored keys of `key` begin with this, or are this, without the prefix of the bucket.
fn stored_key(bucket: Bucket, key: &[u8]) -> Vec<u8> {
    match bucket.options.kind {
        BucketKind::Map => key.to_vec(),
        BucketKind::Multi if key.is_empty() => Vec::new(),
        BucketKind::Multi => {
            let mut stored = Vec::with_capacity(key.len() + 2);
            push_terminated(&mut stored, key);
            stored
        }
    }
}

impl Read {
    fn typed(self, tx: &Transaction) -> Result<(Vec<u8>, Value), DataError> {
        let entry = BucketEntry {
            content: self.content,
            expires: None,
            value: &self.value,
        };
        Ok((self.key, tx.kv().typed(entry)?))
    }
}
