//! Random histories over memtables in lists and tables on a simulated disk, compared with maps.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

use isomer_storage::{KeyRange, Order, StorageError, Version};
use isomer_vfs::{Disk, Loss, OpenMode, Seal, SimDisk};

use crate::{
    BlockCache, EntryCursor, EntryKind, Levels, MergeCursor, RangeTombstone, RangeTombstones,
    Readable, Recovered, RunCursor, TableOptions, Tree, TreeOptions,
};

type Entry = (Vec<u8>, Version, Option<Vec<u8>>);
type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A sorted list, or a run.
enum Source {
    List(Vec<Entry>, usize),
    Run(Box<RunCursor>),
}

macro_rules! each {
    ($self:ident, $run:ident => $a:expr, $list:ident, $at:ident => $b:expr) => {
        match $self {
            Source::Run($run) => $a,
            Source::List($list, $at) => $b,
        }
    };
}

impl EntryCursor for Source {
    fn seek(&mut self, key: &[u8], version: Version) -> Result<(), StorageError> {
        each!(self, run => run.seek(key, version), list, at => {
            *at = list.partition_point(|(k, v, _)| k[..].cmp(key).then(version.cmp(v)).is_lt());
            Ok(())
        })
    }

    fn seek_before(&mut self, key: Option<&[u8]>) -> Result<(), StorageError> {
        each!(self, run => run.seek_before(key), list, at => {
            let before = key.map_or(list.len(), |key| list.partition_point(|(k, ..)| k[..] < *key));
            *at = before.checked_sub(1).unwrap_or(list.len());
            Ok(())
        })
    }

    fn next(&mut self) -> Result<(), StorageError> {
        each!(self, run => run.next(), _list, at => {
            *at += 1;
            Ok(())
        })
    }

    fn prev(&mut self) -> Result<(), StorageError> {
        each!(self, run => run.prev(), list, at => {
            *at = at.checked_sub(1).unwrap_or(list.len());
            Ok(())
        })
    }

    fn valid(&self) -> bool {
        each!(self, run => run.valid(), list, at => *at < list.len())
    }

    fn key(&self) -> &[u8] {
        each!(self, run => run.key(), list, at => &list[*at].0)
    }

    fn version(&self) -> Version {
        each!(self, run => run.version(), list, at => list[*at].1)
    }

    fn kind(&self) -> EntryKind {
        each!(self, run => run.kind(), list, at => match list[*at].2 {
            Some(_) => EntryKind::Put,
            None => EntryKind::Delete,
        })
    }

    fn pair(&mut self) -> Result<(&[u8], &[u8]), StorageError> {
        each!(self, run => run.pair(), list, at => {
            let (key, _, value) = &list[*at];
            Ok((key, value.as_deref().unwrap_or_default()))
        })
    }

    fn next_key(&mut self) -> Result<(), StorageError> {
        if let Source::Run(run) = self {
            return run.next_key();
        }
        let key = self.key().to_vec();
        while self.valid() && self.key() == key {
            self.next()?;
        }
        Ok(())
    }

    fn pass(&mut self, until: Option<&[u8]>, deleted_at: Version) -> Result<bool, StorageError> {
        each!(self, run => run.pass(until, deleted_at), _list, _at => Ok(false))
    }

    fn pass_back(&mut self, from: &[u8], deleted_at: Version) -> Result<bool, StorageError> {
        each!(self, run => run.pass_back(from, deleted_at), _list, _at => Ok(false))
    }
}

struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}

const FOLDER: &str = "/db/tables";

fn options(disk: &SimDisk, seal: &Seal) -> TreeOptions {
    let mut options = TreeOptions::new(
        Arc::new(disk.clone()),
        PathBuf::from(FOLDER),
        BlockCache::new(200 << 10, None),
    );
    options.table = TableOptions {
        block_bytes: 300,
        filter_prefixes: vec![1],
        ..TableOptions::default()
    };
    options.table_bytes = 2500;
    options.slice_bytes = 9000;
    options.blob_threshold = 60;
    options.seal = seal.clone();
    let counter = std::sync::atomic::AtomicU64::new(7);
    options.random = Arc::new(move || {
        counter.fetch_add(0x9e37_79b9_7f4a_7c15, std::sync::atomic::Ordering::Relaxed)
    });
    options
}

