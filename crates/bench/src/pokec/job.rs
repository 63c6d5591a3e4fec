//! The measured jobs, and the names of their metrics.

use crate::{
    measure::{Timed, micros, millis},
    report::Case,
};

/// The name of the benchmark.
pub const NAME: &str = "pokec";

/// Something to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// All profiles and relationships, from rows to a durable commit.
    Load,
    /// Opening the database, and the neighbours of one person.
    FirstTraversal,
    /// Whole profiles by key, one query each.
    SingleReads,
    /// The number of people per age.
    AggregateAge,
    /// The distinct people at one or two hops, as the system's ids.
    Neighbors2,
    /// The same, as their keys.
    Neighbors2Keys,
    /// The same, as their whole profiles.
    Neighbors2Profiles,
    /// The number of paths of two relationships.
    CountPaths2,
    /// Shortest paths between connected people.
    ShortestPath,
    /// The search for a path that does not exist.
    NoPath,
    /// New profiles, one transaction each, durable after the last one.
    WritesBuffered,
    /// New profiles from 16 writers, one transaction each, durable when it returns.
    WritesSynced,
    /// New people, each with a relationship from an existing one, with views of people and relationships and
    /// without.
    ViewsKept,
}

/// The time and result of a job.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The counted runs.
    pub timed: Timed,
    /// The first run, if it differs from the later ones.
    pub first: Option<Timed>,
    /// Number of queries; the runs may execute each several times.
    pub questions: u64,
    /// One line per query, or one line per row of the result.
    pub answer: Vec<String>,
    /// Additional notes.
    pub notes: Vec<String>,
    /// Further metrics: name, value, unit.
    pub figures: Vec<(&'static str, f64, &'static str)>,
}

impl Job {
    /// All jobs, in an order in which they can run: reads before writes.
    pub const ALL: [Self; 13] = [
        Self::Load,
        Self::FirstTraversal,
        Self::SingleReads,
        Self::AggregateAge,
        Self::Neighbors2,
        Self::Neighbors2Keys,
        Self::Neighbors2Profiles,
        Self::CountPaths2,
        Self::ShortestPath,
        Self::NoPath,
        Self::WritesBuffered,
        Self::WritesSynced,
        Self::ViewsKept,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "import",
            Self::FirstTraversal => "open_to_first_traversal",
            Self::SingleReads => "single_reads",
            Self::AggregateAge => "aggregate_age",
            Self::Neighbors2 => "neighbors2",
            Self::Neighbors2Keys => "neighbors2_keys",
            Self::Neighbors2Profiles => "neighbors2_profiles",
            Self::CountPaths2 => "count_paths2",
            Self::ShortestPath => "shortest_path",
            Self::NoPath => "no_path",
            Self::WritesBuffered => "single_writes_buffered",
            Self::WritesSynced => "single_writes_synced",
            Self::ViewsKept => "writes_with_views",
        }
    }

    /// The job with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|job| job.name() == name)
    }

    /// A description for display.
    pub fn says(self) -> &'static str {
        match self {
            Self::Load => "loading",
            Self::FirstTraversal => "opening again",
            Self::SingleReads => "reading single profiles",
            Self::AggregateAge => "counting ages",
            Self::Neighbors2 => "neighbours of neighbours, ids",
            Self::Neighbors2Keys => "neighbours of neighbours, keys",
            Self::Neighbors2Profiles => "neighbours of neighbours, profiles",
            Self::CountPaths2 => "counting paths of two steps",
            Self::ShortestPath => "shortest paths",
            Self::NoPath => "a path that does not exist",
            Self::WritesBuffered => "writing single profiles, synced at the end",
            Self::WritesSynced => "writing single profiles, 16 writers, each synced",
            Self::ViewsKept => "writing with views and without",
        }
    }

    /// The metrics of this job.
    pub fn cases(self, measured: &Measured) -> Vec<Case> {
        let timed = &measured.timed;
        let (n, name) = (timed.count(), self.name());
        // A pass over all queries; the counted runs may be several passes.
        let passes = (n / measured.questions.max(1)).max(1);
        let pass_s = timed.wall.as_secs_f64() / passes as f64;
        let (p50, p99) = (timed.percentile(0.5), timed.percentile(0.99));
        let case = |suffix: &str, value: f64, unit| {
            Case::new(NAME, format!("{name}_{suffix}"), value, unit, n)
        };
        let mut cases = match self {
            Self::Load | Self::Neighbors2Profiles | Self::WritesSynced => {
                vec![case("s", pass_s, "s")]
            }
            Self::SingleReads | Self::WritesBuffered | Self::ViewsKept => vec![
                case("s", pass_s, "s"),
                case("p50_us", micros(p50), "us"),
                case("p99_us", micros(p99), "us"),
            ],
            Self::FirstTraversal | Self::AggregateAge | Self::CountPaths2 => {
                vec![case("ms", millis(p50), "ms")]
            }
            Self::NoPath => vec![case("p99_us", micros(p99), "us")],
            Self::Neighbors2 | Self::Neighbors2Keys | Self::ShortestPath => {
                vec![
                    case("p50_us", micros(p50), "us"),
                    case("p99_us", micros(p99), "us"),
                ]
            }
        };
        if let Some(first) = &measured.first {
            cases.push(case("first_ms", millis(first.wall), "ms"));
        }
        cases.push(case("cpu_s", timed.cpu.as_secs_f64() / passes as f64, "s"));
        cases.extend(
            measured
                .figures
                .iter()
                .map(|&(figure, value, unit)| case(figure, value, unit)),
        );
        cases
    }
}
