//! The graph that an algorithm works on: rows of dense numbers, built once.

use crate::work::{PACE, StepCounter, StopCheck};

/// No node.
pub const NO_NODE: u32 = u32::MAX;

/// Compressed sparse rows: the neighbours of each node, by dense number.
///
/// Shape: `offsets` has one entry more than there are nodes; the neighbours of `n` are `targets[offsets[n]..offsets[n +
/// 1]]`, ascending, parallel relationships repeated. `weights` is parallel to `targets`, or empty. Memory: 8 bytes a
/// node, 4 an edge, 8 more with weights.
#[derive(Clone, Debug, Default)]
pub struct SparseRows {
    offsets: Vec<usize>,
    targets: Vec<u32>,
    weights: Vec<f64>,
}

impl SparseRows {
    /// From edges in any order. Counting sort: O(nodes + edges).
    pub fn new<S: StopCheck>(
        nodes: usize,
        edges: &[(u32, u32)],
        weights: &[f64],
        pace: &mut StepCounter<'_, S>,
    ) -> Result<Self, S::Error> {
        let mut offsets = vec![0_usize; nodes + 1];
        for part in edges.chunks(PACE) {
            pace.count_steps(part.len())?;
            for (source, _) in part {
                offsets[*source as usize + 1] += 1;
            }
        }
        for at in 0..nodes {
            offsets[at + 1] += offsets[at];
        }
        let mut next = offsets.clone();
        let mut targets = vec![0; edges.len()];
        let mut placed = vec![0.0; weights.len()];
        for (at, (source, target)) in edges.iter().enumerate() {
            pace.count_steps(1)?;
            let place = &mut next[*source as usize];
            targets[*place] = *target;
            if let Some(weight) = weights.get(at) {
                placed[*place] = *weight;
            }
            *place += 1;
        }
        let mut rows = Self {
            offsets,
            targets,
            weights: placed,
        };
        rows.sort(pace)?;
        Ok(rows)
    }

    /// From complete rows, each ascending.
    pub fn from_rows(offsets: Vec<usize>, targets: Vec<u32>) -> Self {
        assert_eq!(
            offsets.last().copied(),
            Some(targets.len()),
            "the offsets end where the targets do"
        );
        Self {
            offsets,
            targets,
            weights: Vec::new(),
        }
    }

