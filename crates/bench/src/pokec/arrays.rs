//! The network as arrays and plain loops over them: the reference results, and the limit that a database can
//! approach (no transactions, no updates, no query language, no checks, everything in memory).

use std::{
    collections::HashMap,
    fs::{self, File},
    hint::black_box,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, bail};

use crate::{
    Network,
    files::PathQuery,
    measure::{Stopwatch, Timed, time_each},
    network::Rows,
    pokec::{
        job::{Job, Measured},
        questions::{Questions, Tally, figures_of, kept_line, path_line, person, set_line},
    },
    profile::write_json,
};

const NO_AGE: u8 = u8::MAX;

/// People `0..n`: their targets, their sources, and the queried parts of their profiles.
#[derive(Debug)]
pub struct Arrays {
    out: Rows,
    into: Rows,
    /// One byte per person; [`NO_AGE`] if unknown.
    ages: Vec<u8>,
    completions: Vec<u8>,
    /// Lines of JSON, concatenated; person `p`'s is `texts[starts[p]..starts[p + 1]]`. Empty if not
    /// requested.
    texts: Vec<u8>,
    starts: Vec<usize>,
}

impl Arrays {
    /// The arrays of `network`; `with_texts` also keeps the profiles as JSON.
    pub fn of_network(network: &Network, with_texts: bool) -> Self {
        let people = network.people();
        let mut made = Self::of_edges(people, network.edges());
        let mut line = String::new();
        for number in 0..people {
            let profile = network.profile(number);
            let (age, completion) = figures_of(&profile);
            made.ages.push(age.map_or(NO_AGE, |age| age as u8));
            made.completions.push(completion as u8);
            if with_texts {
                line.clear();
                write_json(&profile, &mut line);
                made.texts.extend_from_slice(line.as_bytes());
                made.starts.push(made.texts.len());
            }
        }
        made
    }

    /// The arrays of `profiles.jsonl` and `edges.tsv` in `folder`.
    pub fn of_files(folder: &Path) -> Result<Self> {
        let texts = fs::read(folder.join("profiles.jsonl"))?;
        let (mut ages, mut completions, mut starts) = (Vec::new(), Vec::new(), vec![0]);
        for line in texts.split_inclusive(|&byte| byte == b'\n') {
            ages.push(number_after(line, b"\"AGE\":").map_or(NO_AGE, |age| age as u8));
            completions.push(number_after(line, b"\"completion\":").unwrap_or(0) as u8);
            starts.push(starts[starts.len() - 1] + line.len());
        }
        let mut edges = Vec::new();
        let mut lines = BufReader::with_capacity(1 << 20, File::open(folder.join("edges.tsv"))?);
        let mut line = String::new();
        while lines.read_line(&mut line)? > 0 {
            if !line.starts_with('#') {
                let (source, target) = line
                    .trim_end()
                    .split_once('\t')
                    .with_context(|| format!("edges.tsv: `{line}` is not two columns"))?;
                edges.push((person(source)?, person(target)?));
            }
            line.clear();
        }
        Ok(Self {
            ages,
            completions,
            texts,
            ..Self::of_edges((starts.len() - 1) as u32, &edges)
        }
        .with_starts(starts))
    }

    fn with_starts(mut self, starts: Vec<usize>) -> Self {
        self.starts = starts;
        self
    }

    fn of_edges(people: u32, edges: &[(u32, u32)]) -> Self {
        Self {
            out: Rows::new(people, edges),
            into: Rows::reversed(people, edges),
            ages: Vec::with_capacity(people as usize),
            completions: Vec::with_capacity(people as usize),
            texts: Vec::new(),
            starts: vec![0],
        }
    }

    fn text(&self, person: u32) -> &[u8] {
        &self.texts[self.starts[person as usize]..self.starts[person as usize + 1]]
    }

    fn age(&self, person: u32) -> Option<i64> {
        Some(self.ages[person as usize])
            .filter(|&age| age != NO_AGE)
            .map(i64::from)
    }

    fn tally(&self, people: impl IntoIterator<Item = u32>) -> Tally {
        let mut tally = Tally::default();
        for person in people {
            let completion = i64::from(self.completions[person as usize]);
            tally.add(person, self.age(person), completion);
        }
        tally
    }

