//! Speed and size of tables alone: `cargo run --profile quick --example tables -p isomer-lsm -- [PAIRS] [FOLDER]`.
//!
//! Writes pairs of 36-byte UUID keys and values as memtables would, merges them, reads them; prints a line for
//! each. Times are processor times of the thread.

use std::{ops::ControlFlow, path::PathBuf, sync::Arc};

use isomer_lsm::{BlockCache, Memtable, MergeCursor, RangeTombstones, Readable, Tree, TreeOptions};
use isomer_storage::{KeyRange, Order};
use isomer_vfs::RealDisk;

const PER_MEMTABLE: u64 = 300_000;
const GETS: u64 = 1_000_000;

/// Processor time of this thread: other processes may be running.
struct Instant(f64);

impl Instant {
    fn now() -> Self {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let ns: f64 = text
            .split(' ')
            .next()
            .and_then(|ns| ns.parse().ok())
            .unwrap_or(0.0);
        Self(ns / 1e9)
    }

    fn seconds(&self) -> f64 {
        Self::now().0 - self.0
    }
}

fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn uuid(number: u64, out: &mut [u8; 36]) {
    let (mut high, mut low) = (mix(number), mix(!number));
    for (at, byte) in out.iter_mut().enumerate() {
        if [8, 13, 18, 23].contains(&at) {
            *byte = b'-';
            continue;
        }
        *byte = b"0123456789abcdef"[(high & 15) as usize];
        high = high >> 4 | low << 60;
        low >>= 4;
    }
}

fn rate(what: &str, count: u64, since: Instant) {
    let seconds = since.seconds();
    println!(
        "{what:<28} {:>9.0} k/s   {seconds:.2} s",
        count as f64 / seconds / 1e3
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let pairs: u64 = arguments
        .next()
        .map_or(Ok(10_000_000), |text| text.parse())?;
    let folder = arguments
        .next()
        .map_or_else(|| std::env::temp_dir().join("isomer-tables"), PathBuf::from);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let cache = BlockCache::new(128 << 20, None);
    let options = TreeOptions::new(Arc::new(RealDisk), folder.clone(), cache.clone());
    let (tree, _) = Tree::open(options, Arc::new(|_| ()))?;
    let horizon = |version| Readable {
        snapshots: Vec::new(),
        from: version,
    };
    let (mut key, mut value) = ([0; 36], [0; 36]);
    let (mut flushing, mut merging) = (0.0, 0.0);
    let mut version = 0;
    let mut at = 0;
    while at < pairs {
        let memtable = Arc::new(Memtable::new());
        {
            let mut committer = memtable.committer();
            for number in at..(at + PER_MEMTABLE).min(pairs) {
                version = 1 + number / 100;
                uuid(number, &mut key);
                uuid(number + (1 << 40), &mut value);
                committer.insert(&key, version, Some(&value));
            }
        }
        at = (at + PER_MEMTABLE).min(pairs);
        let started = Instant::now();
        let cursors = vec![memtable.cursor()];
        tree.flush(
            cursors,
            &RangeTombstones::new(),
            version,
            1,
            &horizon(version),
        )?;
        flushing += started.seconds();
        let started = Instant::now();
        while tree.needs_compaction() {
            tree.compact_once(&horizon(version))?;
        }
        merging += started.seconds();
    }
    println!(
        "flush {:>9.0} k/s, merges on the way {merging:.2} s",
        pairs as f64 / flushing / 1e3
    );
    let levels = tree.current();
    println!("{:?}", levels.statistics());
    read(&levels, pairs, version, "many runs")?;
    drop(levels);
    let started = Instant::now();
    tree.compact_all(&horizon(version))?;
    rate("merge of all", pairs, started);
    let levels = tree.current();
    println!("{:?}", levels.statistics());
    println!(
        "{:.2} bytes a pair",
        levels.file_bytes() as f64 / pairs as f64
    );
    read(&levels, pairs, version, "one run")?;
    let few = 200_000.min(pairs);
    for _ in 0..2 {
        let started = Instant::now();
        for number in 0..GETS {
            uuid(mix(number) % few / 100 * 100, &mut key);
            assert!(levels.get(&key, version)?.is_some());
        }
        rate("gets, in the cache", GETS, started);
    }
    println!(
        "cache: {:?} MiB {} pinned KiB {}",
        cache.hits_and_misses(),
        cache.used_bytes() >> 20,
        cache.pinned_bytes() >> 10
    );
    drop(levels);
    drop(tree);
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn read(
    levels: &isomer_lsm::Levels,
    pairs: u64,
    version: u64,
    what: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    for _ in 0..2 {
        let started = Instant::now();
        let mut cursor = MergeCursor::new(
            levels.cursors(&[], None)?,
            vec![levels.range_tombstones().clone()],
            version,
        );
        let (mut count, mut sum) = (0_u64, 0_u64);
        let range = KeyRange {
            start: &[],
            end: None,
        };
        cursor.visit(range, Order::Ascending, &mut |key, value| {
            count += 1;
            sum += u64::from(key[3]) + u64::from(value[7]);
            ControlFlow::Continue(())
        })?;
        assert_eq!(count, pairs);
        rate(&format!("scan, {what}"), count + sum / u64::MAX, started);
    }
    let mut key = [0; 36];
    for _ in 0..2 {
        let started = Instant::now();
        for number in 0..GETS {
            uuid(mix(number ^ 0x5555) % pairs, &mut key);
            assert!(levels.get(&key, version)?.is_some());
        }
        rate(&format!("gets, {what}"), GETS, started);
    }
    let started = Instant::now();
    for number in 0..GETS {
        uuid(pairs + number, &mut key);
        assert!(levels.get(&key, version)?.is_none());
    }
    rate(&format!("misses, {what}"), GETS, started);
    Ok(())
}
