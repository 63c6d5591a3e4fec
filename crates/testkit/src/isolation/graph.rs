//! A directed graph with coloured edges, its strongly connected components, and shortest cycles.

use std::collections::VecDeque;

/// A set of edge colours, one bit each.
pub(super) type Colours = u8;

/// An edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub from: u32,
    pub to: u32,
    pub colour: Colours,
    pub label: u32,
}

/// Edges grouped by source. Memory: 4 bytes per node, 16 per edge.
pub(super) struct Graph {
    offsets: Vec<u32>,
    edges: Vec<Edge>,
}

/// Component number per node; single-node components count too.
pub(super) struct Components {
    of: Vec<u32>,
    sizes: Vec<u32>,
}

impl Graph {
    pub fn new(node_count: usize, mut edges: Vec<Edge>) -> Self {
        edges.sort_unstable_by_key(|edge| (edge.from, edge.to, edge.colour, edge.label));
        edges.dedup();
        let mut offsets = vec![0; node_count + 1];
        for edge in &edges {
            offsets[edge.from as usize + 1] += 1;
        }
        for node in 0..node_count {
            offsets[node + 1] += offsets[node];
        }
        Self { offsets, edges }
    }

    pub fn node_count(&self) -> usize {
        self.offsets.len() - 1
    }

    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    fn range(&self, node: u32) -> std::ops::Range<usize> {
        self.offsets[node as usize] as usize..self.offsets[node as usize + 1] as usize
    }

    /// Tarjan's algorithm over the edges of `colours`, with an explicit stack: histories are deep.
    pub fn components(&self, colours: Colours) -> Components {
        const UNSEEN: u32 = u32::MAX;
        let count = self.node_count();
        let mut index = vec![UNSEEN; count];
        let mut low = vec![0; count];
        let mut of = vec![UNSEEN; count];
        let mut sizes = Vec::new();
        let mut open: Vec<u32> = Vec::new();
        let mut calls: Vec<(u32, usize)> = Vec::new();
        let mut next = 0;
        for root in 0..count as u32 {
            if index[root as usize] != UNSEEN {
                continue;
            }
            calls.push((root, self.range(root).start));
            while let Some((node, at)) = calls.pop() {
                let here = node as usize;
                if index[here] == UNSEEN {
                    index[here] = next;
                    low[here] = next;
                    next += 1;
                    open.push(node);
                }
                let end = self.range(node).end;
                let mut at = at;
                let mut descended = false;
                while at < end {
                    let edge = self.edges[at];
                    at += 1;
                    let there = edge.to as usize;
                    if edge.colour & colours == 0 || of[there] != UNSEEN {
                        continue;
                    }
                    if index[there] == UNSEEN {
                        calls.push((node, at - 1)); // visited again on the way back, to take over its low mark
                        calls.push((edge.to, self.range(edge.to).start));
                        descended = true;
                        break;
                    }
                    low[here] = low[here].min(low[there]);
                }
                if descended || low[here] != index[here] {
                    continue;
                }
                let component = sizes.len() as u32;
                let mut size = 0;
                while let Some(member) = open.pop() {
                    of[member as usize] = component;
                    size += 1;
                    if member == node {
                        break;
                    }
                }
                sizes.push(size);
            }
        }
        Components { of, sizes }
    }

    /// The shortest walk from `from` to `to` over edges of `colours` inside one component.
    pub fn walk(
        &self,
        from: u32,
        to: u32,
        colours: Colours,
        inside: &Components,
        scratch: &mut Scratch,
    ) -> Option<Vec<Edge>> {
        scratch.start(self.node_count());
        scratch.reach(from, usize::MAX);
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            if node == to {
                return Some(self.trace(from, to, scratch));
            }
            for at in self.range(node) {
                let edge = self.edges[at];
                if edge.colour & colours != 0
                    && inside.same(node, edge.to)
                    && !scratch.is_reached(edge.to)
                {
                    scratch.reach(edge.to, at);
                    queue.push_back(edge.to);
                }
            }
        }
        None
    }

    fn trace(&self, from: u32, to: u32, scratch: &Scratch) -> Vec<Edge> {
        let mut walk = Vec::new();
        let mut node = to;
        while node != from {
            let edge = self.edges[scratch.came_by[node as usize]];
            walk.push(edge);
            node = edge.from;
        }
        walk.reverse();
        walk
    }
}