fn open(disk: &SimDisk, seal: &Seal) -> Result<(Tree, Recovered), StorageError> {
    let (tree, recovered) = Tree::open(options(disk, seal), Arc::new(|_| ()))?;
    tree.remove_orphans(&recovered)?;
    Ok((tree, recovered))
}

struct History {
    random: Random,
    disk: SimDisk,
    seal: Seal,
    tree: Tree,
    version: Version,
    /// The memtable.
    entries: Vec<Entry>,
    range_tombstones: Vec<RangeTombstone>,
    state: Map,
    /// The pairs at each version that may be read.
    kept: BTreeMap<Version, Map>,
    snapshots: Vec<Version>,
    window: Version,
    keys: u64,
}

impl History {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::new();
        disk.make_folder("/db".as_ref()).unwrap();
        disk.sync_folder("/".as_ref()).unwrap();
        let seal = if seed.is_multiple_of(5) {
            Seal::ephemeral().unwrap()
        } else {
            Seal::plain()
        };
        let tree = open(&disk, &seal).unwrap().0;
        let mut random = Random::new(seed);
        Self {
            keys: 10 + random.below(400),
            random,
            disk,
            seal,
            tree,
            version: 0,
            entries: Vec::new(),
            range_tombstones: Vec::new(),
            state: Map::new(),
            kept: BTreeMap::from([(0, Map::new())]),
            snapshots: Vec::new(),
            window: 0,
        }
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.random.below(self.keys);
        format!("{}-{:05}", number % 7, number).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.random.below(12) {
            0 => 60 + self.random.below(400),
            _ => self.random.below(50),
        };
        let byte = self.random.below(256) as u8;
        (0..len)
            .map(|at| byte.wrapping_add((at / 9) as u8))
            .collect()
    }

    fn commit(&mut self) {
        self.version += 1;
        let version = self.version;
        if self.random.below(12) == 0 {
            let (start, end) = if self.random.below(2) == 0 {
                let group = self.random.below(7);
                (
                    format!("{group}-").into_bytes(),
                    Some(format!("{group}.").into_bytes()),
                )
            } else {
                let (a, b) = (self.key(), self.key());
                let open = self.random.below(10) == 0;
                (a.clone().min(b.clone()), (!open).then(|| a.max(b)))
            };
            self.state
                .retain(|key, _| *key < start || end.as_ref().is_some_and(|end| key >= end));
            self.range_tombstones.push(RangeTombstone {
                start: start.into(),
                end: end.map(Into::into),
                version,
            });
        }
        let deletes = self.random.below(4);
        for _ in 0..self.random.below(12) {
            let key = self.key();
            if self.entries.iter().any(|e| e.0 == key && e.1 == version) {
                continue;
            }
            let value = (self.random.below(4) >= deletes).then(|| self.value());
            match &value {
                Some(value) => self.state.insert(key.clone(), value.clone()),
                None => self.state.remove(&key),
            };
            self.entries.push((key, version, value));
        }
        self.kept.insert(version, self.state.clone());
        if self.random.below(5) > 0 {
            self.window = self
                .window
                .max(version.saturating_sub(self.random.below(20)));
        }
        let (window, snapshots) = (self.window, &self.snapshots);
        self.kept
            .retain(|version, _| *version >= window || snapshots.contains(version));
    }

    fn readable(&self) -> Readable {
        let mut snapshots = self.snapshots.clone();
        snapshots.sort_unstable();
        Readable {
            snapshots,
            from: self.window,
        }
    }

    fn memtable(&self) -> Source {
        let mut entries = self.entries.clone();
        entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        let at = entries.len();
        Source::List(entries, at)
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        let range_tombstones = RangeTombstones::of(self.range_tombstones.clone());
        let readable = self.readable();
        self.tree.flush(
            vec![self.memtable()],
            &range_tombstones,
            self.version,
            self.version,
            &readable,
        )?;
        self.entries.clear();
        self.range_tombstones.clear();
        Ok(())
    }

    fn ingest(&mut self) -> Result<(), StorageError> {
        self.flush()?;
        let group = self.random.below(9);
        let step = 1 + self.random.below(40);
        let pairs: Vec<(Vec<u8>, Vec<u8>)> = (0..self.random.below(60))
            .map(|at| {
                let key = format!("{group}-{:05}", at * step).into_bytes();
                (key, self.value())
            })
            .collect();
        let existing = pairs.iter().any(|(key, _)| self.state.contains_key(key));
        let state = self.state.clone();
        let prepared = self.tree.prepare_ingestion(
            self.version + 1,
            &mut pairs.clone().into_iter().map(Ok),
            &mut |key| {
                Ok(state
                    .range(key.to_vec()..)
                    .next()
                    .map(|(key, _)| key.clone()))
            },
        );
        let prepared = match prepared {
            Err(StorageError::Invalid(_)) if existing => return Ok(()),
            other => other?,
        };
        assert!(!existing, "a key that exists is refused");
        self.tree.commit_ingestion(prepared)?;
        self.version += 1;
        self.state.extend(pairs);
        self.kept.insert(self.version, self.state.clone());
        Ok(())
    }

    fn act(&mut self) -> Result<(), StorageError> {
        match self.random.below(100) {
            0..60 => self.commit(),
            60..72 => self.flush()?,
            72..86 => {
                let readable = self.readable();
                if self.random.below(3) == 0 {
                    self.tree.current().seek_budget.add_scan(1 << 20);
                }
                self.tree.compact_once(&readable)?;
            }
            86 => {
                let readable = self.readable();
                self.tree.compact_all(&readable)?;
            }
            87..90 => self.ingest()?,
            90..94 => self.snapshots.push(self.version),
            94..98 => {
                if !self.snapshots.is_empty() {
                    let at = self.random.below(self.snapshots.len() as u64) as usize;
                    self.snapshots.swap_remove(at);
                    let (window, snapshots) = (self.window, &self.snapshots);
                    self.kept
                        .retain(|version, _| *version >= window || snapshots.contains(version));
                }
            }
            _ => {
                self.flush()?;
                let recovered = self.reopen()?;
                assert_eq!(recovered.flushed, self.version.min(recovered.flushed));
            }
        }
        Ok(())
    }

    fn reopen(&mut self) -> Result<Recovered, StorageError> {
        let empty = SimDisk::new();
        // The old tree is dropped before the new one opens.
        self.tree = open(&empty, &Seal::plain())?.0;
        let (tree, recovered) = open(&self.disk, &self.seal)?;
        self.tree = tree;
        Ok(recovered)
    }

    fn check(&mut self) {
        let levels = self.tree.current();
        let versions: Vec<Version> = self.kept.keys().copied().collect();
        for _ in 0..4 {
            let version = versions[self.random.below(versions.len() as u64) as usize];
            self.check_at(&levels, version);
        }
        self.check_at(&levels, self.version);
    }

    fn check_at(&mut self, levels: &Arc<Levels>, at: Version) {
        let expected = self.kept[&at].clone();
        let mine = RangeTombstones::of(self.range_tombstones.clone());
        for _ in 0..20 {
            let key = self.key();
            let here = self
                .entries
                .iter()
                .filter(|entry| entry.0 == key && entry.1 <= at)
                .max_by_key(|entry| entry.1);
            let found = match here {
                Some((_, version, value)) => Some((*version, value.clone())),
                None => levels.get(&key, at).unwrap(),
            };
            let deleted_at = mine.newest_covering(&key, at);
            let value = found.and_then(|(version, value)| value.filter(|_| version >= deleted_at));
            assert_eq!(value.as_ref(), expected.get(&key), "{key:?} at {at}");
        }
        let (a, b) = (self.key(), self.key());
        for (start, end) in [(&[][..], None), (&a, Some(&b[..]))] {
            let mut sources = vec![self.memtable()];
            sources.extend(
                levels
                    .cursors(start, end)
                    .unwrap()
                    .into_iter()
                    .map(|run| Source::Run(Box::new(run))),
            );
            let range_tombstones = vec![Arc::new(mine.clone()), levels.range_tombstones().clone()];
            let mut cursor = MergeCursor::new(sources, range_tombstones, at);
            for order in [Order::Ascending, Order::Descending] {
                let mut seen = Vec::new();
                let range = KeyRange { start, end };
                cursor
                    .visit(range, order, &mut |key, value| {
                        seen.push((key.to_vec(), value.to_vec()));
                        ControlFlow::Continue(())
                    })
                    .unwrap();
                if order == Order::Descending {
                    seen.reverse();
                }
                let within: Vec<(Vec<u8>, Vec<u8>)> = expected
                    .iter()
                    .filter(|(key, _)| key[..] >= *start && end.is_none_or(|end| key[..] < *end))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                assert_eq!(seen, within, "{order:?} at {at}");
            }
        }
        let group = format!("{}", self.random.below(9)).into_bytes();
        let until = [group[0] + 1];
        let cursors = levels.cursors(&group, Some(&until)).unwrap();
        let mut sources = vec![self.memtable()];
        sources.extend(cursors.into_iter().map(|run| Source::Run(Box::new(run))));
        let range_tombstones = vec![Arc::new(mine), levels.range_tombstones().clone()];
        let mut cursor = MergeCursor::new(sources, range_tombstones, at);
        cursor.seek(&group).unwrap();
        for (key, value) in expected.range(group.clone()..until.to_vec()) {
            assert!(cursor.valid());
            assert_eq!(cursor.pair().unwrap(), (&key[..], &value[..]));
            cursor.next().unwrap();
        }
    }

    fn file_count(&self) -> usize {
        self.disk.list(FOLDER.as_ref()).unwrap().len()
    }
}

