//! Measures the shape of a network, to compare it with the one it imitates.

use crate::{network::Network, random::Random};

/// Metrics of a network. Distances and clustering are estimated from samples.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Relationships per person.
    pub mean_out_degree: f64,
    /// Largest out-degree.
    pub max_out_degree: u32,
    /// Share of the relationships that are reciprocated.
    pub reciprocity: f64,
    /// Share of the people in the largest weakly connected component.
    pub weak_share: f64,
    /// Share of the people in the largest strongly connected component.
    pub strong_share: f64,
    /// Mean local clustering coefficient.
    pub clustering: f64,
    /// Longest distance found by the sampled searches.
    pub depth: u32,
    /// Mean distance over the pairs reached by these searches.
    pub mean_distance: f64,
}

impl Shape {
    /// Measures `network` in O(people + relationships); clustering is sampled from `samples` people,
    /// distances from a tenth of that number.
    pub fn measure(network: &Network, samples: usize) -> Self {
        let people = network.people();
        let out = network.rows();
        let into = crate::network::Rows::reversed(people, network.edges());
        let edges = network.edges();
        let mutual = edges
            .iter()
            .filter(|&&(source, target)| out.of(target).binary_search(&source).is_ok())
            .count();
        let contacts = |person: u32| {
            let mut all = [out.of(person), into.of(person)].concat();
            all.sort_unstable();
            all.dedup();
            all
        };
        let mut random = Random::new(99);
        let mut clustering = 0.0;
        let mut depth = 0;
        let (mut distance_sum, mut distance_count) = (0u64, 0u64);
        for sample in 0..samples.max(1) {
            let person = random.below(people as usize) as u32;
            clustering += local_clustering(&contacts(person), &contacts);
            if sample % 10 == 0 {
                for distance in out
                    .distances(person)
                    .into_iter()
                    .filter(|&distance| distance != 0 && distance != u32::MAX)
                {
                    depth = depth.max(distance);
                    distance_sum += u64::from(distance);
                    distance_count += 1;
                }
            }
        }
        // The strongly connected core is the intersection of what one of its members reaches and what reaches
        // it; the person with the highest degree is in it.
        let hub = (0..people)
            .max_by_key(|&person| out.of(person).len().min(into.of(person).len()))
            .unwrap_or(0);
        let (forth, back) = (out.distances(hub), into.distances(hub));
        let strong = forth
            .iter()
            .zip(&back)
            .filter(|&(&forth, &back)| forth != u32::MAX && back != u32::MAX)
            .count();
        Self {
            mean_out_degree: edges.len() as f64 / f64::from(people),
            max_out_degree: (0..people)
                .map(|person| out.of(person).len() as u32)
                .max()
                .unwrap_or(0),
            reciprocity: mutual as f64 / edges.len().max(1) as f64,
            weak_share: weak_share(people, hub, &contacts),
            strong_share: strong as f64 / f64::from(people),
            clustering: clustering / samples.max(1) as f64,
            depth,
            mean_distance: distance_sum as f64 / distance_count.max(1) as f64,
        }
    }
}

fn local_clustering(friends: &[u32], contacts: &dyn Fn(u32) -> Vec<u32>) -> f64 {
    let pairs = friends.len() * friends.len().saturating_sub(1);
    if pairs == 0 {
        return 0.0;
    }
    let known: usize = friends
        .iter()
        .map(|&friend| {
            contacts(friend)
                .iter()
                .filter(|other| friends.binary_search(other).is_ok())
                .count()
        })
        .sum();
    known as f64 / pairs as f64
}

fn weak_share(people: u32, start: u32, contacts: &dyn Fn(u32) -> Vec<u32>) -> f64 {
    let mut seen = vec![false; people as usize];
    seen[start as usize] = true;
    let mut stack = vec![start];
    let mut count = 0u32;
    while let Some(person) = stack.pop() {
        count += 1;
        for next in contacts(person) {
            if !std::mem::replace(&mut seen[next as usize], true) {
                stack.push(next);
            }
        }
    }
    f64::from(count) / f64::from(people)
}
