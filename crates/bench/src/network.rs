//! A social network shaped like SNAP's soc-Pokec, generated from a seed.
//!
//! The model: people live in regions and meet in *circles* (a school class, a team: small groups in which
//! almost half of the pairs know each other), which gives clustering; the rest of their contacts are
//! *acquaintances*, mostly from the same region. The number of contacts per person is log-normal with a
//! Pareto tail. Some of the contacts are mutual, the others point one way. Some people only receive (no
//! relationship leaves them), some only send, some form chains attached to the core, and a few are on islands
//! without incoming relationships, so that there are pairs without a path and searches have some depth.

use crate::random::Random;

/// People in the whole network, as in soc-Pokec.
pub const FULL_PEOPLE: u32 = 1_632_803;
/// Relationships in the whole network, as in soc-Pokec.
pub const FULL_RELATIONSHIPS: u64 = 30_622_564;
/// The seed that demonstrations and benchmarks use.
pub const DEFAULT_SEED: u64 = 20_150_604;

/// Number of regions in a whole network; smaller ones have fewer.
pub const REGIONS: usize = 187;
/// Share of the relationships that get one in the other direction; chance raises it to 0.54.
const RECIPROCITY: f64 = 0.533;
/// Share of the contacts that come from circles.
const CIRCLE_SHARE: f64 = 0.58;
/// Probability that two members of a circle know each other.
const CIRCLE_DENSITY: f64 = 0.46;
/// Sizes of circles.
const CIRCLE_SIZES: std::ops::Range<usize> = 7..24;
/// Maximum number of circles per person; further contacts are acquaintances.
const MAX_CIRCLES: usize = 12;
/// Share of the acquaintances that live in the same region.
const SAME_REGION: f64 = 0.66;
/// Share of the contacts that the first pass creates; the rest is filled up to the exact number.
const FIRST_PASS: f64 = 0.98;

/// A person's role in the direction of relationships.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Sends and receives.
    Crowd,
    /// Only receives.
    Listener,
    /// Only sends.
    Caller,
    /// Knows one or two people: part of a chain attached to the core.
    Chain,
    /// Sends to the mainland, receives only from the island.
    Islander,
}

/// People `0..people` and their relationships.
#[derive(Clone, Debug)]
pub struct Network {
    seed: u64,
    people: u32,
    regions: Vec<u8>,
    edges: Vec<(u32, u32)>,
}

impl Network {
    /// The network at `scale`: 1.0 has [`FULL_PEOPLE`] and [`FULL_RELATIONSHIPS`]. At least 50 people.
    pub fn at_scale(scale: f64, seed: u64) -> Self {
        let people = (f64::from(FULL_PEOPLE) * scale)
            .round()
            .clamp(50.0, f64::from(FULL_PEOPLE) * 100.0);
        Self::of_people(people as u32, seed)
    }

    /// The network of `people` (at least 50), with 18.755 relationships per person on average.
    ///
    /// Takes about 10 bytes of memory per relationship during generation, 8 afterwards.
    pub fn of_people(people: u32, seed: u64) -> Self {
        let people = people.max(50);
        let wanted = (u128::from(people) * u128::from(FULL_RELATIONSHIPS) / u128::from(FULL_PEOPLE))
            as usize;
        let mut maker = Maker::new(people, seed);
        let mut pairs = maker.contacts(wanted);
        let mut edges = maker.directed(&mut pairs, wanted);
        drop(pairs);
        maker.islands_and_chains(&mut edges);
        sort_unique(&mut edges);
        maker.connect(&mut edges);
        maker.fill(&mut edges, wanted);
        let edges = edges.into_iter().map(unpack).collect();
        Self {
            seed,
            people,
            regions: maker.regions,
            edges,
        }
    }

    /// Number of people.
    pub fn people(&self) -> u32 {
        self.people
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Relationships as (source, target), ascending, without duplicates and self loops.
    pub fn edges(&self) -> &[(u32, u32)] {
        &self.edges
    }

    /// Takes the relationships out, when only the profiles are needed.
    pub fn take_edges(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.edges)
    }

    /// The number of a person's region, below [`REGIONS`]; region 0 is the largest.
    pub fn region(&self, person: u32) -> u8 {
        self.regions[person as usize]
    }