impl Components {
    /// Whether two nodes are in one component.
    pub fn same(&self, a: u32, b: u32) -> bool {
        self.of[a as usize] == self.of[b as usize]
    }

    /// Whether the edge lies on a cycle.
    pub fn has_cycle(&self, edge: &Edge) -> bool {
        self.same(edge.from, edge.to) && self.sizes[self.of[edge.from as usize] as usize] > 1
    }
}

/// Visited marks of a search, reused by the next one: marks of an earlier epoch are ignored.
#[derive(Default)]
pub(super) struct Scratch {
    epoch: u32,
    epochs: Vec<u32>,
    came_by: Vec<usize>,
}

impl Scratch {
    fn start(&mut self, node_count: usize) {
        self.epochs.resize(node_count, 0);
        self.came_by.resize(node_count, 0);
        self.epoch += 1;
    }

    fn reach(&mut self, node: u32, by: usize) {
        self.epochs[node as usize] = self.epoch;
        self.came_by[node as usize] = by;
    }

    fn is_reached(&self, node: u32) -> bool {
        self.epochs[node as usize] == self.epoch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(node_count: usize, edges: &[(u32, u32, Colours)]) -> Graph {
        let edge = |&(from, to, colour): &(u32, u32, Colours)| Edge {
            from,
            to,
            colour,
            label: 0,
        };
        Graph::new(node_count, edges.iter().map(edge).collect())
    }

    #[test]
    fn components_follow_the_chosen_colours() {
        let graph = graph(5, &[(0, 1, 1), (1, 2, 1), (2, 0, 2), (3, 4, 1), (4, 3, 1)]);
        let one = graph.components(1);
        assert!(!one.same(0, 1) && one.same(3, 4));
        let both = graph.components(3);
        assert!(both.same(0, 1) && both.same(1, 2) && both.same(3, 4) && !both.same(0, 3));
    }

    #[test]
    fn a_long_chain_needs_no_deep_stack() {
        let count = 200_000;
        let mut edges: Vec<(u32, u32, Colours)> =
            (1..count).map(|node| (node - 1, node, 1)).collect();
        edges.push((count - 1, 0, 1));
        let graph = graph(count as usize, &edges);
        let components = graph.components(1);
        assert!(components.same(0, count - 1));
        let walk = graph.walk(1, 0, 1, &components, &mut Scratch::default());
        assert_eq!(walk.map(|walk| walk.len()), Some(count as usize - 1));
    }

    #[test]
    fn components_agree_with_reachability() {
        let mut seed = 7_u64;
        for _ in 0..200 {
            let mut edges = Vec::new();
            for _ in 0..14 {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                edges.push(((seed >> 33) as u32 % 8, (seed >> 45) as u32 % 8, 1));
            }
            let graph = graph(8, &edges);
            let mut reach = [[false; 8]; 8];
            (0..8).for_each(|node| reach[node][node] = true);
            for _ in 0..8 {
                for &(from, to, _) in &edges {
                    for row in &mut reach {
                        row[to as usize] |= row[from as usize];
                    }
                }
            }
            let components = graph.components(1);
            for (a, b) in (0..8).flat_map(|a| (0..8).map(move |b| (a, b))) {
                let mutual = reach[a][b] && reach[b][a];
                assert_eq!(
                    components.same(a as u32, b as u32),
                    mutual,
                    "{a} {b} {edges:?}"
                );
            }
        }
    }
}
