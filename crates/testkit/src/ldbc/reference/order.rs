//! The order of answers.

use crate::ldbc::cell::{Answer, Cell};

/// Rows sorted by their keys, cut to `limit`.
pub(super) fn top<K: Ord>(mut rows: Vec<(K, Vec<Cell>)>, limit: usize) -> Answer {
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows.truncate(limit);
    rows.into_iter()
        .map(|(_, row)| row)
        .collect::<Vec<_>>()
        .into()
}
