//! Reading all pairs under a prefix.

use isomer_storage::{KeyRange, Order, Page, PageLimit, Read};

use crate::{DataError, keyspace::after_prefix};

/// Visits all pairs whose keys begin with `prefix`, ascending.
pub fn each_pair(
    read: &dyn Read,
    prefix: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let mut page = Page::new();
    let mut range = Some((prefix.to_vec(), after_prefix(prefix)));
    while let Some((start, end)) = range.take() {
        let limit = PageLimit {
            keys: 4096,
            bytes: 1 << 20,
        };
        read.scan(
            KeyRange {
                start: &start,
                end: end.as_deref(),
            },
            Order::Ascending,
            limit,
            &mut page,
        )?;
        for (key, value) in page.iter() {
            visit(key, value)?;
        }
        range = page
            .next()
            .map(|next| (next.start.to_vec(), next.end.map(<[u8]>::to_vec)));
    }
    Ok(())
}