#[test]
fn random_histories_match_maps() {
    for seed in 1..20 {
        let mut history = History::new(seed);
        for step in 0..250 {
            history.act().unwrap();
            if step % 5 == 0 {
                history.check();
            }
        }
        history.flush().unwrap();
        let problems = history.tree.current().verify(&mut |_, _| ()).unwrap();
        assert!(problems.is_empty(), "seed {seed}: {problems:?}");
        // Without readers, one run without garbage is left, and no unnecessary file.
        history.snapshots.clear();
        history.window = history.version;
        let readable = history.readable();
        history.tree.compact_all(&readable).unwrap();
        history
            .kept
            .retain(|version, _| *version == history.version);
        history.check();
        let levels = history.tree.current();
        assert!(levels.range_tombstones().is_empty(), "seed {seed}");
        let statistics = levels.statistics();
        let entries: u64 = statistics.iter().map(|level| level.entries).sum();
        assert_eq!(entries, history.state.len() as u64, "seed {seed}");
        assert!(statistics.iter().all(|level| level.deletions == 0));
        assert!(levels.runs().count() <= 1);
        let files = levels.parts().count() + levels.blobs.files.len() + 1;
        history.tree.collect_files();
        assert_eq!(history.file_count(), files, "seed {seed}");
    }
}

