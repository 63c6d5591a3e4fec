//! Reading the pairs of a range, page by page.

use isomer_storage::{KeyRange, Order, Page, PageLimit, Read};

use crate::{DataError, keyspace::after_prefix};

/// Largest page: pairs, and bytes.
const PAGE_PAIRS: usize = 8192;
const PAGE_BYTES: usize = 1 << 20;

/// Visits all pairs whose keys begin with `prefix`, ascending.
pub fn each_pair(
    read: &dyn Read,
    prefix: &[u8],
    visit: impl FnMut(&[u8], &[u8]) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let end = after_prefix(prefix);
    each_between(read, prefix, end.as_deref(), usize::MAX, visit)
}

/// Visits the first `limit` pairs from `start` up to `end`, ascending. Memory does not depend on their number.
pub fn each_between(
    read: &dyn Read,
    start: &[u8],
    end: Option<&[u8]>,
    limit: usize,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let mut page = Page::new();
    let mut rest = Some((start.to_vec(), end.map(<[u8]>::to_vec)));
    let mut left = limit;
    while left > 0
        && let Some((start, end)) = rest.take()
    {
        let limit = PageLimit {
            keys: left.min(PAGE_PAIRS),
            bytes: PAGE_BYTES,
        };
        let range = KeyRange {
            start: &start,
            end: end.as_deref(),
        };
        read.scan(range, Order::Ascending, limit, &mut page)?;
        for (key, value) in page.iter() {
            visit(key, value)?;
        }
        left -= page.len();
        rest = page
            .next()
            .map(|next| (next.start.to_vec(), next.end.map(<[u8]>::to_vec)));
    }
    Ok(())
}