    /// A person's key in a database: `P1` for person 0, as in soc-Pokec.
    pub fn key(person: u32) -> String {
        format!("P{}", u64::from(person) + 1)
    }

    /// Sources of all relationships in compressed rows: see [`Rows`].
    pub fn rows(&self) -> Rows {
        Rows::new(self.people, &self.edges)
    }
}

/// Targets of all people: those of `p` are `targets[offsets[p]..offsets[p + 1]]`, ascending.
#[derive(Clone, Debug)]
pub struct Rows {
    offsets: Vec<u32>,
    targets: Vec<u32>,
}

impl Rows {
    /// Rows of edges that are sorted by source.
    pub fn new(people: u32, edges: &[(u32, u32)]) -> Self {
        assert!(
            edges.is_sorted(),
            "edges must come in the order of their sources"
        );
        let mut offsets = vec![0u32; people as usize + 1];
        for &(source, _) in edges {
            offsets[source as usize + 1] += 1;
        }
        for at in 1..offsets.len() {
            offsets[at] += offsets[at - 1];
        }
        Self {
            offsets,
            targets: edges.iter().map(|&(_, target)| target).collect(),
        }
    }

    /// The transposed edges.
    pub fn reversed(people: u32, edges: &[(u32, u32)]) -> Self {
        let mut offsets = vec![0u32; people as usize + 1];
        for &(_, target) in edges {
            offsets[target as usize + 1] += 1;
        }
        for at in 1..offsets.len() {
            offsets[at] += offsets[at - 1];
        }
        let mut next = offsets.clone();
        let mut sources = vec![0; edges.len()];
        for &(source, target) in edges {
            sources[next[target as usize] as usize] = source;
            next[target as usize] += 1;
        }
        Self {
            offsets,
            targets: sources,
        }
    }

    /// All targets, in the order of their sources.
    pub fn targets(&self) -> &[u32] {
        &self.targets
    }

    /// The targets of `person`.
    pub fn of(&self, person: u32) -> &[u32] {
        &self.targets
            [self.offsets[person as usize] as usize..self.offsets[person as usize + 1] as usize]
    }

    /// Number of people.
    pub fn people(&self) -> u32 {
        (self.offsets.len() - 1) as u32
    }

    /// Distances from `start` along the relationships; `u32::MAX` if there is no path.
    pub fn distances(&self, start: u32) -> Vec<u32> {
        let mut distances = vec![u32::MAX; self.people() as usize];
        distances[start as usize] = 0;
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(person) = queue.pop_front() {
            for &next in self.of(person) {
                if distances[next as usize] == u32::MAX {
                    distances[next as usize] = distances[person as usize] + 1;
                    queue.push_back(next);
                }
            }
        }
        distances
    }
}

fn pack(source: u32, target: u32) -> u64 {
    u64::from(source) << 32 | u64::from(target)
}

fn unpack(edge: u64) -> (u32, u32) {
    ((edge >> 32) as u32, edge as u32)
}

fn sort_unique(edges: &mut Vec<u64>) {
    edges.sort_unstable();
    edges.dedup();
}

/// The state of a generation.
struct Maker {
    random: Random,
    people: u32,
    parts: Vec<Part>,
    regions: Vec<u8>,
    /// All people, by region, in random order within a region.
    by_region: Vec<u32>,
    /// Where each region starts in `by_region`.
    region_starts: Vec<usize>,
    /// Each person's share of all contacts.
    weights: Vec<f32>,
    /// The core, each person once.
    crowd: Vec<u32>,
}

impl Maker {
    fn new(people: u32, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let parts: Vec<Part> = (0..people).map(|_| draw_part(&mut random)).collect();
        let regions = draw_regions(&mut random, people);
        let (by_region, region_starts) = group_by_region(&mut random, &regions);
        // The tail grows with the network: the most popular of 1.6 million people has more contacts than that
        // of a thousand.
        let most = 820.0 * (f64::from(people) / f64::from(FULL_PEOPLE)).powf(0.42);
        let weights = parts
            .iter()
            .map(|&part| draw_weight(&mut random, part, most) as f32)
            .collect();
        let mut crowd: Vec<u32> = (0..people)
            .filter(|&person| parts[person as usize] == Part::Crowd)
            .collect();
        if crowd.is_empty() {
            crowd = (0..people).collect();
        }
        Self {
            random,
            people,
            parts,
            regions,
            by_region,
            region_starts,
            weights,
            crowd,
        }
    }

