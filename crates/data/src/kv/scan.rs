//! Scans of buckets, in both directions, page by page.

use std::ops::ControlFlow;

use isomer_layout::{
    DataError,
    keyspace::{self, after_prefix, push_terminated, take_terminated},
    kv::{
        content::{BucketEntry, Content},
        options::BucketKind,
    },
};
use isomer_storage::{KeyRange, Order, Page, PageLimit, Visitor};

use crate::{
    Kv,
    kv::bucket::{Bucket, observed},
};

/// Where a scan of a bucket continues. It belongs to that bucket and direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvCursor {
    pub(super) start: Vec<u8>,
    pub(super) end: Option<Vec<u8>>,
}

/// Receives each pair of a scan; of a multi-value bucket's pairs the second part is the entry's value.
pub(super) type Visit<'a> = dyn FnMut(&[u8], BucketEntry<'_>) -> Result<(), DataError> + 'a;

impl Kv<'_> {
    /// The pairs of a bucket with keys in `range`, in `order`, until `page` is full; returns where to continue, if
    /// anywhere. Clears `page` first and does not set its own continuation. Expired entries are left out. A multi-value
    /// bucket has one pair for each value.
    pub fn scan(
        self,
        bucket: &str,
        range: KeyRange<'_>,
        order: Order,
        limit: PageLimit,
        after: Option<&KvCursor>,
        page: &mut Page,
    ) -> Result<Option<KvCursor>, DataError> {
        let mut stored = Page::new();
        stored.set_parked(page.take_parked());
        page.clear();
        let rest = self.visit(
            bucket,
            range,
            order,
            limit,
            after,
            &mut stored,
            &mut |key, entry| {
                page.push(key, entry.value);
                Ok(())
            },
        )?;
        page.set_parked(stored.take_parked());
        Ok(rest)
    }

    /// Visits the pairs of a bucket with keys in `range`, in `order`, until `visit` breaks: those of
    /// [`Kv::scan`], without pages.
    pub fn each(
        self,
        bucket: &str,
        range: KeyRange<'_>,
        order: Order,
        visit: &mut Visitor<'_>,
    ) -> Result<(), DataError> {
        let Some(bucket) = self.bucket(bucket)? else {
            return Ok(());
        };
        if range.end.is_some_and(|end| end <= range.start) {
            return Ok(());
        }
        let start = stored_bound(bucket, range.start);
        let end = range.end.map(|end| stored_bound(bucket, end));
        let prefix = bucket.prefix();
        let from = [&prefix, start.as_slice()].concat();
        let to = match &end {
            Some(end) => Some([&prefix, end.as_slice()].concat()),
            None => after_prefix(&prefix),
        };
        let now = self.tx.now_ms();
        let mut last: Option<Vec<u8>> = None;
        let mut failure = None;
        let stored_range = KeyRange {
            start: &from,
            end: to.as_deref(),
        };
        let visited = self
            .tx
            .read()
            .visit(stored_range, order, &mut |key, value| {
                let stored = &key[prefix.len()..];
                let mut flow = ControlFlow::Continue(());
                let outcome = visit_pair(bucket, stored, value, now, &mut |key, entry| {
                    flow = visit(key, entry.value);
                    Ok(())
                });
                if let Err(error) = outcome {
                    failure = Some(error);
                    flow = ControlFlow::Break(());
                }
                if flow.is_break() {
                    last = Some(stored.to_vec());
                }
                flow
            });
        // What was seen before it broke or failed is observed, too.
        let rest = last.map(|mut last| match order {
            Order::Ascending => {
                // The smallest key behind it.
                last.push(0);
                (last, end.clone())
            }
            Order::Descending => (start.clone(), Some(last)),
        });
        let rest = rest
            .as_ref()
            .map(|(start, end)| (start.as_slice(), end.as_deref()));
        let seen = observed((&start, end.as_deref()), order, rest);
        self.tx
            .footprint()
            .read_range(bucket.space(), seen.0, seen.1);
        visited?;
        failure.map_or(Ok(()), Err)
    }

    /// Visits what [`Kv::scan`] puts on a page; `stored` is only for the next call of the same scan.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn visit(
        self,
        bucket: &str,
        range: KeyRange<'_>,
        order: Order,
        limit: PageLimit,
        after: Option<&KvCursor>,
        stored: &mut Page,
        visit: &mut Visit<'_>,
    ) -> Result<Option<KvCursor>, DataError> {
        let Some(bucket) = self.bucket(bucket)? else {
            return Ok(None);
        };
        if range.end.is_some_and(|end| end <= range.start) {
            return Ok(None);
        }
        let (start, end) = match after {
            Some(cursor) => (cursor.start.clone(), cursor.end.clone()),
            None => (
                stored_bound(bucket, range.start),
                range.end.map(|end| stored_bound(bucket, end)),
            ),
        };
        let prefix = bucket.prefix();
        let now = self.tx.now_ms();
        let (mut keys, mut bytes) = (0, 0);
        let mut rest = Some(KvCursor {
            start: start.clone(),
            end: end.clone(),
        });
        while let Some(cursor) = &rest
            && (keys == 0 || (keys < limit.keys && bytes < limit.bytes))
        {
            let from = [&prefix, cursor.start.as_slice()].concat();
            let to = match &cursor.end {
                Some(end) => Some([&prefix, end.as_slice()].concat()),
                None => after_prefix(&prefix),
            };
            let room = PageLimit {
                keys: limit.keys.saturating_sub(keys).max(1),
                bytes: limit.bytes.saturating_sub(bytes).max(1),
            };
            self.tx.read().scan(
                KeyRange {
                    start: &from,
                    end: to.as_deref(),
                },
                order,
                room,
                stored,
            )?;
            for (key, value) in stored.iter() {
                if visit_pair(bucket, &key[prefix.len()..], value, now, visit)? {
                    keys += 1;
                    bytes += key.len() - prefix.len() + value.len();
                }
            }
            rest = stored.next().map(|next| KvCursor {
                start: next.start[prefix.len()..].to_vec(),
                // The end of the bucket is not a key of it.
                end: next
                    .end
                    .filter(|end| end.starts_with(&prefix))
                    .map(|end| end[prefix.len()..].to_vec()),
            });
        }
        let seen = observed(
            (&start, end.as_deref()),
            order,
            rest.as_ref()
                .map(|rest| (rest.start.as_slice(), rest.end.as_deref())),
        );
        self.tx
            .footprint()
            .read_range(bucket.space(), seen.0, seen.1);
        Ok(rest)
    }
}

