//! Merges a node's relationships in the base with its delta into one row.

use super::Link;

/// Reduces changes to their net effect: drops relationships that were both created and deleted, and sorts the
/// rest by other end and id.
pub(crate) fn normalise(changes: &mut Vec<Link>) {
    changes.sort_unstable_by_key(|link| (link.other, link.rel));
    let mut kept = 0;
    let mut at = 0;
    while at < changes.len() {
        let link = changes[at];
        // A relationship id is created once and deleted at most once.
        if changes.get(at + 1).is_some_and(|next| next.rel == link.rel) {
            at += 2;
            continue;
        }
        changes[kept] = link;
        kept += 1;
        at += 1;
    }
    changes.truncate(kept);
}

/// Applies net changes to a row. `ids` is empty if ids are not kept; then any one of the parallel
/// relationships is removed for another, which is equivalent.
pub(crate) fn apply(
    others: &[u32],
    ids: &[u32],
    changes: &[Link],
    out_others: &mut Vec<u32>,
    out_ids: &mut Vec<u32>,
) {
    // An empty row does not show whether ids are kept; then ids are written and the caller ignores them.
    let with_ids = !ids.is_empty() || others.is_empty();
    let mut at = 0;
    let copy = |from: usize, to: usize, out_others: &mut Vec<u32>, out_ids: &mut Vec<u32>| {
        out_others.extend_from_slice(&others[from..to]);
        if !ids.is_empty() {
            out_ids.extend_from_slice(&ids[from..to]);
        }
    };
    for change in changes {
        let before = |position: usize| {
            let other = others[position];
            other < change.other
                || other == change.other && !ids.is_empty() && ids[position] < change.rel
        };
        let start = at;
        // Both sequences ascend: binary search for the position of the change, copy what precedes it.
        at += partition(others.len() - at, |offset| before(start + offset));
        copy(start, at, out_others, out_ids);
        if change.added {
            out_others.push(change.other);
            if with_ids {
                out_ids.push(change.rel);
            }
        // A deletion skips one entry; without ids, the first of the parallel relationships.
        } else if at < others.len() && others[at] == change.other {
            at += 1;
        }
    }
    copy(at, others.len(), out_others, out_ids);
}

/// Number of leading positions that satisfy `before`; the row must be partitioned by it.
fn partition(len: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low.midpoint(high);
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(other: u32, rel: u32, added: bool) -> Link {
        Link { other, rel, added }
    }

    #[test]
    fn what_came_and_went_leaves_no_trace() {
        let mut changes = vec![
            link(4, 9, true),
            link(2, 7, true),
            link(4, 9, false),
            link(4, 8, false),
        ];
        normalise(&mut changes);
        assert_eq!(changes, [link(2, 7, true), link(4, 8, false)]);
    }

    #[test]
    fn a_row_takes_its_changes_with_and_without_ids() {
        let others = [1, 4, 4, 4, 9];
        let ids = [10, 11, 12, 13, 14];
        let mut changes = vec![
            link(4, 12, false),
            link(4, 20, true),
            link(0, 21, true),
            link(9, 14, false),
            link(12, 22, true),
        ];
        normalise(&mut changes);
        let (mut out, mut out_ids) = (Vec::new(), Vec::new());
        apply(&others, &ids, &changes, &mut out, &mut out_ids);
        assert_eq!(out, [0, 1, 4, 4, 4, 12]);
        assert_eq!(out_ids, [21, 10, 11, 13, 20, 22]);
        let (mut plain, mut none) = (Vec::new(), Vec::new());
        apply(&others, &[], &changes, &mut plain, &mut none);
        assert_eq!(plain, out);
        assert!(none.is_empty());
    }
}