    /// The number of people per age; the last entry counts those without an age.
    fn age_counts(&self) -> [u64; 256] {
        let mut counts = [0; 256];
        for &age in &self.ages {
            counts[usize::from(age)] += 1;
        }
        counts
    }

    fn count_paths2(&self) -> u64 {
        self.out
            .targets()
            .iter()
            .map(|&person| self.out.of(person).len() as u64)
            .sum()
    }

    /// The reference result of a job.
    pub fn answer(&self, job: Job, questions: &Questions) -> Vec<String> {
        let mut search = Search::new(self.out.people());
        let neighbours = |start: u32, search: &mut Search| {
            search.neighbours2(&self.out, start);
            search.found.clone()
        };
        match job {
            Job::Load => vec![format!(
                "{} people, {} relationships",
                self.out.people(),
                self.out.targets().len()
            )],
            Job::FirstTraversal => {
                vec![set_line(
                    questions.starts[0],
                    neighbours(questions.starts[0], &mut search),
                )]
            }
            Job::SingleReads => vec![self.tally(questions.keys.iter().copied()).line()],
            Job::AggregateAge => {
                let counts = self.age_counts();
                let ages = counts.iter().enumerate().filter(|&(_, &count)| count > 0);
                ages.map(|(age, count)| match age {
                    age if age == usize::from(NO_AGE) => format!("none {count}"),
                    age => format!("{age} {count}"),
                })
                .collect()
            }
            Job::Neighbors2 | Job::Neighbors2Keys => questions
                .starts
                .iter()
                .map(|&start| set_line(start, neighbours(start, &mut search)))
                .collect(),
            Job::Neighbors2Profiles => questions
                .starts
                .iter()
                .map(|&start| {
                    let tally = self.tally(neighbours(start, &mut search));
                    format!("{}: {}", Network::key(start), tally.line())
                })
                .collect(),
            Job::CountPaths2 => vec![self.count_paths2().to_string()],
            Job::ShortestPath => questions
                .pairs
                .iter()
                .map(|pair| path_line(pair, pair.distance))
                .collect(),
            Job::NoPath => questions
                .apart
                .iter()
                .map(|pair| path_line(pair, None))
                .collect(),
            Job::ViewsKept => vec![kept_line(questions)],
            Job::WritesBuffered | Job::WritesSynced => {
                let mut tally = Tally::default();
                for number in 0..questions.writes as u32 {
                    let person = number % self.out.people();
                    let completion = i64::from(self.completions[person as usize]);
                    tally.add(number, self.age(person), completion);
                }
                vec![tally.line()]
            }
        }
    }
}

fn number_after(line: &[u8], name: &[u8]) -> Option<u64> {
    let at = line.windows(name.len()).position(|part| part == name)? + name.len();
    let digits = line[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, &digit| number * 10 + u64::from(digit - b'0')))
}

/// Scratch memory of searches: marks need no clearing, because each search has its own number.
#[derive(Debug)]
struct Search {
    epoch: u32,
    /// The number of the search that last reached each person, forwards and backwards.
    marks: [Vec<u32>; 2],
    /// Predecessor of each person.
    parents: [Vec<u32>; 2],
    found: Vec<u32>,
    edge: [Vec<u32>; 2],
    next: Vec<u32>,
}

impl Search {
    fn new(people: u32) -> Self {
        let row = || vec![0; people as usize];
        Self {
            epoch: 0,
            marks: [row(), row()],
            parents: [row(), row()],
            found: Vec::new(),
            edge: [Vec::new(), Vec::new()],
            next: Vec::new(),
        }
    }

    /// Collects in `found` the people one or two hops from `start`, without `start`.
    fn neighbours2(&mut self, out: &Rows, start: u32) {
        self.epoch += 1;
        let (epoch, seen) = (self.epoch, &mut self.marks[0]);
        self.found.clear();
        seen[start as usize] = epoch;
        let mut reach = |person: u32, found: &mut Vec<u32>| {
            if seen[person as usize] != epoch {
                seen[person as usize] = epoch;
                found.push(person);
            }
        };
        for &friend in out.of(start) {
            reach(friend, &mut self.found);
        }
        for at in 0..self.found.len() {
            for &other in out.of(self.found[at]) {
                reach(other, &mut self.found);
            }
        }
    }

