//! Communities: label propagation (Raghavan, Albert, Kumara 2007) and Louvain (Blondel and others 2008).

use crate::{
    graph::SparseRows,
    group::renumber,
    random::Random,
    work::{Resources, StopCheck},
};

/// Sums of weights per group, for one node at a time.
struct Tally {
    sums: Vec<f64>,
    seen: Vec<bool>,
    /// The groups that were seen, in that order.
    touched: Vec<u32>,
}

impl Tally {
    fn new(groups: usize) -> Self {
        Self {
            sums: vec![0.0; groups],
            seen: vec![false; groups],
            touched: Vec::new(),
        }
    }

    fn clear(&mut self) {
        for group in self.touched.drain(..) {
            self.sums[group as usize] = 0.0;
            self.seen[group as usize] = false;
        }
    }

    fn add(&mut self, group: u32, weight: f64) {
        if !std::mem::replace(&mut self.seen[group as usize], true) {
            self.touched.push(group);
        }
        self.sums[group as usize] += weight;
    }

    fn of(&self, group: u32) -> f64 {
        self.sums[group as usize]
    }
}

/// Per node its community, numbered in the order of their first nodes. Each node takes the label with the most weight
/// among its neighbours, one node after another in an order that is shuffled in each iteration; ties keep the current
/// label, or else are broken at random. It ends when an iteration changes nothing, or after `iterations`. Time:
/// iterations × edges; memory: 24 bytes a node.
pub fn label_propagation<S: StopCheck>(
    rows: &SparseRows,
    iterations: usize,
    seed: u64,
    work: &mut Resources<'_, S>,
) -> Result<Vec<u32>, S::Error> {
    let count = rows.len();
    work.hold::<[u32; 6]>(count)?;
    let mut pace = work.pace();
    let mut random = Random::new(seed);
    let mut labels: Vec<u32> = (0..count as u32).collect();
    let mut order = labels.clone();
    let mut tally = Tally::new(count);
    let mut equals: Vec<u32> = Vec::new();
    for _ in 0..iterations {
        random.shuffle(&mut order);
        let mut changed = false;
        for node in order.iter().copied() {
            pace.count_steps(1 + rows.degree(node))?;
            tally.clear();
            for (other, weight) in rows.weighted(node) {
                if other != node {
                    tally.add(labels[other as usize], weight);
                }
            }
            let most = tally
                .touched
                .iter()
                .map(|label| tally.of(*label))
                .fold(0.0, f64::max);
            let own = labels[node as usize];
            if most <= 0.0 || tally.of(own) >= most {
                continue;
            }
            equals.clear();
            let best = tally
                .touched
                .iter()
                .filter(|label| tally.of(**label) >= most);
            equals.extend(best);
            equals.sort_unstable();
            labels[node as usize] = equals[random.below(equals.len())];
            changed = true;
        }
        if !changed {
            break;
        }
    }
    renumber(&mut labels);
    Ok(labels)
}

/// Settings of Louvain.
#[derive(Clone, Debug)]
pub struct Louvain {
    /// Resolution: above 1 communities are smaller, below 1 larger.
    pub resolution: f64,
    /// A level ends when a pass over its nodes raises the modularity by less than this.
    pub tolerance: f64,
    /// Maximum number of levels.
    pub levels: usize,
    /// Seed of the node order.
    pub seed: u64,
}

/// A graph whose nodes are communities of the one below it.
struct Level {
    rows: SparseRows,
    /// Weight inside each node.
    loops: Vec<f64>,
    /// Weight at each node: of its edges, plus twice its inner weight.
    strength: Vec<f64>,
}

/// Per node its community, numbered in the order of their first nodes. Nodes move, one after another, to the
/// neighbouring community that raises the modularity most; then communities become nodes, and so on until no node
/// moves. `rows` are undirected. Time: passes × edges; memory: about 60 bytes a node and 24 an edge.
pub fn louvain<S: StopCheck>(
    rows: &SparseRows,
    settings: &Louvain,
    work: &mut Resources<'_, S>,
) -> Result<Vec<u32>, S::Error> {
    let count = rows.len();
    work.hold_bytes(count * 60 + rows.edge_count() * 24)?;
    let mut random = Random::new(settings.seed);
    let mut communities: Vec<u32> = (0..count as u32).collect();
    let mut level = Level::bottom(rows, work)?;
    let total: f64 = level.strength.iter().sum();
    if total <= 0.0 {
        return Ok(communities);
    }
    for _ in 0..settings.levels {
        let (mut groups, moved) = level.improve(settings, total, &mut random, work)?;
        if !moved {
            break;
        }
        renumber(&mut groups);
        for community in &mut communities {
            *community = groups[*community as usize];
        }
        level = level.merged(&groups, work)?;
    }
    renumber(&mut communities);
    Ok(communities)
}

impl Level {
    fn bottom<S: StopCheck>(rows: &SparseRows, work: &Resources<'_, S>) -> Result<Self, S::Error> {
        let own: Vec<u32> = (0..rows.len() as u32).collect();
        let mut level = merge(rows, &vec![0.0; rows.len()], &own, work)?;
        // A self loop occurs once in its row, any other edge in the rows of both its ends.
        for node in 0..rows.len() as u32 {
            level.loops[node as usize] = rows
                .weighted(node)
                .filter(|(other, _)| *other == node)
                .map(|(_, weight)| weight)
                .sum();
        }
        level.weigh();
        Ok(level)
    }

