//! The parameters of the queries, and the reference results.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{
    Network,
    files::{PAIR_QUERIES, PathQuery, path_queries},
    pokec::{
        arrays::Arrays,
        job::{Job, Measured},
    },
    profile::Field,
    random::Random,
};

/// Single reads and single writes of the whole benchmark.
pub const SINGLES: usize = 100_000;
/// Number of people whose neighbours are queried.
pub const STARTS: usize = 500;
/// From this number of people on, all queries are run; below it fewer.
const ALL_QUESTIONS_PEOPLE: f64 = 16_000.0;

/// The queried people, as numbers.
#[derive(Clone, Debug)]
pub struct Questions {
    /// Number of people.
    pub people: u32,
    /// Profiles to read, with repetitions.
    pub keys: Vec<u32>,
    /// People whose neighbours are queried.
    pub starts: Vec<u32>,
    /// Connected pairs of people.
    pub pairs: Vec<PathQuery>,
    /// Two people without a path from the first to the second.
    pub apart: Option<PathQuery>,
    /// Number of profiles to write.
    pub writes: usize,
}

impl Questions {
    /// Draws the parameters from the network's seed.
    pub fn draw(network: &Network) -> Self {
        let share = (f64::from(network.people()) / ALL_QUESTIONS_PEOPLE).min(1.0);
        let count = |all: usize| ((all as f64 * share) as usize).max(20);
        let draw = |stream, count: usize| -> Vec<u32> {
            let mut random = Random::for_item(network.seed(), stream, 0);
            (0..count)
                .map(|_| random.below(network.people() as usize) as u32)
                .collect()
        };
        let (apart, pairs) = path_queries(network, PAIR_QUERIES)
            .into_iter()
            .partition::<Vec<_>, _>(|query| query.distance.is_none());
        Self {
            people: network.people(),
            keys: draw(3, count(SINGLES)),
            starts: draw(5, count(STARTS)),
            pairs,
            apart: apart.first().copied(),
            writes: count(SINGLES),
        }
    }

    /// Writes `keys.txt`, `starts.txt` (one key per line) and `pairs.tsv` (two keys and their distance, -1
    /// for none) into `folder`.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let lines = |name: &str, lines: &mut dyn Iterator<Item = String>| -> Result<()> {
            let mut out = BufWriter::new(File::create(folder.join(name))?);
            for line in lines {
                writeln!(out, "{line}")?;
            }
            Ok(out.flush()?)
        };
        let key = |&person: &u32| Network::key(person);
        lines("keys.txt", &mut self.keys.iter().map(key))?;
        lines("starts.txt", &mut self.starts.iter().map(key))?;
        let pairs = self.pairs.iter().chain(&self.apart).map(|pair| {
            let distance = pair.distance.map_or(-1, i64::from);
            format!("{}\t{}\t{distance}", key(&pair.source), key(&pair.target))
        });
        lines("pairs.tsv", &mut pairs.into_iter())
    }

    /// Reads the output of [`Questions::write`].
    pub fn read(folder: &Path) -> Result<Self> {
        let text = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))
        };
        let people = |name: &str| text(name)?.lines().map(person).collect::<Result<Vec<_>>>();
        let mut pairs = Vec::new();
        for line in text("pairs.tsv")?.lines() {
            let mut parts = line.split('\t');
            let mut next = || {
                parts
                    .next()
                    .with_context(|| format!("pairs.tsv: `{line}` has not three columns"))
            };
            let (source, target) = (person(next()?)?, person(next()?)?);
            let distance: i64 = next()?.parse()?;
            pairs.push(PathQuery {
                source,
                target,
                distance: u32::try_from(distance).ok(),
            });
        }
        let (apart, pairs) = pairs
            .into_iter()
            .partition::<Vec<PathQuery>, _>(|query| query.distance.is_none());
        let keys = people("keys.txt")?;
        let profiles = BufReader::new(File::open(folder.join("profiles.jsonl"))?);
        Ok(Self {
            people: u32::try_from(profiles.split(b'\n').count())?,
            writes: keys.len(),
            keys,
            starts: people("starts.txt")?,
            pairs,
            apart: apart.first().copied(),
        })
    }
}