    /// The people on a shortest path, both ends included: bidirectional search, the smaller frontier first.
    fn path(&mut self, rows: [&Rows; 2], from: u32, to: u32) -> Option<Vec<u32>> {
        self.epoch += 1;
        let epoch = self.epoch;
        for (side, end) in [from, to].into_iter().enumerate() {
            self.marks[side][end as usize] = epoch;
            self.edge[side].clear();
            self.edge[side].push(end);
        }
        while !self.edge[0].is_empty() && !self.edge[1].is_empty() {
            let side = usize::from(self.edge[1].len() < self.edge[0].len());
            self.next.clear();
            for &person in &self.edge[side] {
                for &other in rows[side].of(person) {
                    if self.marks[side][other as usize] == epoch {
                        continue;
                    }
                    self.marks[side][other as usize] = epoch;
                    self.parents[side][other as usize] = person;
                    if self.marks[1 - side][other as usize] == epoch {
                        return Some(self.joined(from, to, other));
                    }
                    self.next.push(other);
                }
            }
            std::mem::swap(&mut self.edge[side], &mut self.next);
        }
        None
    }

    fn joined(&self, from: u32, to: u32, meeting: u32) -> Vec<u32> {
        let mut path = vec![meeting];
        while path[path.len() - 1] != from {
            path.push(self.parents[0][path[path.len() - 1] as usize]);
        }
        path.reverse();
        while path[path.len() - 1] != to {
            path.push(self.parents[1][path[path.len() - 1] as usize]);
        }
        path
    }
}

/// The plain loops, timed.
#[derive(Debug)]
pub struct Limit {
    data: PathBuf,
    scratch: PathBuf,
    loaded: Option<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    arrays: Arrays,
    /// Person by key, as a reader by key needs it.
    keys: HashMap<String, u32>,
    search: Search,
}

impl Limit {
    /// Loops over the files in `data`; writes go to `scratch`.
    pub fn new(data: &Path, scratch: &Path) -> Self {
        Self {
            data: data.to_owned(),
            scratch: scratch.to_owned(),
            loaded: None,
        }
    }

    /// Times a job; `None` if arrays have no counterpart.
    pub fn run(&mut self, job: Job, questions: &Questions) -> Result<Option<Measured>> {
        if job == Job::Load {
            return self.load().map(Some);
        }
        let Some(loaded) = &mut self.loaded else {
            bail!("load first");
        };
        let Loaded {
            arrays,
            keys,
            search,
        } = loaded;
        let timed = match job {
            Job::Load | Job::FirstTraversal | Job::WritesSynced | Job::ViewsKept => {
                return Ok(None);
            }
            Job::SingleReads => {
                let names: Vec<String> = questions
                    .keys
                    .iter()
                    .map(|&key| Network::key(key))
                    .collect();
                time_each(&names, |name| {
                    let person = *keys.get(name).context("a key that was not loaded")?;
                    black_box(arrays.text(person).to_vec());
                    Ok(())
                })?
            }
            Job::AggregateAge => time_each(0..5, |_| {
                black_box(arrays.age_counts());
                Ok(())
            })?,
            Job::Neighbors2 | Job::Neighbors2Keys | Job::Neighbors2Profiles => {
                time_each(&questions.starts, |&start| {
                    search.neighbours2(&arrays.out, start);
                    match job {
                        Job::Neighbors2 => drop(black_box(search.found.clone())),
                        Job::Neighbors2Keys => {
                            let keys = search.found.iter().map(|&person| Network::key(person));
                            black_box(keys.collect::<Vec<_>>());
                        }
                        _ => {
                            let mut texts = Vec::new();
                            for &person in &search.found {
                                texts.extend_from_slice(arrays.text(person));
                            }
                            black_box(texts);
                        }
                    }
                    Ok(())
                })?
            }
            Job::CountPaths2 => time_each(0..3, |_| {
                black_box(arrays.count_paths2());
                Ok(())
            })?,
            Job::ShortestPath | Job::NoPath => {
                let rows = [&arrays.out, &arrays.into];
                let pairs: Vec<PathQuery> = match job {
                    Job::ShortestPath => questions.pairs.clone(),
                    _ => questions.apart.into_iter().collect(),
                };
                let repeated: Vec<&PathQuery> = (0..5).flat_map(|_| &pairs).collect();
                time_each(repeated, |pair| {
                    let found = search.path(rows, pair.source, pair.target);
                    let length = found.map(|path| path.len() as u32 - 1);
                    if length != pair.distance {
                        bail!(
                            "the search from both ends found {length:?}, the one from the start {:?}",
                            pair.distance
                        );
                    }
                    Ok(())
                })?
            }
            Job::WritesBuffered => append(arrays, questions.writes, &self.scratch)?,
        };
        let asked = match job {
            Job::AggregateAge | Job::CountPaths2 | Job::NoPath => 1,
            Job::ShortestPath => questions.pairs.len() as u64,
            _ => timed.count(),
        };
        Ok(Some(Measured {
            timed,
            questions: asked,
            answer: arrays.answer(job, questions),
            ..Measured::default()
        }))
    }