    /// Sorts each row by target, and by weight among equal targets.
    fn sort<S: StopCheck>(&mut self, pace: &mut StepCounter<'_, S>) -> Result<(), S::Error> {
        let mut pairs: Vec<(u32, f64)> = Vec::new();
        for bounds in self.offsets.windows(2) {
            let range = bounds[0]..bounds[1];
            pace.count_steps(1 + range.len())?;
            let targets = &mut self.targets[range.clone()];
            if self.weights.is_empty() {
                if !targets.is_sorted() {
                    targets.sort_unstable();
                }
                continue;
            }
            let weights = &mut self.weights[range];
            pairs.clear();
            pairs.extend(targets.iter().copied().zip(weights.iter().copied()));
            pairs.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            for (at, (target, weight)) in pairs.iter().enumerate() {
                targets[at] = *target;
                weights[at] = *weight;
            }
        }
        Ok(())
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Number of entries of all rows.
    pub fn edge_count(&self) -> usize {
        self.targets.len()
    }

    /// Whether edges have weights.
    pub fn is_weighted(&self) -> bool {
        !self.weights.is_empty()
    }

    /// The neighbours of `node`, ascending.
    #[inline]
    pub fn of(&self, node: u32) -> &[u32] {
        &self.targets[self.offsets[node as usize]..self.offsets[node as usize + 1]]
    }

    /// The degree of `node`; parallel relationships count separately.
    #[inline]
    pub fn degree(&self, node: u32) -> usize {
        self.offsets[node as usize + 1] - self.offsets[node as usize]
    }

    /// The neighbours of `node` with the weight of the edge to each: 1 if edges have no weights.
    #[inline]
    pub fn weighted(&self, node: u32) -> impl Iterator<Item = (u32, f64)> {
        let range = self.offsets[node as usize]..self.offsets[node as usize + 1];
        let weights = self.weights.get(range.clone()).unwrap_or(&[]);
        self.targets[range]
            .iter()
            .enumerate()
            .map(move |(at, target)| (*target, weights.get(at).copied().unwrap_or(1.0)))
    }

    /// The weights of the edges of `node`, in the order of [`SparseRows::of`]; empty if edges have no weights.
    #[inline]
    pub fn weights_of(&self, node: u32) -> &[f64] {
        self.weights
            .get(self.offsets[node as usize]..self.offsets[node as usize + 1])
            .unwrap_or(&[])
    }

    /// The reversed edges. O(nodes + edges); rows are ascending.
    pub fn reversed<S: StopCheck>(&self, pace: &mut StepCounter<'_, S>) -> Result<Self, S::Error> {
        let nodes = self.len();
        let mut offsets = vec![0_usize; nodes + 1];
        for part in self.targets.chunks(PACE) {
            pace.count_steps(part.len())?;
            for target in part {
                offsets[*target as usize + 1] += 1;
            }
        }
        for at in 0..nodes {
            offsets[at + 1] += offsets[at];
        }
        // Counting sort: `next` is where the following edge of each row goes. Sources ascend, so the rows are sorted
        // without a comparison.
        let mut next = offsets.clone();
        let mut targets = vec![0; self.targets.len()];
        let mut weights = vec![0.0; self.weights.len()];
        for node in 0..nodes {
            pace.count_steps(1 + self.degree(node as u32))?;
            for at in self.offsets[node]..self.offsets[node + 1] {
                let place = &mut next[self.targets[at] as usize];
                targets[*place] = node as u32;
                if let Some(weight) = self.weights.get(at) {
                    weights[*place] = *weight;
                }
                *place += 1;
            }
        }
        Ok(Self {
            offsets,
            targets,
            weights,
        })
    }

    /// The undirected graph: each node with its neighbours of both directions; a self loop occurs once in its row.
    pub fn undirected<S: StopCheck>(
        &self,
        reversed: &Self,
        pace: &mut StepCounter<'_, S>,
    ) -> Result<Self, S::Error> {
        let nodes = self.len();
        let mut offsets = Vec::with_capacity(nodes + 1);
        let mut targets = Vec::with_capacity(self.targets.len() * 2);
        let mut weights = Vec::with_capacity(self.weights.len() * 2);
        offsets.push(0);
        for node in 0..nodes as u32 {
            pace.count_steps(1 + self.degree(node) + reversed.degree(node))?;
            let (mut ahead, mut back) = (self.weighted(node).peekable(), {
                reversed
                    .weighted(node)
                    .filter(move |(other, _)| *other != node)
                    .peekable()
            });
            loop {
                let next = match (ahead.peek(), back.peek()) {
                    // Both rows are ascending: a merge keeps the result so.
                    (Some(a), Some(b)) if a.0 <= b.0 => ahead.next(),
                    (_, Some(_)) => back.next(),
                    (Some(_), None) => ahead.next(),
                    (None, None) => break,
                };
                if let Some((target, weight)) = next {
                    targets.push(target);
                    if self.is_weighted() {
                        weights.push(weight);
                    }
                }
            }
            offsets.push(targets.len());
        }
        Ok(Self {
            offsets,
            targets,
            weights,
        })
    }

    /// The same rows without self loops and with each neighbour once. Weights are dropped.
    pub fn simple<S: StopCheck>(&self, pace: &mut StepCounter<'_, S>) -> Result<Self, S::Error> {
        let mut offsets = Vec::with_capacity(self.offsets.len());
        let mut targets = Vec::with_capacity(self.targets.len());
        offsets.push(0);
        for node in 0..self.len() as u32 {
            let start = targets.len();
            pace.count_steps(1 + self.degree(node))?;
            for target in self.of(node) {
                if *target != node && targets[start..].last() != Some(target) {
                    targets.push(*target);
                }
            }
            offsets.push(targets.len());
        }
        Ok(Self {
            offsets,
            targets,
            weights: Vec::new(),
        })
    }

    /// Bytes of rows of this size.
    pub fn bytes_for(nodes: usize, edges: usize, weighted: bool) -> usize {
        (nodes + 1) * size_of::<usize>() + edges * if weighted { 12 } else { 4 }
    }

    /// Bytes that these rows take.
    pub fn bytes(&self) -> usize {
        Self::bytes_for(self.len(), self.edge_count(), self.is_weighted())
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::{reversed, rows, simple, undirected};

    #[test]
    fn rows_are_ascending_whatever_the_order_of_the_edges() {
        let edges = [(2, 1), (0, 2), (0, 1), (0, 2), (1, 1)];
        let weights = [5.0, 4.0, 3.0, 2.0, 1.0];
        let rows = rows(3, &edges, &weights);
        assert_eq!(rows.of(0), [1, 2, 2]);
        assert_eq!(rows.weights_of(0), [3.0, 2.0, 4.0]);
        assert_eq!((rows.degree(1), rows.degree(2)), (1, 1));
        let back = reversed(&rows);
        assert_eq!(back.of(1), [0, 1, 2]);
        assert_eq!(back.of(2), [0, 0]);
        assert_eq!(back.weights_of(1), [3.0, 1.0, 5.0]);
    }

    #[test]
    fn undirected_rows_hold_a_self_loop_once_and_parallels_each() {
        let rows = rows(3, &[(0, 1), (1, 0), (1, 1), (2, 1)], &[]);
        let both = undirected(&rows);
        assert_eq!(both.of(0), [1, 1]);
        assert_eq!(both.of(1), [0, 0, 1, 2]);
        assert_eq!(both.of(2), [1]);
        let simple = simple(&both);
        assert_eq!(simple.of(1), [0, 2]);
        assert_eq!(simple.of(0), [1]);
    }

    #[test]
    fn nothing_is_a_graph_too() {
        let rows = rows(0, &[], &[]);
        assert_eq!((rows.len(), rows.edge_count()), (0, 0));
        assert_eq!(simple(&undirected(&rows)).len(), 0);
    }
}