    /// Pairs that know each other, each once as (lower, higher), unsorted; without islands and chains.
    fn contacts(&mut self, wanted_edges: usize) -> Vec<u64> {
        let wanted = wanted_edges as f64 * (1.0 - RECIPROCITY / 2.0);
        let sum: f64 = self.weights.iter().map(|&weight| f64::from(weight)).sum();
        let contacts_per_weight = 2.0 * wanted / sum;
        let mut pairs = Vec::with_capacity((wanted * 1.05) as usize);
        let (circles, region_mates, strangers) = self.draw_slots(contacts_per_weight);
        for slots in &circles {
            self.meet_in_circles(slots, &mut pairs);
        }
        for mut stubs in region_mates {
            self.pair_up(&mut stubs, &mut pairs);
        }
        let mut stubs = strangers;
        self.pair_up(&mut stubs, &mut pairs);
        sort_unique(&mut pairs);
        self.random.shuffle(&mut pairs);
        pairs.truncate((wanted * FIRST_PASS) as usize);
        pairs
    }

    /// Expected contacts of each person: in circles of the region, among acquaintances there, and among all
    /// others.
    fn draw_slots(&mut self, contacts_per_weight: f64) -> (Vec<Vec<u32>>, Vec<Vec<u32>>, Vec<u32>) {
        let mean_size = (CIRCLE_SIZES.start + CIRCLE_SIZES.end - 1) as f64 / 2.0;
        let spread = (CIRCLE_SIZES.end - CIRCLE_SIZES.start) as f64;
        // A slot is likelier to be in a large circle: the mean number of others is E[s²]/E[s] - 1.
        let others = mean_size + spread * spread / 12.0 / mean_size - 1.0;
        let per_circle = others * CIRCLE_DENSITY;
        let mut circles = vec![Vec::new(); REGIONS];
        let mut mates = vec![Vec::new(); REGIONS];
        let mut strangers = Vec::new();
        for person in 0..self.people {
            let region = self.regions[person as usize] as usize;
            let contacts = f64::from(self.weights[person as usize]) * contacts_per_weight;
            let joined = self
                .random
                .round(contacts * CIRCLE_SHARE / per_circle)
                .min(MAX_CIRCLES);
            circles[region].extend(std::iter::repeat_n(person, joined));
            // Rounding a small share up to a whole circle must not inflate the contacts: subtract what
            // circles contribute.
            let rest = if joined == MAX_CIRCLES {
                contacts - joined as f64 * per_circle
            } else {
                contacts * (1.0 - CIRCLE_SHARE)
            };
            for _ in 0..self.random.round(rest) {
                if self.random.chance(SAME_REGION) {
                    mates[region].push(person);
                } else {
                    strangers.push(person);
                }
            }
        }
        (circles, mates, strangers)
    }

    fn meet_in_circles(&mut self, slots: &[u32], pairs: &mut Vec<u64>) {
        let mut slots = slots.to_vec();
        self.random.shuffle(&mut slots);
        let mut rest = slots.as_slice();
        while rest.len() > 1 {
            let size = CIRCLE_SIZES.start + self.random.below(CIRCLE_SIZES.len());
            let (circle, after) = rest.split_at(size.min(rest.len()));
            rest = after;
            for (at, &one) in circle.iter().enumerate() {
                for &other in &circle[at + 1..] {
                    if self.random.chance(CIRCLE_DENSITY) {
                        self.push_pair(one, other, pairs);
                    }
                }
            }
        }
    }

    fn pair_up(&mut self, stubs: &mut [u32], pairs: &mut Vec<u64>) {
        self.random.shuffle(stubs);
        for two in stubs.chunks_exact(2) {
            self.push_pair(two[0], two[1], pairs);
        }
    }