    fn merged<S: StopCheck>(
        &self,
        groups: &[u32],
        work: &Resources<'_, S>,
    ) -> Result<Self, S::Error> {
        let mut level = merge(&self.rows, &self.loops, groups, work)?;
        level.weigh();
        Ok(level)
    }

    fn weigh(&mut self) {
        self.strength = (0..self.rows.len() as u32)
            .map(|node| {
                self.rows
                    .weighted(node)
                    .map(|(_, weight)| weight)
                    .sum::<f64>()
                    + 2.0 * self.loops[node as usize]
            })
            .collect();
    }

    /// Moves nodes as long as that raises the modularity; returns their groups and whether any node moved.
    fn improve<S: StopCheck>(
        &self,
        settings: &Louvain,
        total: f64,
        random: &mut Random,
        work: &Resources<'_, S>,
    ) -> Result<(Vec<u32>, bool), S::Error> {
        let count = self.rows.len();
        let mut pace = work.pace();
        let mut groups: Vec<u32> = (0..count as u32).collect();
        let mut strength = self.strength.clone(); // of each group
        let mut order = groups.clone();
        random.shuffle(&mut order);
        let mut tally = Tally::new(count);
        let mut moved = false;
        loop {
            let mut raised = 0.0;
            for node in order.iter().copied() {
                pace.count_steps(1 + self.rows.degree(node))?;
                tally.clear();
                let own = groups[node as usize];
                for (other, weight) in self.rows.weighted(node) {
                    tally.add(groups[other as usize], weight);
                }
                let strong = self.strength[node as usize];
                strength[own as usize] -= strong;
                let pull = settings.resolution * strong / total;
                let gain = |group: u32| tally.of(group) - pull * strength[group as usize];
                let stay = gain(own);
                let (mut best, mut most) = (own, stay);
                for group in tally.touched.iter().copied() {
                    let gained = gain(group);
                    // Strictly better, ties by the smallest number: rounding cannot make a node alternate.
                    let margin = 1e-12 * strong.max(1e-300);
                    if gained > most + margin || (best != own && gained == most && group < best) {
                        (best, most) = (group, gained);
                    }
                }
                strength[best as usize] += strong;
                if best != own {
                    groups[node as usize] = best;
                    raised += 2.0 * (most - stay) / total;
                    moved = true;
                }
            }
            if raised <= settings.tolerance {
                return Ok((groups, moved));
            }
        }
    }
}

/// The graph between groups, which are numbered without gaps: edges between the same two groups become one, and the
/// edges within a group become its self loop.
fn merge<S: StopCheck>(
    rows: &SparseRows,
    loops: &[f64],
    groups: &[u32],
    work: &Resources<'_, S>,
) -> Result<Level, S::Error> {
    let mut pace = work.pace();
    let count = groups.iter().max().map_or(0, |most| *most as usize + 1);
    let mut members: Vec<(u32, u32)> = (0..rows.len() as u32)
        .map(|node| (groups[node as usize], node))
        .collect();
    members.sort_unstable();
    let mut tally = Tally::new(count);
    let mut merged = Level {
        rows: SparseRows::default(),
        loops: vec![0.0; count],
        strength: Vec::new(),
    };
    let (mut edges, mut weights) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some((group, _)) = members.get(at).copied() {
        tally.clear();
        while let Some((_, node)) = members.get(at).filter(|(other, _)| *other == group) {
            pace.count_steps(1 + rows.degree(*node))?;
            merged.loops[group as usize] += loops[*node as usize];
            for (other, weight) in rows.weighted(*node) {
                let to = groups[other as usize];
                if to == group {
                    // Both ends are in the group: the edge is seen twice.
                    merged.loops[group as usize] += weight / 2.0;
                } else {
                    tally.add(to, weight);
                }
            }
            at += 1;
        }
        tally.touched.sort_unstable();
        for to in &tally.touched {
            edges.push((group, *to));
            weights.push(tally.of(*to));
        }
    }
    merged.rows = SparseRows::new(count, &edges, &weights, &mut pace)?;
    Ok(merged)
}

/// Modularity: how much more weight lies within communities than expected at random (Newman 2004); the graph as in
/// [`louvain`].
#[cfg(test)]
pub(super) fn modularity(rows: &SparseRows, communities: &[u32], resolution: f64) -> f64 {
    let mut inside = vec![0.0; rows.len()];
    let mut strength = vec![0.0; rows.len()];
    for node in 0..rows.len() as u32 {
        let own = communities[node as usize];
        for (other, weight) in rows.weighted(node) {
            let weight = if other == node { 2.0 * weight } else { weight };
            strength[own as usize] += weight;
            if communities[other as usize] == own {
                inside[own as usize] += weight;
            }
        }
    }
    let total: f64 = strength.iter().sum();
    inside
        .iter()
        .zip(&strength)
        .map(|(inside, strength)| inside / total - resolution * (strength / total).powi(2))
        .sum()
}