/// At whichever point the power is lost: the last flushed state is found, or the one that was about to be.
#[test]
fn power_cuts_leave_one_state_or_the_next() {
    for seed in 1..40_u64 {
        let loss = Loss::ALL[seed as usize % 3];
        let mut history = History::new(seed * 31 + 5);
        history.window = 0;
        let cut = history.disk.changes() + 1 + seed * 37 % 900;
        history.disk.cut_power_at(cut, loss, seed);
        let (mut acknowledged, mut states) = (0, BTreeMap::from([(0, Map::new())]));
        let mut ingested: Option<Version> = None;
        for _ in 0..4000 {
            let (before, kind) = (history.version, history.random.below(18));
            let readable = Readable {
                snapshots: Vec::new(),
                from: 0,
            };
            let done = match kind {
                0..3 => history.flush().map(|()| acknowledged = history.version),
                3..6 => {
                    if kind == 5 {
                        history.tree.current().seek_budget.add_scan(1 << 20);
                    }
                    history.tree.compact_once(&readable).map(drop)
                }
                6 => history.ingest(),
                _ => {
                    history.commit();
                    history.window = 0;
                    Ok(())
                }
            };
            states.insert(history.version, history.state.clone());
            if history.version > before && kind == 6 && done.is_ok() {
                ingested = Some(history.version);
            }
            if done.is_err() {
                break;
            }
        }
        assert!(history.disk.is_off(), "seed {seed}: the cut came too late");
        history.disk.restart();
        let (tree, recovered) = open(&history.disk, &history.seal).unwrap();
        assert!(
            recovered.flushed >= acknowledged,
            "seed {seed}: {recovered:?}, {acknowledged}"
        );
        assert!(recovered.ingested >= ingested);
        let version = recovered.flushed.max(recovered.ingested.unwrap_or(0));
        let levels = tree.current();
        assert!(
            levels.verify(&mut |_, _| ()).unwrap().is_empty(),
            "seed {seed}"
        );
        let Some(expected) = states.get(&version) else {
            // An ingestion that was not acknowledged: its pairs are not in the model.
            assert_eq!(recovered.ingested, Some(version));
            continue;
        };
        let range_tombstones = vec![levels.range_tombstones().clone()];
        let sources = levels.cursors(&[], None).unwrap();
        let mut cursor = MergeCursor::new(sources, range_tombstones, version);
        let mut found = Map::new();
        cursor.seek(&[]).unwrap();
        while cursor.valid() {
            let (key, value) = cursor.pair().unwrap();
            found.insert(key.to_vec(), value.to_vec());
            cursor.next().unwrap();
        }
        assert_eq!(found, *expected, "seed {seed}");
        let files = levels.parts().count() + levels.blobs.files.len() + 1;
        assert!(
            history.file_count() <= files,
            "seed {seed}: orphans are left"
        );
    }
}

