//! Writes a network as files, for imports and for comparisons with other databases.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use crate::{network::Network, profile::write_json, random::Random};

/// Number of keys in `keys.txt`.
pub const KEY_QUERIES: usize = 100_000;
/// Number of connected pairs in `pairs.tsv`; one unconnected pair follows.
pub const PAIR_QUERIES: usize = 19;

/// Writes into the existing `folder`:
/// - `profiles.jsonl`: one profile per line, key in `_key`;
/// - `edges.tsv`: a `#` line, then source key, tab, target key, ordered by source;
/// - `keys.txt`: [`KEY_QUERIES`] keys to read, with repetitions;
/// - `pairs.tsv`: source key, target key, and their distance along the relationships: [`PAIR_QUERIES`] connected
///   pairs and one without a path (distance -1).
pub fn write_files(network: &Network, folder: &Path) -> io::Result<()> {
    write_file(&folder.join("profiles.jsonl"), |out| {
        write_profiles(network, out)
    })?;
    write_file(&folder.join("edges.tsv"), |out| write_edges(network, out))?;
    write_file(&folder.join("keys.txt"), |out| {
        let mut random = Random::for_item(network.seed(), 3, 0);
        (0..KEY_QUERIES).try_for_each(|_| {
            writeln!(
                out,
                "{}",
                Network::key(random.below(network.people() as usize) as u32)
            )
        })
    })?;
    write_file(&folder.join("pairs.tsv"), |out| {
        path_queries(network, PAIR_QUERIES)
            .into_iter()
            .try_for_each(|query| {
                let distance = query.distance.map_or(-1, i64::from);
                writeln!(
                    out,
                    "{}\t{}\t{distance}",
                    Network::key(query.source),
                    Network::key(query.target)
                )
            })
    })
}

/// Profiles as lines of JSON.
pub fn write_profiles(network: &Network, out: &mut dyn Write) -> io::Result<()> {
    let mut line = String::new();
    for person in 0..network.people() {
        line.clear();
        write_json(&network.profile(person), &mut line);
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

/// Relationships as lines of two keys.
pub fn write_edges(network: &Network, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "# source\ttarget ({} people, {} relationships, seed {})",
        network.people(),
        network.edges().len(),
        network.seed()
    )?;
    for &(source, target) in network.edges() {
        writeln!(
            out,
            "P{}\tP{}",
            u64::from(source) + 1,
            u64::from(target) + 1
        )?;
    }
    Ok(())
}

/// A query for the length of the shortest path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathQuery {
    /// The start.
    pub source: u32,
    /// The end.
    pub target: u32,
    /// The expected length; `None` if there is no path.
    pub distance: Option<u32>,
}

/// `connected` random pairs joined by a path, then one without a path (if the network has one).
pub fn path_queries(network: &Network, connected: usize) -> Vec<PathQuery> {
    let rows = network.rows();
    let mut random = Random::for_item(network.seed(), 4, 0);
    let mut queries = Vec::with_capacity(connected + 1);
    let mut without: Option<PathQuery> = None;
    for _try in 0..50 * (connected + 1) {
        if queries.len() == connected && without.is_some() {
            break;
        }
        let (source, target) = (
            random.below(network.people() as usize) as u32,
            random.below(network.people() as usize) as u32,
        );
        let distances = rows.distances(source);
        let reached = distances
            .iter()
            .filter(|&&distance| distance != u32::MAX)
            .count();
        // A search from a person without outgoing relationships ends at once: choose a hard unconnected pair.
        if source == target || reached * 2 < distances.len() {
            continue;
        }
        match distances[target as usize] {
            u32::MAX => {
                without = without.or(Some(PathQuery {
                    source,
                    target,
                    distance: None,
                }))
            }
            distance if queries.len() < connected => queries.push(PathQuery {
                source,
                target,
                distance: Some(distance),
            }),
            _ => {}
        }
    }
    queries.extend(without);
    queries
}

fn write_file(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    fill(&mut out)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::DEFAULT_SEED;

    #[test]
    fn files_hold_what_the_network_holds() {
        let network = Network::of_people(500, DEFAULT_SEED);
        let folder = tempfile::tempdir().expect("a temporary folder");
        write_files(&network, folder.path()).expect("files are written");
        let lines = |name: &str| {
            std::fs::read_to_string(folder.path().join(name))
                .expect("the file is there")
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(lines("profiles.jsonl").len(), 500);
        let edges = lines("edges.tsv");
        assert_eq!(edges.len(), network.edges().len() + 1);
        let (source, target) = network.edges()[0];
        assert_eq!(edges[1], format!("P{}\tP{}", source + 1, target + 1));
        assert_eq!(lines("keys.txt").len(), KEY_QUERIES);
        let pairs = lines("pairs.tsv");
        assert_eq!(pairs.len(), PAIR_QUERIES + 1);
        assert!(pairs[PAIR_QUERIES].ends_with("\t-1"), "{pairs:?}");
    }

    #[test]
    fn distances_of_path_queries_are_those_of_a_search() {
        let network = Network::of_people(800, 5);
        let rows = network.rows();
        let queries = path_queries(&network, 6);
        assert_eq!(queries.len(), 7);
        for query in queries {
            let distance = rows.distances(query.source)[query.target as usize];
            assert_eq!(query.distance, (distance != u32::MAX).then_some(distance));
        }
    }
}