/// The number of the person with `key`: 0 for `P1`.
pub fn person(key: &str) -> Result<u32> {
    key.strip_prefix('P')
        .and_then(|number| number.parse::<u32>().ok())
        .and_then(|number| number.checked_sub(1))
        .with_context(|| format!("invalid key `{key}`: keys of people are P1, P2 and so on"))
}

/// Checksum of profiles: a missing part of a profile changes the sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of profiles.
    pub count: u64,
    /// Sum of the numbers in their keys.
    pub keys: u64,
    /// Sum of their `AGE`s, if present.
    pub ages: u64,
    /// Sum of their `completion`s.
    pub completion: u64,
}

impl Tally {
    /// Adds a profile.
    pub fn add(&mut self, person: u32, age: Option<i64>, completion: i64) {
        self.count += 1;
        self.keys += u64::from(person) + 1;
        self.ages += age.unwrap_or(0).unsigned_abs();
        self.completion += completion.unsigned_abs();
    }

    /// As a line of an answer.
    pub fn line(&self) -> String {
        format!(
            "{} profiles, keys {}, ages {}, completion {}",
            self.count, self.keys, self.ages, self.completion
        )
    }
}

/// Checksum line of a set of people: their number, the sum of the numbers in their keys, and the sum of the
/// squares of these, modulo 2^64.
pub fn set_line(start: u32, people: impl IntoIterator<Item = u32>) -> String {
    let (mut count, mut sum, mut squares) = (0u64, 0u64, 0u64);
    for person in people {
        let number = u64::from(person) + 1;
        count += 1;
        sum = sum.wrapping_add(number);
        squares = squares.wrapping_add(number * number);
    }
    format!("{} {count} {sum} {squares}", Network::key(start))
}

/// A distance as a line of a result.
pub fn path_line(query: &PathQuery, distance: Option<u32>) -> String {
    let (from, to) = (Network::key(query.source), Network::key(query.target));
    match distance {
        Some(distance) => format!("{from} {to} {distance}"),
        None => format!("{from} {to} none"),
    }
}

/// Rounds of writes with views, and as many without.
pub const KEPT_ROUNDS: usize = 3;
/// One write of these per this many of the others.
const KEPT_SHARE: usize = 5;

impl Questions {
    /// Writes of each round with views or without.
    pub fn kept_writes(&self) -> usize {
        (self.writes / KEPT_SHARE).max(1)
    }
}

/// The state after [`Job::ViewsKept`].
pub fn kept_line(questions: &Questions) -> String {
    let all = 2 * KEPT_ROUNDS * questions.kept_writes();
    format!("{all} more people, {all} more relationships")
}

/// `AGE` and `completion` of a profile.
pub fn figures_of(profile: &crate::profile::Profile) -> (Option<i64>, i64) {
    let number = |name: &str| {
        profile.iter().find_map(|(field, value)| match value {
            Field::Int(number) if *field == name => Some(*number),
            _ => None,
        })
    };
    (number("AGE"), number("completion").unwrap_or(0))
}

/// The reference results, as lines.
#[derive(Clone, Debug)]
pub struct Answers(Vec<(Job, Vec<String>)>);

impl Answers {
    /// Computes them from the arrays.
    pub fn find(arrays: &Arrays, questions: &Questions) -> Result<Self> {
        Job::ALL
            .into_iter()
            .map(|job| Ok((job, arrays.answer(job, questions))))
            .collect::<Result<_>>()
            .map(Self)
    }

    /// Checks the result of `measured`.
    pub fn check(&self, job: Job, measured: &Measured) -> Result<()> {
        let right = self.0.iter().find(|(known, _)| *known == job);
        let (_, lines) = right.with_context(|| format!("{} has no answer", job.name()))?;
        compare(job.name(), lines, &measured.answer)
    }

    /// Writes them into `folder`: one file `answers/<job>.txt` per job.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let folder = folder.join("answers");
        fs::create_dir_all(&folder)?;
        for (job, lines) in &self.0 {
            let mut text = lines.join("\n");
            text.push('\n');
            fs::write(folder.join(format!("{}.txt", job.name())), text)?;
        }
        Ok(())
    }
}

/// Relationships on disk: pairs of 4-byte little-endian numbers (source, target), ascending.
#[derive(Debug)]
pub struct EdgeFile {
    path: PathBuf,
    count: u64,
}

const EDGE_BYTES: u64 = 8;

