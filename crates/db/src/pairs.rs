//! Iterators over ranges of buckets and collections, which read page by page.

use std::{collections::VecDeque, iter::FusedIterator, marker::PhantomData, ops::Bound};

use isomer_data::{FromBucketKey, KvCursor, Order, PageLimit, decode_key};
use isomer_value::{Map, Value};
use serde_core::de::DeserializeOwned;

use crate::{ReadTransaction, Result, bounds::ByteRange, from_value, layers::LayerResult as _};

/// Items of the first page without a limit; each page has four times as many as the one before it.
const FIRST_PAGE_ITEMS: usize = 16;
/// Items and bytes of a page at most.
const MAX_PAGE_ITEMS: usize = 4096;
const PAGE_BYTES: usize = 1 << 20;
/// Items of a page of [`Items`] at most: each has up to 16 KiB.
const LARGEST_PAGE_OF_ITEMS: usize = 1024;

/// The size of the pages of an iteration.
struct Pages {
    next: usize,
    /// Items that may still be read.
    left: usize,
}

impl Pages {
    fn new() -> Self {
        Self {
            next: FIRST_PAGE_ITEMS,
            left: usize::MAX,
        }
    }

    /// Ends after `count` items, which are read in one page if they fit. What was read ahead before still comes.
    fn limit(&mut self, count: usize) {
        self.left = self.left.min(count);
        self.next = MAX_PAGE_ITEMS.max(count);
    }

    /// Items of the next page; none at the limit.
    fn size(&mut self) -> Option<usize> {
        let size = self.next.min(self.left);
        self.next = self
            .next
            .saturating_mul(4)
            .min(MAX_PAGE_ITEMS.max(self.next));
        (size > 0).then_some(size)
    }

    fn read(&mut self, count: usize) {
        self.left = self.left.saturating_sub(count);
    }
}

/// The pairs of a range of a bucket, in the order of their keys: see [`ReadBucket::range`](crate::ReadBucket::range).
///
/// Both ends can be read: `.rev()` iterates in descending order. Pairs are read page by page, 16 at first and four
/// times as many each time; what was read ahead enters the footprint of a transaction that writes. A pair that this
/// transaction writes during the iteration may or may not be found. An error ends the iteration.
pub struct Pairs<'t> {
    transaction: &'t ReadTransaction,
    bucket: String,
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    /// What remains to be read; none at the end.
    rest: Remaining,
    pages: Pages,
    /// Pairs read from the start, and from the end in descending order.
    front: VecDeque<(Vec<u8>, Value)>,
    back: VecDeque<(Vec<u8>, Value)>,
}

enum Remaining {
    Everything,
    From(KvCursor),
    Nothing,
}

impl<'t> Pairs<'t> {
    pub(crate) fn new(
        transaction: &'t ReadTransaction,
        bucket: &str,
        range: &ByteRange<'_>,
    ) -> Self {
        Self {
            transaction,
            bucket: bucket.to_owned(),
            start: range.start.to_vec(),
            end: range.end.as_ref().map(|end| end.to_vec()),
            rest: Remaining::Everything,
            pages: Pages::new(),
            front: VecDeque::new(),
            back: VecDeque::new(),
        }
    }

