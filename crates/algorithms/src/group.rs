//! Numbers of groups.

use crate::graph::NO_NODE;

/// Renumbers groups in the order of their first members: 0, 1, 2, …
pub(crate) fn renumber(groups: &mut [u32]) {
    let mut names = vec![NO_NODE; groups.len()];
    let mut next = 0;
    for group in groups {
        let name = &mut names[*group as usize];
        if *name == NO_NODE {
            *name = next;
            next += 1;
        }
        *group = *name;
    }
}
