//! Connected components: weak by disjoint sets, strong by Tarjan's algorithm without recursion.

use crate::{
    graph::{NO_NODE, SparseRows},
    group::renumber,
    work::{Resources, StopCheck},
};

/// Per node the number of its weakly connected component, numbered in the order of their first nodes. Time: about nodes
/// + edges; memory: 8 bytes a node.
pub fn weak<S: StopCheck>(
    rows: &SparseRows,
    work: &mut Resources<'_, S>,
) -> Result<Vec<u32>, S::Error> {
    work.hold::<[u32; 2]>(rows.len())?;
    let mut pace = work.pace();
    let mut parents: Vec<u32> = (0..rows.len() as u32).collect();
    for node in 0..rows.len() as u32 {
        pace.count_steps(1 + rows.degree(node))?;
        let mut root = find(&mut parents, node);
        for other in rows.of(node) {
            let other = find(&mut parents, *other);
            // The smaller number stays the root: no ranks are needed, and path halving keeps the paths short.
            let (small, large) = (root.min(other), root.max(other));
            parents[large as usize] = small;
            root = small;
        }
    }
    for node in 0..rows.len() as u32 {
        parents[node as usize] = find(&mut parents, node);
    }
    renumber(&mut parents);
    Ok(parents)
}

/// The root of a node's set, with the path to it halved.
fn find(parents: &mut [u32], mut node: u32) -> u32 {
    loop {
        let parent = parents[node as usize];
        if parent == node {
            return node;
        }
        let above = parents[parent as usize];
        parents[node as usize] = above;
        node = above;
    }
}

/// Per node the number of its strongly connected component, numbered in the order of their first nodes. Time: nodes +
/// edges; memory: 32 bytes a node at most.
pub fn strong<S: StopCheck>(
    rows: &SparseRows,
    work: &mut Resources<'_, S>,
) -> Result<Vec<u32>, S::Error> {
    let count = rows.len();
    work.hold::<[u32; 8]>(count)?;
    let mut pace = work.pace();
    let mut order = vec![NO_NODE; count]; // index of discovery
    let mut low = vec![0_u32; count]; // lowest discovery index reachable
    let mut component = vec![NO_NODE; count];
    let mut open: Vec<u32> = Vec::new(); // discovered, not yet in a component
    let mut path: Vec<(u32, usize)> = Vec::new(); // the depth-first stack, with the number of edges followed
    let (mut found, mut components) = (0, 0);
    for root in 0..count as u32 {
        if order[root as usize] != NO_NODE {
            continue;
        }
        path.push((root, 0));
        while let Some((node, followed)) = path.last_mut() {
            let (at, edges) = (*node as usize, rows.of(*node));
            pace.count_steps(1)?;
            if *followed == 0 {
                order[at] = found;
                low[at] = found;
                found += 1;
                open.push(*node);
            }
            let mut deeper = None;
            while let Some(other) = edges.get(*followed) {
                *followed += 1;
                let other = *other as usize;
                if order[other] == NO_NODE {
                    deeper = Some(other as u32);
                    break;
                }
                if component[other] == NO_NODE {
                    low[at] = low[at].min(order[other]);
                }
            }
            if let Some(other) = deeper {
                path.push((other, 0));
                continue;
            }
            pace.count_steps(edges.len())?;
            if low[at] == order[at] {
                while let Some(member) = open.pop() {
                    component[member as usize] = components;
                    if member as usize == at {
                        break;
                    }
                }
                components += 1;
            }
            let below = low[at];
            path.pop();
            if let Some((parent, _)) = path.last() {
                let parent = &mut low[*parent as usize];
                *parent = (*parent).min(below);
            }
        }
    }
    renumber(&mut component);
    Ok(component)
}