    /// Ends after `count` pairs and reads no others: unlike [`Iterator::take`], which leaves pairs that were read
    /// ahead, and in [`Iterator::rev`] the last pairs.
    ///
    /// ```
    /// let db = isomerdb::Database::open_in_memory()?;
    /// let first = db.transact(|tx| {
    ///     let log = tx.bucket("log");
    ///     (1..=9).try_for_each(|day: u8| log.put([day], i64::from(day)))?;
    ///     log.range([3]..).limit(2).collect::<isomerdb::Result<Vec<_>>>()
    /// })?;
    /// assert_eq!(first, [(vec![3], 3.into()), (vec![4], 4.into())]);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn limit(mut self, count: usize) -> Self {
        self.pages.limit(count);
        self
    }

    /// Reads a page; false if there is nothing left.
    fn fetch(&mut self, order: Order) -> Result<bool> {
        let after = match &self.rest {
            Remaining::Nothing => return Ok(false),
            Remaining::Everything => None,
            Remaining::From(rest) => Some(rest),
        };
        let Some(keys) = self.pages.size() else {
            return Ok(false);
        };
        let range = isomer_data::KeyRange {
            start: &self.start,
            end: self.end.as_deref(),
        };
        let limit = PageLimit {
            keys,
            bytes: PAGE_BYTES,
        };
        let page = match order {
            Order::Ascending => &mut self.front,
            Order::Descending => &mut self.back,
        };
        let rest = self.transaction.reading(|data| {
            data.kv().scan_values(
                &self.bucket,
                range,
                order,
                limit,
                after,
                &mut |key, value| {
                    page.push_back((key_bytes(&key), value));
                },
            )
        })?;
        self.pages.read(page.len());
        self.rest = rest.map_or(Remaining::Nothing, Remaining::From);
        Ok(!page.is_empty())
    }

    fn pull(&mut self, order: Order) -> Option<Result<(Vec<u8>, Value)>> {
        loop {
            let read = match order {
                Order::Ascending => self.front.pop_front(),
                Order::Descending => self.back.pop_front(),
            };
            if let Some(pair) = read {
                return Some(Ok(pair));
            }
            match self.fetch(order) {
                Ok(true) => {}
                // What was read from the other end remains.
                Ok(false) => {
                    let last = match order {
                        Order::Ascending => self.back.pop_back(),
                        Order::Descending => self.front.pop_back(),
                    };
                    return last.map(Ok);
                }
                Err(error) => {
                    self.rest = Remaining::Nothing;
                    self.front.clear();
                    self.back.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}

impl Iterator for Pairs<'_> {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pull(Order::Ascending)
    }
}

impl DoubleEndedIterator for Pairs<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.pull(Order::Descending)
    }
}

impl FusedIterator for Pairs<'_> {}

fn key_bytes(key: &Value) -> Vec<u8> {
    match key {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Bytes(bytes) => bytes.to_vec(),
        other => unreachable!(
            "the keys of a bucket are text or bytes, not {}",
            other.type_name()
        ),
    }
}

/// The pairs of a range of a typed bucket: [`Pairs`] with the types of the bucket.
pub struct TypedPairs<'t, K, V> {
    pairs: Pairs<'t>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<'t, K, V> TypedPairs<'t, K, V> {
    pub(crate) fn new(pairs: Pairs<'t>) -> Self {
        Self {
            pairs,
            types: PhantomData,
        }
    }

    /// Ends after `count` pairs and reads no others: see [`Pairs::limit`].
    pub fn limit(self, count: usize) -> Self {
        Self::new(self.pairs.limit(count))
    }
}

fn typed<K: FromBucketKey, V: DeserializeOwned>(pair: Result<(Vec<u8>, Value)>) -> Result<(K, V)> {
    let (key, value) = pair?;
    Ok((decode_key(&key).lift()?, from_value(&value)?))
}

impl<K: FromBucketKey, V: DeserializeOwned> Iterator for TypedPairs<'_, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pairs.next().map(typed)
    }
}

impl<K: FromBucketKey, V: DeserializeOwned> DoubleEndedIterator for TypedPairs<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.pairs.next_back().map(typed)
    }
}

/// Reads the next items: those after the given one, at most as many as given; fewer at the end.
type ReadItems<'t, T> = Box<dyn Fn(Option<&T>, usize) -> Result<Vec<T>> + 't>;

/// Items in ascending order: the keys of a value ([`ReadBucket::keys_of`](crate::ReadBucket::keys_of)), the values of a
/// key ([`ReadBucket::values`](crate::ReadBucket::values)), or the elements of a set
/// ([`ReadField::elements`](crate::ReadField::elements)).
///
/// Items are read page by page, 16 at first and four times as many each time. An item that this transaction writes
/// during the iteration may or may not be found. An error ends the iteration.
pub struct Items<'t, T> {
    /// None at the end.
    read: Option<ReadItems<'t, T>>,
    last: Option<T>,
    pages: Pages,
    page: std::vec::IntoIter<T>,
}

impl<'t, T: Clone> Items<'t, T> {
    pub(crate) fn new(read: impl Fn(Option<&T>, usize) -> Result<Vec<T>> + 't) -> Self {
        Self {
            read: Some(Box::new(read)),
            last: None,
            pages: Pages::new(),
            page: Vec::new().into_iter(),
        }
    }