impl EdgeFile {
    /// Writes `edges`, which must be ascending.
    pub fn write(path: &Path, edges: Vec<(u32, u32)>) -> Result<Self> {
        let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        for (source, target) in &edges {
            out.write_all(&source.to_le_bytes())?;
            out.write_all(&target.to_le_bytes())?;
        }
        out.flush()?;
        Ok(Self {
            path: path.to_owned(),
            count: edges.len() as u64,
        })
    }

    /// Number of relationships.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All relationships in order.
    pub fn iter(&self) -> Result<impl Iterator<Item = std::io::Result<(u32, u32)>>> {
        let mut file = BufReader::with_capacity(1 << 20, File::open(&self.path)?);
        Ok((0..self.count).map(move |_| read_edge(&mut file)))
    }

    /// Whether a relationship from `source` to `target` exists: O(log n) reads.
    pub fn contains(&self, source: u32, target: u32) -> Result<bool> {
        let mut file = File::open(&self.path)?;
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            file.seek(SeekFrom::Start(middle * EDGE_BYTES))?;
            match read_edge(&mut file)?.cmp(&(source, target)) {
                std::cmp::Ordering::Equal => return Ok(true),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(false)
    }

    /// The length of a path of people; an error if a hop is not a relationship.
    pub fn path_length(&self, path: &[u32]) -> Result<u32> {
        for step in path.windows(2) {
            if !self.contains(step[0], step[1])? {
                bail!(
                    "a path goes from {} to {}, who are not neighbours",
                    Network::key(step[0]),
                    Network::key(step[1])
                );
            }
        }
        Ok(path.len().saturating_sub(1) as u32)
    }
}

fn read_edge(file: &mut impl Read) -> std::io::Result<(u32, u32)> {
    let mut bytes = [0; EDGE_BYTES as usize];
    file.read_exact(&mut bytes)?;
    let number =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Ok((number(0), number(4)))
}

/// Fails at the first line in which `found` differs from `wanted`.
pub(crate) fn compare(what: &str, wanted: &[String], found: &[String]) -> Result<()> {
    if let Some((wanted, found)) = wanted
        .iter()
        .zip(found)
        .find(|(wanted, found)| wanted != found)
    {
        bail!("{what}: the result is `{found}`, expected `{wanted}`");
    }
    if wanted.len() != found.len() {
        bail!("{what}: {} results, expected {}", found.len(), wanted.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::DEFAULT_SEED;

    #[test]
    fn questions_come_back_from_their_files() {
        let network = Network::of_people(300, DEFAULT_SEED);
        let folder = tempfile::tempdir().expect("a folder");
        crate::files::write_files(&network, folder.path()).expect("the files are written");
        let drawn = Questions::draw(&network);
        drawn
            .write(folder.path())
            .expect("the questions are written");
        let read = Questions::read(folder.path()).expect("the questions are read");
        assert_eq!(read.people, 300);
        assert_eq!((read.keys, read.starts), (drawn.keys, drawn.starts));
        assert_eq!((read.pairs, read.apart), (drawn.pairs, drawn.apart));
        assert_eq!(read.writes, drawn.writes);
    }

    #[test]
    fn relationships_are_found_in_their_file() {
        let network = Network::of_people(200, DEFAULT_SEED);
        let folder = tempfile::tempdir().expect("a folder");
        let edges = network.edges().to_vec();
        let file = EdgeFile::write(&folder.path().join("edges"), edges.clone()).expect("written");
        let read: Vec<_> = file
            .iter()
            .and_then(|edges| Ok(edges.collect::<Result<Vec<_>, _>>()?))
            .expect("read");
        assert_eq!(read, edges);
        for source in 0..200 {
            for target in (0..200).step_by(7) {
                assert_eq!(
                    file.contains(source, target).expect("looked up"),
                    edges.contains(&(source, target))
                );
            }
        }
        let (from, to) = edges[17];
        assert_eq!(file.path_length(&[from, to]).expect("a path"), 1);
        assert!(file.path_length(&[from, from]).is_err());
    }

    #[test]
    fn keys_are_numbers_from_one() {
        assert_eq!(person("P1").expect("a key"), 0);
        for bad in ["P0", "Q1", "P", "P-1", "1"] {
            assert!(person(bad).is_err(), "{bad}");
        }
    }
}