impl Bucket {
    /// The prefix of the stored keys of its entries.
    fn prefix(self) -> Vec<u8> {
        match self.options.kind {
            BucketKind::Map => keyspace::bucket_entry(self.id, b""),
            BucketKind::Multi => keyspace::bucket_pairs(self.id),
        }
    }
}

/// A key as the bound of a range of stored keys.
fn stored_bound(bucket: Bucket, key: &[u8]) -> Vec<u8> {
    match bucket.options.kind {
        BucketKind::Map => key.to_vec(),
        BucketKind::Multi if key.is_empty() => Vec::new(),
        BucketKind::Multi => {
            let mut bound = Vec::with_capacity(key.len() + 2);
            push_terminated(&mut bound, key);
            bound
        }
    }
}

/// Visits a stored pair; returns whether it is live.
#[inline]
fn visit_pair(
    bucket: Bucket,
    stored: &[u8],
    value: &[u8],
    now: u64,
    visit: &mut (impl FnMut(&[u8], BucketEntry<'_>) -> Result<(), DataError> + ?Sized),
) -> Result<bool, DataError> {
    match bucket.options.kind {
        BucketKind::Map => {
            let entry = BucketEntry::decode(value)?;
            if !entry.is_live(now) {
                return Ok(false);
            }
            visit(stored, entry)?;
        }
        BucketKind::Multi => {
            let mut rest = stored;
            let key = take_terminated(&mut rest)
                .ok_or_else(|| DataError::corrupt("a key of a multi-value bucket is malformed"))?;
            visit(
                &key,
                BucketEntry {
                    content: Content::Bytes,
                    expires: None,
                    value: rest,
                },
            )?;
        }
    }
    Ok(true)
}
