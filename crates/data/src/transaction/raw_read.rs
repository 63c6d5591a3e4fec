//! Reads of stored pairs as bytes.

use isomer_layout::{DataError, pairs::each_between};
use isomer_storage::{KeyRange, Order, Page, PageLimit};

use super::Transaction;

/// Keys, in their order.
type Keys = Vec<Vec<u8>>;

/// Stored pairs as bytes, with the transaction's own writes. Reads do not enter the footprint: the caller declares
/// them.
///
/// Ranges are read in pages, so memory does not depend on their length.
#[derive(Clone, Copy)]
pub struct RawRead<'t> {
    pub(crate) tx: &'t Transaction,
}

impl Transaction {
    /// Reads of stored pairs as bytes.
    pub fn raw(&self) -> RawRead<'_> {
        RawRead { tx: self }
    }
}

impl RawRead<'_> {
    /// Number of pairs from `start` up to `end`.
    pub(crate) fn count_pairs(self, start: &[u8], end: Option<&[u8]>) -> Result<u64, DataError> {
        let mut count = 0;
        self.each_pair(start, end, usize::MAX, |_, _| {
            count += 1;
            Ok(())
        })?;
        Ok(count)
    }

    /// Calls `visit` with the first `limit` pairs from `start` up to `end`, page by page.
    #[doc(hidden)]
    pub fn each_pair(
        self,
        start: &[u8],
        end: Option<&[u8]>,
        limit: usize,
        visit: impl FnMut(&[u8], &[u8]) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        each_between(self.tx.read(), start, end, limit, visit)
    }

    /// Keys from `start` up to `end`, collected, so that the caller can change them.
    #[doc(hidden)]
    pub fn keys_between(self, start: &[u8], end: Option<&[u8]>) -> Result<Vec<Vec<u8>>, DataError> {
        let mut keys = Vec::new();
        self.each_between(start, end, &mut |key, _| keys.push(key.to_vec()))?;
        Ok(keys)
    }

    /// As [`RawRead::keys_between`], at most `most`; returns where to continue.
    #[doc(hidden)]
    pub fn some_keys(
        self,
        start: &[u8],
        end: Option<&[u8]>,
        most: usize,
    ) -> Result<(Keys, Option<Vec<u8>>), DataError> {
        let mut page = Page::new();
        let limit = PageLimit {
            keys: most,
            bytes: 4 << 20,
        };
        let range = KeyRange { start, end };
        self.tx
            .read()
            .scan(range, Order::Ascending, limit, &mut page)?;
        let keys = page.iter().map(|(key, _)| key.to_vec()).collect();
        Ok((keys, page.next().map(|next| next.start.to_vec())))
    }

    /// Calls back with the pairs from `start` on up to `end`.
    #[doc(hidden)]
    pub fn each_between(
        self,
        start: &[u8],
        end: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), DataError> {
        let mut page = Page::new();
        let mut rest = Some((start.to_vec(), end.map(<[u8]>::to_vec)));
        while let Some((start, end)) = rest.take() {
            let range = KeyRange {
                start: &start,
                end: end.as_deref(),
            };
            let limit = PageLimit {
                keys: 4096,
                bytes: 1 << 20,
            };
            self.tx
                .read()
                .scan(range, Order::Ascending, limit, &mut page)?;
            page.iter().for_each(|(key, value)| visit(key, value));
            rest = page
                .next()
                .map(|next| (next.start.to_vec(), next.end.map(<[u8]>::to_vec)));
        }
        Ok(())
    }

    /// The first key from `start` on.
    #[doc(hidden)]
    pub fn first_key(self, start: &[u8], end: Option<&[u8]>) -> Result<Option<Vec<u8>>, DataError> {
        let mut page = Page::new();
        let limit = PageLimit { keys: 1, bytes: 1 };
        let range = KeyRange { start, end };
        self.tx
            .read()
            .scan(range, Order::Ascending, limit, &mut page)?;
        Ok(page.iter().next().map(|(key, _)| key.to_vec()))
    }
}