/// Tables covered by a range tombstone are dropped at once, without a merge; an older reader keeps them.
#[test]
fn tables_covered_by_a_range_tombstone_are_dropped() {
    let disk = SimDisk::new();
    let seal = Seal::plain();
    let (tree, _) = open(&disk, &seal).unwrap();
    let all = |version| Readable {
        snapshots: Vec::new(),
        from: version,
    };
    let entries: Vec<Entry> = (0..2000_u32)
        .map(|key| {
            let mut random = Random::new(u64::from(key) + 1);
            let value = (0..30).map(|_| random.below(256) as u8).collect();
            (key.to_be_bytes().to_vec(), 1, Some(value))
        })
        .collect();
    let list = |entries: Vec<Entry>| Source::List(entries, 0);
    tree.flush(vec![list(entries)], &RangeTombstones::new(), 1, 1, &all(1))
        .unwrap();
    let tables = |tree: &Tree| tree.current().parts().count();
    let before = tables(&tree);
    assert!(before > 5);
    let deleted_at = RangeTombstones::of([RangeTombstone {
        start: Box::new([]),
        end: Some(Box::new(1500_u32.to_be_bytes())),
        version: 2,
    }]);
    tree.flush(vec![list(Vec::new())], &deleted_at, 2, 1, &all(2))
        .unwrap();
    let reader = Readable {
        snapshots: vec![1],
        from: 2,
    };
    while tree.compact_once(&reader).unwrap() {}
    assert!(tables(&tree) >= before);
    assert!(tree.compact_once(&all(2)).unwrap());
    let after = tables(&tree);
    assert!(after < before / 2, "{after} of {before} tables are left");
    let levels = tree.current();
    for key in [0, 1499, 1500, 1999_u32] {
        let found = levels.get(&key.to_be_bytes(), 2).unwrap();
        let value = found.and_then(|(_, value)| value);
        assert_eq!(value.is_some(), key >= 1500);
    }
    let sources = levels.cursors(&[], None).unwrap();
    let mut cursor = MergeCursor::new(sources, vec![levels.range_tombstones().clone()], 2);
    cursor.seek(&[]).unwrap();
    assert_eq!(cursor.pair().unwrap().0, 1500_u32.to_be_bytes());
}