    /// Ends after `count` items and reads no others: see [`Pairs::limit`].
    pub fn limit(mut self, count: usize) -> Self {
        self.pages.limit(count);
        self
    }

    /// Reads a page. If it fails, or there is nothing left, the iteration has ended.
    fn fetch(&mut self) -> Result<()> {
        let Some(read) = self.read.take() else {
            return Ok(());
        };
        let Some(size) = self.pages.size() else {
            return Ok(());
        };
        let size = size.min(LARGEST_PAGE_OF_ITEMS);
        let found = read(self.last.as_ref(), size)?;
        self.pages.read(found.len());
        if found.len() >= size {
            self.last = found.last().cloned();
            self.read = Some(read);
        }
        self.page = found.into_iter();
        Ok(())
    }
}

impl<T: Clone> Iterator for Items<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.as_slice().is_empty()
            && let Err(error) = self.fetch()
        {
            return Some(Err(error));
        }
        self.page.next().map(Ok)
    }
}

impl<T: Clone> FusedIterator for Items<'_, T> {}

/// The documents of a range of keys, in key order, integers after strings: see
/// [`ReadCollection::scan`](crate::ReadCollection::scan).
///
/// Documents are read page by page, 16 at first and four times as many each time. A document that this transaction
/// writes during the iteration may or may not be found. An error ends the iteration.
pub struct Documents<'t> {
    transaction: &'t ReadTransaction,
    label: String,
    /// What remains to be read; none at the end.
    rest: Option<(Bound<Value>, Bound<Value>)>,
    /// Whether both bounds are open: integers follow after the strings.
    is_whole: bool,
    pages: Pages,
    page: std::vec::IntoIter<(Value, Map)>,
}

impl<'t> Documents<'t> {
    pub(crate) fn new(
        transaction: &'t ReadTransaction,
        label: &str,
        range: (Bound<Value>, Bound<Value>),
    ) -> Self {
        Self {
            transaction,
            label: label.to_owned(),
            is_whole: matches!(range, (Bound::Unbounded, Bound::Unbounded)),
            rest: Some(range),
            pages: Pages::new(),
            page: Vec::new().into_iter(),
        }
    }

    /// Ends after `count` documents and reads no others: see [`Pairs::limit`].
    pub fn limit(mut self, count: usize) -> Self {
        self.pages.limit(count);
        self
    }

    /// Reads a page; false if there is nothing left.
    fn fetch(&mut self) -> Result<bool> {
        let Some((from, to)) = self.rest.take() else {
            return Ok(false);
        };
        let Some(size) = self.pages.size() else {
            return Ok(false);
        };
        let size = size.min(MAX_PAGE_ITEMS);
        let (found, is_cut) = self.transaction.reading(|data| {
            let range = (from.as_ref(), to.as_ref());
            let found = data.documents().scan(&self.label, range, size)?;
            let ids: Vec<_> = found.iter().map(|(_, id)| *id).collect();
            let mut contents = Vec::with_capacity(ids.len());
            data.graph()
                .node_contents_within(&ids, PAGE_BYTES, &mut contents)?;
            let is_cut = contents.len() < found.len() || found.len() >= size;
            let document = |content: Option<std::sync::Arc<isomer_value::NodeContent>>| {
                content
                    .map(|content| content.properties.clone())
                    .unwrap_or_default()
            };
            let documents: Vec<(Value, Map)> = found
                .into_iter()
                .zip(contents)
                .map(|((key, _), content)| (key, document(content)))
                .collect();
            Ok((documents, is_cut))
        })?;
        self.pages.read(found.len());
        self.rest = match found.last() {
            Some((key, _)) if is_cut => Some((Bound::Excluded(key.clone()), to)),
            // A bound that is a string only reaches the last string.
            _ if self.is_whole && matches!(from, Bound::Excluded(Value::String(_))) => {
                Some((Bound::Included(Value::Int(i64::MIN)), Bound::Unbounded))
            }
            _ => None,
        };
        let is_empty = found.is_empty();
        self.page = found.into_iter();
        Ok(!is_empty || self.rest.is_some())
    }
}

impl Iterator for Documents<'_> {
    type Item = Result<(Value, Map)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(document) = self.page.next() {
                return Some(Ok(document));
            }
            match self.fetch() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl FusedIterator for Documents<'_> {}