    /// Keeps the pairs that can become a relationship: not two receivers, not two senders.
    fn push_pair(&self, one: u32, other: u32, pairs: &mut Vec<u64>) {
        let (a, b) = (self.parts[one as usize], self.parts[other as usize]);
        if one != other && (a != b || a == Part::Crowd) {
            pairs.push(pack(one.min(other), one.max(other)));
        }
    }

    /// Turns contacts into relationships: mutual ones up to the reciprocity, the others in one direction.
    fn directed(&mut self, pairs: &mut [u64], wanted: usize) -> Vec<u64> {
        let in_crowd = |pair: u64| {
            let (one, other) = unpack(pair);
            self.parts[one as usize] == Part::Crowd && self.parts[other as usize] == Part::Crowd
        };
        let able = pairs.iter().filter(|&&pair| in_crowd(pair)).count();
        let mutual = wanted as f64 * RECIPROCITY / 2.0 / able.max(1) as f64;
        let mut edges = Vec::with_capacity(wanted + wanted / 50);
        for &pair in pairs.iter() {
            let (one, other) = unpack(pair);
            let forth = match (self.parts[one as usize], self.parts[other as usize]) {
                (Part::Crowd, Part::Crowd) if self.random.chance(mutual) => {
                    edges.push(pack(other, one));
                    true
                }
                (Part::Crowd, Part::Crowd) => self.random.chance(0.5),
                (Part::Caller, _) | (_, Part::Listener) => true,
                _ => false,
            };
            edges.push(if forth {
                pack(one, other)
            } else {
                pack(other, one)
            });
        }
        edges
    }

    /// Islands: groups of 5 to 40 who know each other and point to the mainland. Chains: up to four people in
    /// a row.
    fn islands_and_chains(&mut self, edges: &mut Vec<u64>) {
        let (islanders, chained) = (self.playing(Part::Islander), self.playing(Part::Chain));
        let mut rest = islanders.as_slice();
        while !rest.is_empty() {
            let size = 5 + self.random.below(36);
            let (island, after) = rest.split_at(size.min(rest.len()));
            rest = after;
            for &person in island {
                for _ in 0..3 {
                    let friend = *self.random.pick(island);
                    if friend != person {
                        edges.extend([pack(person, friend), pack(friend, person)]);
                    }
                }
                for _ in 0..4 {
                    edges.push(pack(person, *self.random.pick(&self.crowd)));
                }
            }
        }
        let mut last: Option<(u32, u32)> = None; // (end of the chain, its length)
        for person in chained {
            let (before, length) = match last {
                Some((end, length)) if length < 4 && self.random.chance(0.8) => (end, length + 1),
                _ => (*self.random.pick(&self.crowd), 1),
            };
            edges.extend([pack(before, person), pack(person, before)]);
            last = Some((person, length));
        }
    }

    /// All people with a role, by region.
    fn playing(&self, part: Part) -> Vec<u32> {
        self.by_region
            .iter()
            .copied()
            .filter(|&person| self.parts[person as usize] == part)
            .collect()
    }

    /// Connects every component to the largest one, in a direction that the roles allow. Keeps `edges`
    /// sorted.
    fn connect(&mut self, edges: &mut Vec<u64>) {
        let mut groups = Groups::new(self.people);
        for &edge in edges.iter() {
            let (source, target) = unpack(edge);
            groups.join(source, target);
        }
        let largest = groups.largest();
        let anchors: Vec<u32> = self
            .crowd
            .iter()
            .copied()
            .filter(|&person| groups.root(person) == largest)
            .collect();
        if anchors.is_empty() {
            return;
        }
        for person in 0..self.people {
            if groups.root(person) == groups.root(largest) {
                continue;
            }
            let anchor = *self.random.pick(&anchors);
            match self.parts[person as usize] {
                Part::Listener => edges.push(pack(anchor, person)),
                Part::Caller | Part::Islander => edges.push(pack(person, anchor)),
                Part::Crowd | Part::Chain => {
                    edges.extend([pack(person, anchor), pack(anchor, person)])
                }
            }
            groups.join(person, anchor);
        }
        sort_unique(edges);
    }