/// Reads alone make one run of many, in time, and compact no more than the seek budget pays for.
#[test]
fn runs_are_compacted_early_when_reads_search_many() {
    let disk = SimDisk::new();
    let (tree, _) = open(&disk, &Seal::plain()).unwrap();
    let (runs, keys) = (5, 80);
    for run in 1..=runs {
        // Each run has keys between those of the others.
        let list = (0..keys).map(|key| {
            let key = key * runs as u32 + run as u32;
            (key.to_be_bytes().to_vec(), run, Some(vec![7; 30]))
        });
        flushed(&tree, list.collect(), run);
    }
    let runs_now = || tree.current().runs().count();
    let merge = || while tree.compact_once(&latest(runs)).unwrap() {};
    let read_oldest = |times: u32| {
        let levels = tree.current();
        for at in 0..times {
            let key = at % keys * runs as u32 + 1;
            let found = levels.get(&key.to_be_bytes(), runs + 1).unwrap();
            assert_eq!(found, Some((1, Some(vec![7; 30]))));
        }
    };
    merge();
    assert_eq!(runs_now(), 5);
    let bytes = tree.current().file_bytes();
    let enough = u32::try_from(bytes / 8 / 4).unwrap();
    read_oldest(enough / 2);
    merge();
    assert_eq!(
        (runs_now(), tree.compacted_bytes.load(Ordering::Relaxed)),
        (5, 0)
    );
    read_oldest(enough);
    let earned = || tree.current().seek_budget.earned_bytes();
    merge();
    assert_eq!((runs_now(), earned()), (1, 0));

    // With one run no more seeks are wasted: neither for existing nor for missing keys.
    read_oldest(enough);
    for key in 0..keys {
        assert_eq!(tree.current().get(&key.to_le_bytes(), 5).unwrap(), None);
    }
    assert_eq!(earned(), 0);

    // A large run is not rewritten for a few keys; for many it is, and nothing is lost.
    let ends = [vec![0; 4], vec![9; 4]];
    flushed(&tree, ends.map(|key| (key, 6, Some(vec![1]))).into(), 6);
    read_oldest(6 * enough);
    while tree.compact_once(&latest(6)).unwrap() {}
    assert_eq!(runs_now(), 2);
    let later = (1..keys).map(|key| {
        let key = key * runs as u32;
        (key.to_be_bytes().to_vec(), 7, Some(vec![8; 30]))
    });
    flushed(&tree, later.collect(), 7);
    read_oldest(6 * enough);
    while tree.compact_once(&latest(7)).unwrap() {}
    assert_eq!(runs_now(), 1);
    read_oldest(keys);
    let (early, late) = (
        tree.current().get(&[9; 4], 7),
        tree.current().get(&[0, 0, 0, 5], 7),
    );
    assert_eq!(early.unwrap(), Some((6, Some(vec![1]))));
    assert_eq!(late.unwrap(), Some((7, Some(vec![8; 30]))));
}

fn filled(tree: &Tree, keys: std::ops::Range<u32>, version: Version) {
    let entries: Vec<Entry> = keys
        .map(|key| {
            let mut random = Random::new(u64::from(key) * 31 + version);
            let value = (0..30).map(|_| random.below(256) as u8).collect();
            (key.to_be_bytes().to_vec(), version, Some(value))
        })
        .collect();
    flushed(tree, entries, version);
}

fn flushed(tree: &Tree, entries: Vec<Entry>, version: Version) {
    let sources = vec![Source::List(entries, 0)];
    tree.flush(
        sources,
        &RangeTombstones::new(),
        version,
        1,
        &latest(version),
    )
    .unwrap();
}

/// No reader of an older version.
fn latest(version: Version) -> Readable {
    Readable {
        snapshots: Vec::new(),
        from: version,
    }
}

/// Tombstones of single keys are compacted into the last level even if nothing else is to be merged, and only
/// where they are.
#[test]
fn ranges_of_many_deletions_are_merged_first() {
    let disk = SimDisk::new();
    let (tree, _) = open(&disk, &Seal::plain()).unwrap();
    filled(&tree, 0..4000, 1);
    tree.compact_all(&latest(1)).unwrap();
    let bytes = |tree: &Tree| tree.current().file_bytes();
    let before = bytes(&tree);
    let names = || disk.list(std::path::Path::new(FOLDER)).unwrap();
    let untouched = names();
    let deletions = (1000..2000_u32).map(|key| (key.to_be_bytes().to_vec(), 2, None));
    flushed(&tree, deletions.collect(), 2);
    assert!(bytes(&tree) > before);
    while tree.compact_once(&latest(2)).unwrap() {}
    assert!(
        bytes(&tree) < before * 4 / 5,
        "{} of {before} bytes are left",
        bytes(&tree)
    );
    let left = names()
        .iter()
        .filter(|name| untouched.contains(name))
        .count();
    assert!(
        left * 2 > untouched.len(),
        "{left} of {} tables stay",
        untouched.len()
    );
    let levels = tree.current();
    for key in [0, 999, 1000, 1999, 2000, 3999_u32] {
        let found = levels.get(&key.to_be_bytes(), 2).unwrap();
        let value = found.and_then(|(_, value)| value);
        assert_eq!(value.is_some(), !(1000..2000).contains(&key));
    }
}

