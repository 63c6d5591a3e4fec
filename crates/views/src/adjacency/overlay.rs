//! A node's relationships in the base and its changes since, as one row.

use super::Link;

/// Drops what came and went, and sorts the rest by other end and id.
pub(crate) fn settle(changes: &mut Vec<Link>) {
    changes.sort_unstable_by_key(|link| (link.other, link.rel));
    let mut kept = 0;
    let mut at = 0;
    while at < changes.len() {
        let link = changes[at];
        // A relationship comes once and goes once.
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

/// Applies settled changes to a row. `ids` is empty where ids are not kept; then one of the parallel relationships goes
/// for another.
pub(crate) fn apply(
    others: &[u32],
    ids: &[u32],
    changes: &[Link],
    out_others: &mut Vec<u32>,
    out_ids: &mut Vec<u32>,
) {
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
        at += partition(others.len() - at, |offset| before(start + offset));
        copy(start, at, out_others, out_ids);
        if change.added {
            out_others.push(change.other);
            if with_ids {
                out_ids.push(change.rel);
            }
        } else if at < others.len() && others[at] == change.other {
            at += 1;
        }
    }
    copy(at, others.len(), out_others, out_ids);
}

/// How many of the first positions satisfy `before`, where those that do come first.
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
        settle(&mut changes);
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
        settle(&mut changes);
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
