//! The benchmark `core`: load, point reads, neighbours, an aggregate, single writes. Latencies are medians;
//! means, high percentiles and maxima go to the notes.

use std::{
    path::Path,
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use isomer_db::{Database, Sharing, internals::DatabaseInternals as _, params};

use crate::{
    Network,
    load::{load_friendships, load_people},
    measure::{mib, micros, peak_memory, reset_peak_memory},
    network::DEFAULT_SEED,
    random::Random,
    report::{Case, Report},
};

const NAME: &str = "core";
const POINT_READS: usize = 50_000;
const NEIGHBOURS: usize = 500;
const AGGREGATES: usize = 7;
/// Duration of the single-write measurement; shorter at the scale of a test.
const WRITING_TIME: Duration = Duration::from_secs(3);
const SHORT_WRITING_TIME: Duration = Duration::from_millis(300);
const TEST_SCALE: f64 = 0.005;
const WRITERS: usize = 20;

/// Runs every case on a new database in `folder`. With `sharing` it is opened again in that way once it is loaded: a
/// shared database takes no large load.
pub fn run(
    folder: &Path,
    scale: f64,
    sharing: Option<Sharing>,
    report: &mut dyn Report,
) -> Result<()> {
    report.stage("making the network");
    let network = Network::at_scale(scale, DEFAULT_SEED);
    let path = folder.join("core");
    let mut db = Database::open(&path)?;
    import(&db, &network, report)?;
    if let Some(sharing) = sharing {
        db.close()?;
        db = Database::builder().sharing(sharing).open(&path)?;
    }
    point_reads(&db, &network, report)?;
    neighbours(&db, &network, report)?;
    aggregate(&db, &network, report)?;
    for writers in [1, WRITERS] {
        let time = if scale < TEST_SCALE {
            SHORT_WRITING_TIME
        } else {
            WRITING_TIME
        };
        synced_writes(&db, writers, time, report)?;
    }
    db.close()?;
    Ok(())
}

/// Profiles and relationships, from memory to a commit on disk.
fn import(db: &Database, network: &Network, report: &mut dyn Report) -> Result<()> {
    reset_peak_memory();
    report.stage("loading profiles");
    let start = Instant::now();
    let people = load_people(db, network, &mut ())?;
    let people_time = start.elapsed();
    report.note(&format!("{people} profiles in {people_time:.2?}"));
    report.stage("loading relationships");
    let relationships = load_friendships(db, network, &mut ())?;
    let time = start.elapsed();
    report.note(&format!(
        "{relationships} relationships in {:.2?}",
        time - people_time
    ));
    let n = relationships + people;
    // The time of both loads together, as a user experiences it.
    report.case(Case {
        bench: NAME,
        case: "import_relationships_per_s".into(),
        value: relationships as f64 / time.as_secs_f64(),
        unit: "relationships/s",
        n,
    });
    let peak_bytes =
        peak_memory().context("/proc/self/status does not report the peak memory here")?;
    report.case(Case {
        bench: NAME,
        case: "import_peak_rss_mib".into(),
        value: mib(peak_bytes),
        unit: "MiB",
        n,
    });
    Ok(())
}

/// Whole documents by key, through a prepared query.
fn point_reads(db: &Database, network: &Network, report: &mut dyn Report) -> Result<()> {
    report.stage("reading single documents");
    let read = db.prepare("MATCH (p:Person {_key: $key}) RETURN p")?;
    let mut random = Random::new(1);
    let keys: Vec<String> = (0..POINT_READS)
        .map(|_| Network::key(random.below(network.people() as usize) as u32))
        .collect();
    for key in keys.iter().take(POINT_READS / 10) {
        read.query([("key", key.as_str())])?;
    }
    let mut times = Vec::with_capacity(keys.len());
    for key in &keys {
        let start = Instant::now();
        let found = read.query([("key", key.as_str())])?;
        times.push(start.elapsed());
        assert_eq!(found.len(), 1, "every key that is read was loaded");
    }
    report.note(&spread("point read", &mut times));
    report.case(Case {
        bench: NAME,
        case: "point_read_us".into(),
        value: micros(median(&times)),
        unit: "us",
        n: times.len() as u64,
    });
    Ok(())
}

/// The distinct ids two hops from one person.
fn neighbours(db: &Database, network: &Network, report: &mut dyn Report) -> Result<()> {
    report.stage("neighbours of neighbours");
    let query = db.prepare(
        "MATCH (p:Person {_key: $key})-[:FRIEND]->()-[:FRIEND]->(n) RETURN DISTINCT id(n) AS id",
    )?;
    let mut random = Random::new(2);
    let keys: Vec<String> = (0..NEIGHBOURS)
        .map(|_| Network::key(random.below(network.people() as usize) as u32))
        .collect();
    for key in keys.iter().take(NEIGHBOURS / 10) {
        query.query([("key", key.as_str())])?;
    }
    let (mut times, mut found) = (Vec::with_capacity(keys.len()), 0);
    for key in &keys {
        let start = Instant::now();
        found += query.query([("key", key.as_str())])?.len();
        times.push(start.elapsed());
    }
    report.note(&format!(
        "{}; {} ids on average",
        spread("2 hops", &mut times),
        found / keys.len()
    ));
    report.case(Case {
        bench: NAME,
        case: "neighbors2_us".into(),
        value: micros(median(&times)),
        unit: "us",
        n: times.len() as u64,
    });
    Ok(())
}

/// The number of people per age.
fn aggregate(db: &Database, network: &Network, report: &mut dyn Report) -> Result<()> {
    report.stage("counting ages");
    let query = db.prepare("MATCH (p:Person) RETURN p.AGE AS age, count(*) AS people")?;
    let mut times = Vec::with_capacity(AGGREGATES);
    for round in 0..=AGGREGATES {
        let start = Instant::now();
        let ages = query.query(())?;
        let time = start.elapsed();
        let people = ages
            .iter()
            .map(|row| row.get::<u64>("people"))
            .sum::<isomer_db::Result<u64>>()?;
        assert_eq!(
            people,
            u64::from(network.people()),
            "everybody is counted once"
        );
        if round > 0 {
            times.push(time);
        }
    }
    report.note(&spread("count per AGE", &mut times));
    report.case(Case {
        bench: NAME,
        case: "aggregate_age_ms".into(),
        value: micros(median(&times)) / 1e3,
        unit: "ms",
        n: times.len() as u64,
    });
    Ok(())
}

/// One small document per transaction, durable when its commit returns.
fn synced_writes(
    db: &Database,
    writers: usize,
    writing_time: Duration,
    report: &mut dyn Report,
) -> Result<()> {
    report.stage(&format!("synced writes, {writers} at once"));
    let write = db.prepare("CREATE (:Event {writer: $writer, number: $number})")?;
    write.query(params! { "writer" => -1, "number" => 0 })?;
    let before = db.store()?.engine().statistics()?;
    let (stop, written, ready) = (
        AtomicBool::new(false),
        AtomicU64::new(0),
        Barrier::new(writers + 1),
    );
    let time = std::thread::scope(|scope| -> Result<Duration> {
        let work = |writer: usize| -> Result<()> {
            ready.wait();
            let mut number = 0i64;
            while !stop.load(Ordering::Relaxed) {
                write.query(params! { "writer" => writer as i64, "number" => number })?;
                number += 1;
                written.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let threads: Vec<_> = (0..writers)
            .map(|writer| scope.spawn(move || work(writer)))
            .collect();
        ready.wait();
        let start = Instant::now();
        std::thread::sleep(writing_time);
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a writer panicked"))??;
        }
        Ok(start.elapsed())
    })?;
    let after = db.store()?.engine().statistics()?;
    let written = written.into_inner();
    let (commits, syncs) = (after.commits - before.commits, after.syncs - before.syncs);
    report.note(&format!(
        "{written} writes, {commits} commits in {syncs} syncs: {:.1} a sync",
        commits as f64 / syncs.max(1) as f64
    ));
    let case = if writers == 1 {
        "synced_writes_per_s_1"
    } else {
        "synced_writes_per_s_20"
    };
    report.case(Case {
        bench: NAME,
        case: case.into(),
        value: written as f64 / time.as_secs_f64(),
        unit: "writes/s",
        n: written,
    });
    Ok(())
}

fn mean(times: &[Duration]) -> Duration {
    times.iter().sum::<Duration>() / times.len().max(1) as u32
}

/// The median of sorted times, which other load on the machine hardly affects.
fn median(times: &[Duration]) -> Duration {
    debug_assert!(times.is_sorted(), "the median of times that are not sorted");
    times[times.len() / 2]
}

/// Sorts the times and describes their distribution.
fn spread(what: &str, times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    format!(
        "{what}: mean {:.1?}, median {:.1?}, 99% {:.1?}, worst {:.1?}",
        mean(times),
        at(0.5),
        at(0.99),
        at(1.0)
    )
}