/// Compacting everything takes disk space for a slice and for the tables that the inputs are in the middle of,
/// not for the whole again.
#[test]
fn a_merge_of_any_size_takes_room_for_little_more_than_a_slice() {
    let disk = SimDisk::new();
    let folder_bytes = {
        let disk = disk.clone();
        move || -> u64 {
            disk.list(std::path::Path::new(FOLDER))
                .unwrap()
                .iter()
                .map(|name| {
                    match disk.open(&std::path::Path::new(FOLDER).join(name), OpenMode::Read) {
                        Ok(file) => file.len().unwrap(),
                        Err(error) => panic!("{name:?}: {error}"),
                    }
                })
                .sum()
        }
    };
    let most = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let mut options = options(&disk, &Seal::plain());
    let (counted, bytes) = (most.clone(), folder_bytes.clone());
    options.pace = Some(Arc::new(move |_| {
        counted.fetch_max(bytes(), std::sync::atomic::Ordering::Relaxed);
    }));
    let (table_bytes, slice_bytes) = (options.table_bytes, options.slice_bytes);
    let (tree, _) = Tree::open(options, Arc::new(|_| ())).unwrap();
    // As many runs as gather before a level is full, each over all keys.
    let runs = 7;
    for run in 0..runs {
        let entries = (0..6000_u32).map(|at| {
            let mut random = Random::new(u64::from(at) * 31 + run);
            let value = (0..30).map(|_| random.below(256) as u8).collect();
            (
                (at * 7 + run as u32).to_be_bytes().to_vec(),
                run + 1,
                Some(value),
            )
        });
        flushed(&tree, entries.collect(), run + 1);
    }
    let before = folder_bytes();
    most.store(0, std::sync::atomic::Ordering::Relaxed);
    tree.compact_all(&latest(runs)).unwrap();
    let most = most.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(tree.current().runs().count(), 1);
    assert!(most > 0, "the merge was not seen");
    let room = slice_bytes + (runs + 1) * 2 * table_bytes;
    assert!(
        room * 10 < before,
        "{room} bytes is not much less than {before}"
    );
    assert!(
        most <= before + room,
        "{most} bytes where {before} were, a slice takes {room}"
    );
}

/// A flipped bit or a cut in any file: an error, or the right answer.
#[test]
fn damaged_files_give_errors_and_no_wrong_answers() {
    let (mut noticed, rounds) = (0, 30);
    for seed in 1..=rounds {
        let mut history = History::new(seed * 77 + 1);
        history.seal = Seal::plain();
        history.disk = SimDisk::new();
        history.tree = open(&history.disk, &history.seal).unwrap().0;
        for _ in 0..60 {
            history.commit();
            if history.random.below(5) == 0 {
                history.flush().unwrap();
            }
        }
        history.flush().unwrap();
        let version = history.version;
        let mut names = history.disk.list(FOLDER.as_ref()).unwrap();
        names.sort();
        let name = &names[history.random.below(names.len() as u64) as usize];
        let path = PathBuf::from(FOLDER).join(name);
        let file = history.disk.open(&path, OpenMode::Write).unwrap();
        let len = file.len().unwrap();
        if history.random.below(4) == 0 {
            file.set_len(history.random.below(len)).unwrap();
        } else {
            let at = history.random.below(len);
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            byte[0] ^= 1 << history.random.below(8);
            file.write_all_at(&byte, at).unwrap();
        }
        let (tree, _) = match open(&history.disk, &history.seal) {
            Ok(opened) => opened,
            Err(StorageError::Corrupt(_)) => {
                noticed += 1;
                continue;
            }
            Err(other) => panic!("seed {seed}: {other}"),
        };
        let levels = tree.current();
        noticed += u64::from(!levels.verify(&mut |_, _| ()).unwrap().is_empty());
        for number in 0..history.keys {
            let key = format!("{}-{:05}", number % 7, number).into_bytes();
            if let Ok(found) = levels.get(&key, version) {
                let value = found.and_then(|(_, value)| value);
                assert_eq!(value.as_ref(), history.state.get(&key), "seed {seed}");
            }
        }
        let _ = tree.compact_all(&history.readable());
    }
    assert_eq!(noticed, rounds);
}
