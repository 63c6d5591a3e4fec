//! Scans in pages: the state parked in a page for the next one does not change any result, whatever happens
//! between them.

use std::{collections::BTreeMap, ops::ControlFlow};

use isomer_lsm::{LsmEngine, LsmOptions};
use isomer_storage::{Durability, Engine, KeyRange, Order, Page, PageLimit, conformance::Random};

type Reader = dyn Fn(KeyRange<'_>, Order, PageLimit, &mut Page);
type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A scan in progress: its reader, the expected pairs, its position.
struct Scan {
    reader: Box<Reader>,
    expected: Vec<(Vec<u8>, Vec<u8>)>,
    order: Order,
    rest: Option<(Vec<u8>, Option<Vec<u8>>)>,
    page: Page,
}

fn key(random: &mut Random) -> Vec<u8> {
    let len = 1 + random.below(3) as usize;
    (0..len).map(|_| random.below(7) as u8).collect()
}

fn begin(engine: &LsmEngine, model: &Pairs, random: &mut Random) -> Scan {
    let mut model = model.clone();
    let order = match random.below(2) {
        0 => Order::Ascending,
        _ => Order::Descending,
    };
    let (start, end) = (key(random), key(random));
    let (start, end) = match random.below(3) {
        0 => (Vec::new(), None),
        1 => (start, None),
        _ => (start.clone().min(end.clone()), Some(start.max(end))),
    };
    let reader: Box<Reader> = match random.below(2) {
        0 => {
            let snapshot = engine.snapshot().expect("a snapshot");
            Box::new(move |range, order, limit, page| {
                snapshot.scan(range, order, limit, page).expect("a page");
            })
        }
        // A transaction with own writes.
        _ => {
            let mut transaction = engine.begin().expect("a transaction");
            for _ in 0..random.below(3) {
                let (key, value) = (key(random), b"own".to_vec());
                transaction.put(&key, &value).expect("a put");
                model.insert(key, value);
            }
            Box::new(move |range, order, limit, page| {
                transaction.scan(range, order, limit, page).expect("a page");
            })
        }
    };
    let mut expected: Vec<_> = model
        .into_iter()
        .filter(|(key, _)| *key >= start && end.as_ref().is_none_or(|end| key < end))
        .collect();
    if order == Order::Ascending {
        expected.reverse();
    }
    Scan {
        reader,
        expected,
        order,
        rest: Some((start, end)),
        page: Page::new(),
    }
}

impl Scan {
    /// Reads a page; returns whether there is more.
    fn read_next(&mut self, random: &mut Random, context: &str) -> bool {
        let Some((start, end)) = self.rest.take() else {
            return false;
        };
        let range = KeyRange {
            start: &start,
            end: end.as_deref(),
        };
        let limit = PageLimit {
            keys: 1 + random.below(9) as usize,
            bytes: 1 + random.below(200) as usize,
        };
        (self.reader)(range, self.order, limit, &mut self.page);
        for (key, value) in self.page.iter() {
            let expected = self.expected.pop();
            assert_eq!(expected, Some((key.to_vec(), value.to_vec())), "{context}");
        }
        let next = self.page.next();
        self.rest = next.map(|rest| (rest.start.to_vec(), rest.end.map(<[u8]>::to_vec)));
        match &self.rest {
            Some(_) => true,
            None => {
                assert!(self.expected.is_empty(), "{context}");
                false
            }
        }
    }
}

#[test]
fn parked_cursors_do_not_change_results() {
    for seed in 0..15 {
        let random = &mut Random(seed);
        let folder = tempfile::tempdir().expect("a folder");
        let options = LsmOptions {
            background: false,
            memtable_bytes: 64 << 10,
            blob_threshold_bytes: 40,
            ..LsmOptions::default()
        };
        let engine = LsmEngine::open(folder.path(), options).expect("a store");
        let mut model = Pairs::new();
        let mut scans: Vec<Scan> = Vec::new();
        for step in 0..400u64 {
            let context = format!("seed {seed} step {step}");
            match random.below(12) {
                0..4 => {
                    let mut transaction = engine.begin().expect("a transaction");
                    for _ in 0..random.below(12) {
                        let key = key(random);
                        let mut value = step.to_be_bytes().to_vec();
                        value.resize(8 + random.below(40) as usize, 7);
                        transaction.put(&key, &value).expect("a put");
                        model.insert(key, value);
                    }
                    transaction.commit(Durability::Buffered).expect("a commit");
                }
                4 => {
                    let mut transaction = engine.begin().expect("a transaction");
                    let key = key(random);
                    transaction.delete(&key).expect("a deletion");
                    model.remove(&key);
                    transaction.commit(Durability::Buffered).expect("a commit");
                }
                5 if random.below(4) == 0 => {
                    let (one, other) = (key(random), key(random));
                    let (start, end) = (one.clone().min(other.clone()), one.max(other));
                    let mut transaction = engine.begin().expect("a transaction");
                    let range = KeyRange {
                        start: &start,
                        end: Some(&end),
                    };
                    transaction.delete_range(range).expect("a deleted range");
                    model.retain(|key, _| *key < start || *key >= end);
                    transaction.commit(Durability::Buffered).expect("a commit");
                }
                6 if random.below(3) == 0 => engine.flush().expect("a flush"),
                7 if random.below(4) == 0 => engine.compact().expect("a merge"),
                8 | 9 if scans.len() < 6 => scans.push(begin(&engine, &model, random)),
                // A page of another scan, with the state that that scan parked.
                10 if scans.len() > 1 => {
                    let page = std::mem::take(&mut scans[0].page);
                    scans[0].page = std::mem::replace(&mut scans[1].page, page);
                }
                _ if !scans.is_empty() => {
                    let at = random.below(scans.len() as u64) as usize;
                    if !scans[at].read_next(random, &context) {
                        scans.swap_remove(at);
                    }
                }
                _ => {}
            }
        }
        for mut scan in scans {
            while scan.read_next(random, "at the end") {}
        }
    }
}

/// A long visit continues in the new state of the engine, and does not keep the old one alive.
#[test]
fn a_long_visit_releases_merged_tables() {
    const PAIRS: u32 = 40_000;
    for order in [Order::Ascending, Order::Descending] {
        let folder = tempfile::tempdir().expect("a folder");
        let options = LsmOptions {
            background: false,
            memtable_bytes: 512 << 10,
            ..LsmOptions::default()
        };
        let engine = LsmEngine::open(folder.path(), options).expect("a store");
        let put_all = |value: &[u8]| {
            for first in (0..PAIRS).step_by(500) {
                let mut transaction = engine.begin().expect("a transaction");
                for number in first..first + 500 {
                    transaction
                        .put(&number.to_be_bytes(), value)
                        .expect("a put");
                }
                transaction.commit(Durability::Buffered).expect("a commit");
            }
            engine.flush().expect("a flush");
        };
        let files = || std::fs::read_dir(folder.path().join("tables")).expect("a folder");
        let names = || -> Vec<_> { files().map(|file| file.expect("a file").path()).collect() };
        put_all(b"one");
        engine.compact_all().expect("a merge");
        let before = names();
        let snapshot = engine.snapshot().expect("a snapshot");
        let (mut seen, mut left) = (0, usize::MAX);
        let all = KeyRange {
            start: b"",
            end: None,
        };
        snapshot
            .visit(all, order, &mut |key, value| {
                let expected = match order {
                    Order::Ascending => seen,
                    Order::Descending => PAIRS - 1 - seen,
                };
                assert_eq!((key, value), (&expected.to_be_bytes()[..], &b"one"[..]));
                seen += 1;
                if seen == 1000 {
                    put_all(b"two");
                    engine.compact_all().expect("a merge");
                }
                if seen == 20_000 {
                    // Files that wait for their last reader are removed with the next change.
                    put_all(b"three");
                    engine.compact_all().expect("a merge");
                    let after = names();
                    left = before
                        .iter()
                        .filter(|name| after.contains(name) && is_table(name))
                        .count();
                }
                ControlFlow::Continue(())
            })
            .expect("a visit");
        assert_eq!(seen, PAIRS);
        assert_eq!(left, 0, "tables that were merged away");
    }
}

fn is_table(path: &std::path::Path) -> bool {
    path.extension().is_some_and(|ending| ending == "tab")
}