    /// Adds one-way relationships within regions until there are `wanted`. Keeps `edges` sorted.
    fn fill(&mut self, edges: &mut Vec<u64>, wanted: usize) {
        for _round in 0..100 {
            let missing = wanted.saturating_sub(edges.len());
            if missing == 0 {
                break;
            }
            let mut more = Vec::with_capacity(missing);
            while more.len() < missing {
                let source = *self.random.pick(&self.crowd);
                let region = self.regions[source as usize] as usize;
                let target = self.by_region[self
                    .random
                    .below(self.region_starts[region + 1] - self.region_starts[region])
                    + self.region_starts[region]];
                let edge = pack(source, target);
                let open = matches!(self.parts[target as usize], Part::Crowd | Part::Listener);
                if source == target || !open || edges.binary_search(&edge).is_ok() {
                    // A region may be full: then pick anyone.
                    let anybody = *self.random.pick(&self.crowd);
                    if anybody != source && edges.binary_search(&pack(source, anybody)).is_err() {
                        more.push(pack(source, anybody));
                    }
                    continue;
                }
                more.push(edge);
            }
            edges.extend(more);
            sort_unique(edges);
        }
    }
}

fn draw_part(random: &mut Random) -> Part {
    match random.unit() {
        x if x < 0.108 => Part::Listener,
        x if x < 0.164 => Part::Caller,
        x if x < 0.174 => Part::Islander,
        x if x < 0.189 => Part::Chain,
        _ => Part::Crowd,
    }
}

/// Regions by Zipf's law with exponent 0.8. A smaller network has fewer of them, so that regions do not
/// become cliques.
fn draw_regions(random: &mut Random, people: u32) -> Vec<u8> {
    let count = (REGIONS as f64 * (f64::from(people) / f64::from(FULL_PEOPLE)).sqrt())
        .round()
        .clamp(4.0, REGIONS as f64) as usize;
    let mut sums = Vec::with_capacity(count);
    let mut sum = 0.0;
    for rank in 1..=count {
        sum += (rank as f64).powf(-0.8);
        sums.push(sum);
    }
    (0..people)
        .map(|_| {
            let at = random.unit() * sum;
            sums.partition_point(|&upto| upto <= at).min(count - 1) as u8
        })
        .collect()
}

fn group_by_region(random: &mut Random, regions: &[u8]) -> (Vec<u32>, Vec<usize>) {
    let mut by_region: Vec<u32> = (0..regions.len() as u32).collect();
    random.shuffle(&mut by_region);
    by_region.sort_by_key(|&person| regions[person as usize]); // stable: keeps the random order within a region
    let mut starts = vec![0; REGIONS + 1];
    for &region in regions {
        starts[region as usize + 1] += 1;
    }
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    (by_region, starts)
}

/// A log-normal body, a Pareto tail; people who only receive or only send have fewer contacts.
fn draw_weight(random: &mut Random, part: Part, most: f64) -> f64 {
    let body = (1.05 * random.normal()).exp();
    let tail = if random.chance(0.004) {
        5.0 * (1.0 - random.unit()).powf(-1.0 / 1.4)
    } else {
        1.0
    };
    let scale = match part {
        Part::Crowd => 1.0,
        Part::Listener | Part::Caller => 0.5,
        Part::Chain | Part::Islander => 0.0,
    };
    scale * (body * tail).min(most)
}

/// Union-find with path halving.
struct Groups {
    parents: Vec<u32>,
}

impl Groups {
    fn new(people: u32) -> Self {
        Self {
            parents: (0..people).collect(),
        }
    }

    fn root(&mut self, mut person: u32) -> u32 {
        while self.parents[person as usize] != person {
            let above = self.parents[self.parents[person as usize] as usize];
            self.parents[person as usize] = above;
            person = above;
        }
        person
    }

    fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.root(one), self.root(other));
        let (low, high) = (one.min(other), one.max(other));
        self.parents[high as usize] = low;
    }

    fn largest(&mut self) -> u32 {
        let mut sizes = vec![0u32; self.parents.len()];
        for person in 0..self.parents.len() as u32 {
            sizes[self.root(person) as usize] += 1;
        }
        (0..sizes.len() as u32)
            .max_by_key(|&root| sizes[root as usize])
            .unwrap_or(0)
    }
}