    fn load(&mut self) -> Result<Measured> {
        self.loaded = None;
        let watch = Stopwatch::start();
        let arrays = Arrays::of_files(&self.data)?;
        let people = arrays.out.people();
        let keys = (0..people)
            .map(|person| (Network::key(person), person))
            .collect();
        let timed = watch.timed();
        let answer = vec![format!(
            "{people} people, {} relationships",
            arrays.out.targets().len()
        )];
        self.loaded = Some(Loaded {
            search: Search::new(people),
            arrays,
            keys,
        });
        Ok(Measured {
            timed,
            questions: 1,
            answer,
            ..Measured::default()
        })
    }
}

/// One write per profile, one sync at the end, which is added to the last write.
fn append(arrays: &Arrays, writes: usize, folder: &Path) -> Result<Timed> {
    let path = folder.join("appended.jsonl");
    let mut file = File::create(&path)?;
    let mut timed = time_each(0..writes as u32, |number| {
        Ok(file.write_all(arrays.text(number % arrays.out.people()))?)
    })?;
    let start = Instant::now();
    file.sync_data()?;
    timed.wall += start.elapsed();
    fs::remove_file(path)?;
    Ok(timed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::DEFAULT_SEED;

    fn network() -> Network {
        Network::of_people(600, DEFAULT_SEED)
    }

    #[test]
    fn neighbours_are_those_at_distance_one_and_two() {
        let network = network();
        let rows = network.rows();
        let mut search = Search::new(600);
        for start in 0..600 {
            search.neighbours2(&rows, start);
            let mut found = search.found.clone();
            found.sort_unstable();
            let near: Vec<u32> = (0..)
                .zip(rows.distances(start))
                .filter(|(_, distance)| (1..=2).contains(distance))
                .map(|(person, _)| person)
                .collect();
            assert_eq!(found, near);
        }
    }

    #[test]
    fn paths_from_both_ends_are_as_short_as_those_from_one() {
        let network = network();
        let arrays = Arrays::of_network(&network, false);
        let mut search = Search::new(600);
        let mut without = 0;
        for from in (0..600).step_by(13) {
            let distances = arrays.out.distances(from);
            for to in (0..600).filter(|&to| to != from) {
                let path = search.path([&arrays.out, &arrays.into], from, to);
                let length = path.as_ref().map_or(u32::MAX, |path| path.len() as u32 - 1);
                assert_eq!(length, distances[to as usize], "from {from} to {to}");
                let steps = path.iter().flat_map(|path| path.windows(2));
                for step in steps {
                    assert!(arrays.out.of(step[0]).contains(&step[1]));
                }
                without += u32::from(path.is_none());
            }
        }
        assert!(without > 0, "some pairs are apart");
    }

    #[test]
    fn files_give_the_same_answers_as_the_network() {
        let network = network();
        let folder = tempfile::tempdir().expect("a folder");
        crate::files::write_files(&network, folder.path()).expect("the files are written");
        let questions = Questions::draw(&network);
        let arrays = Arrays::of_network(&network, true);
        let read = Arrays::of_files(folder.path()).expect("the files are read");
        let mut limit = Limit::new(folder.path(), folder.path());
        for job in Job::ALL {
            let answer = arrays.answer(job, &questions);
            assert_eq!(answer, read.answer(job, &questions), "{}", job.name());
            if let Some(measured) = limit.run(job, &questions).expect("the loop runs") {
                assert_eq!(answer, measured.answer, "{}", job.name());
                assert!(measured.timed.count() > 0, "{}", job.name());
            }
        }
        assert_eq!(arrays.text(3), read.text(3).trim_ascii_end());
    }
}
