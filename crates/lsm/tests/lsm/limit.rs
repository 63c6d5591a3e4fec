//! Flushes and compactions keep to the rate limit, measured by the simulated clock; commits do not wait for
//! them.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use isomer_lsm::{LsmEngine, LsmOptions};
use isomer_storage::{Durability, Engine, conformance::Random};
use isomer_vfs::{Disk, OpenMode, SimDisk, SimTime, Time};

const RATE: u64 = 1 << 20;

fn options(disk: &SimDisk, time: &SimTime, limit: Option<u64>) -> LsmOptions {
    LsmOptions {
        disk: Arc::new(disk.clone()),
        time: Arc::new(time.clone()),
        background_bytes_per_second: limit,
        memtable_bytes: 16 << 20,
        cache_bytes: 4 << 20,
        background: false,
        ..LsmOptions::default()
    }
}

/// Commits this many kilobytes of incompressible data.
fn fill(engine: &LsmEngine, kilobytes: u32, random: &mut Random) {
    for _ in 0..kilobytes {
        let value: Vec<u8> = (0..125)
            .flat_map(|_| random.number().to_le_bytes())
            .collect();
        let mut transaction = engine.begin().expect("begins");
        transaction
            .put(&random.number().to_be_bytes(), &value)
            .expect("put");
        transaction.commit(Durability::Buffered).expect("commits");
    }
}

fn table_bytes(disk: &SimDisk) -> u64 {
    let folder = Path::new("/db/tables");
    let names = disk.list(folder).expect("a folder");
    names
        .iter()
        .filter(|name| name.extension().is_some())
        .map(|name| {
            let file = disk
                .open(&folder.join(name), OpenMode::Read)
                .expect("opens");
            file.len().expect("a length")
        })
        .sum()
}

/// Seconds that `work` takes by the simulated clock.
fn seconds(time: &SimTime, work: impl FnOnce()) -> f64 {
    let before = time.now();
    work();
    (time.now() - before).as_secs_f64()
}

#[test]
fn flushes_and_merges_keep_to_the_limit() {
    let (disk, time) = (SimDisk::new(), SimTime::default());
    let engine = LsmEngine::open("/db", options(&disk, &time, Some(RATE))).expect("opens");
    let random = &mut Random(7);
    let mut written = 0.0;
    for _ in 0..3 {
        assert_eq!(seconds(&time, || fill(&engine, 2000, random)), 0.0);
        let taken = seconds(&time, || engine.flush().expect("flushed"));
        let bytes = table_bytes(&disk) as f64 - written;
        written += bytes;
        let least = bytes / RATE as f64 - 0.2;
        assert!(
            (least..least + 0.4).contains(&taken),
            "{bytes} bytes were flushed in {taken} s"
        );
    }
    let taken = seconds(&time, || engine.compact_all().expect("merged"));
    let least = table_bytes(&disk) as f64 / RATE as f64 - 0.2;
    assert!(
        (least..least + 1.0).contains(&taken),
        "{least} s of bytes were merged in {taken} s"
    );
}

#[test]
fn bulk_loads_keep_to_the_limit() {
    let (disk, time) = (SimDisk::new(), SimTime::default());
    let engine = LsmEngine::open("/db", options(&disk, &time, Some(RATE))).expect("opens");
    let mut random = Random(11);
    let mut pairs = (0..6000u32).map(|number| {
        // Every third value goes into a blob file.
        let words = if number % 3 == 0 { 300 } else { 60 };
        let value: Vec<u8> = (0..words)
            .flat_map(|_| random.number().to_le_bytes())
            .collect();
        Ok((number.to_be_bytes().to_vec(), value))
    });
    let taken = seconds(&time, || {
        engine.ingest(&mut pairs, None).expect("loaded");
    });
    let least = table_bytes(&disk) as f64 / RATE as f64 - 0.2;
    assert!(
        least > 4.0 && (least..least + 0.5).contains(&taken),
        "{least} s of bytes were loaded in {taken} s"
    );
}

#[test]
fn without_a_limit_there_are_no_waits() {
    let (disk, time) = (SimDisk::new(), SimTime::default());
    let engine = LsmEngine::open("/db", options(&disk, &time, None)).expect("opens");
    fill(&engine, 2000, &mut Random(8));
    engine.flush().expect("flushed");
    engine.compact_all().expect("merged");
    assert_eq!(time.now(), Duration::ZERO);
}

/// A compaction that would take hours at the limit ends when the database is closed.
#[test]
fn closing_does_not_wait_for_the_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = LsmOptions {
        background_bytes_per_second: Some(1000),
        memtable_bytes: 256 << 10,
        cache_bytes: 4 << 20,
        ..LsmOptions::default()
    };
    let engine = LsmEngine::open(folder.path().join("db"), options).expect("opens");
    fill(&engine, 300, &mut Random(9));
    let begun = Instant::now();
    drop(engine);
    assert!(begun.elapsed() < Duration::from_secs(20), "{begun:?}");
    let again = LsmEngine::open(folder.path().join("db"), LsmOptions::default());
    let statistics = again.expect("opens").statistics().expect("statistics");
    assert_eq!(statistics.key_count, 300);
}
