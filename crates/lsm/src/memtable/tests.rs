//! The tree compared with a sorted map, with one thread and with several; and under a model checker.

use std::{collections::BTreeMap, sync::Arc};

use isomer_storage::conformance::Random;

use super::*;
use crate::{EntryCursor, EntryKind};

/// Miri runs each step some thousand times slower.
#[cfg(not(feature = "model"))]
const COMMITS: u64 = if cfg!(miri) { 90 } else { 6000 };

#[cfg(not(feature = "model"))]
type Naive = BTreeMap<(Vec<u8>, std::cmp::Reverse<Version>), Option<Vec<u8>>>;

#[cfg(not(feature = "model"))]
fn key(random: &mut Random, shape: u64) -> Vec<u8> {
    let number = random.below(5000);
    match shape {
        0 => format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes(),
        1 => [&b"a constant beginning "[..], &number.to_be_bytes()].concat(),
        2 => vec![b'k'; 1 + (number % 40) as usize],
        3 => number.to_le_bytes()[..1 + (number % 4) as usize].to_vec(),
        _ => [
            &[7, (number % 3) as u8][..],
            &[0; 12][..(number % 12) as usize],
            &number.to_be_bytes(),
        ]
        .concat(),
    }
}

fn walk(memtable: &Arc<Memtable>) -> Vec<(Vec<u8>, Version, Option<Vec<u8>>)> {
    let mut cursor = memtable.cursor();
    cursor.seek(b"", Version::MAX).expect("a seek");
    let mut found = Vec::new();
    while cursor.valid() {
        let value =
            (cursor.kind() == EntryKind::Put).then(|| cursor.value().expect("a value").to_vec());
        found.push((cursor.key().to_vec(), cursor.version(), value));
        cursor.next().expect("a step");
    }
    found
}

/// Lookups, seeks and iteration in both directions agree with a sorted map, for keys of several shapes.
#[test]
#[cfg(not(feature = "model"))]
fn the_memtable_is_a_sorted_map() {
    for shape in 0..5 {
        let random = &mut Random(shape);
        let memtable = Arc::new(Memtable::new());
        let mut naive = Naive::new();
        for version in 1..=COMMITS {
            let key = key(random, shape);
            let value = (random.below(5) > 0).then(|| version.to_be_bytes().to_vec());
            memtable.insert(&key, version, value.as_deref());
            naive.insert((key, std::cmp::Reverse(version)), value);
        }
        // Whole commits, with adjacent and distant keys.
        for version in COMMITS + 1..COMMITS + 100 {
            let commit: BTreeMap<Vec<u8>, Option<Vec<u8>>> = (0..random.below(200))
                .map(|number| {
                    (
                        key(random, shape),
                        (number % 4 > 0).then(|| vec![number as u8; 9]),
                    )
                })
                .collect();
            let slots = commit
                .iter()
                .map(|(key, value)| (&key[..], value.as_deref()));
            memtable.committer().insert_all(version, slots);
            for (key, value) in commit {
                naive.insert((key, std::cmp::Reverse(version)), value);
            }
        }
        assert_eq!(memtable.entry_count(), naive.len() as u64);
        assert_eq!(
            (memtable.first_version(), memtable.last_version()),
            (1, COMMITS + 99)
        );
        let expected: Vec<_> = naive
            .iter()
            .map(|((key, version), value)| (key.clone(), version.0, value.clone()))
            .collect();
        assert_eq!(walk(&memtable), expected);
        let mut cursor = memtable.cursor();
        cursor.seek_before(None).expect("a seek");
        for (key, version, _) in expected.iter().rev() {
            assert_eq!((cursor.key(), cursor.version()), (&key[..], *version));
            cursor.prev().expect("a step");
        }
        assert!(!cursor.valid());
        for _ in 0..COMMITS {
            let (key, at) = (key(random, shape), random.below(COMMITS + COMMITS / 12));
            let first = naive.range((key.clone(), std::cmp::Reverse(at))..).next();
            let newest = first.filter(|((found, _), _)| *found == key);
            let newest = newest.map(|((_, version), value)| (version.0, value.as_deref()));
            assert_eq!(memtable.get(&key, at), newest);
            cursor.seek(&key, at).expect("a seek");
            let found = cursor
                .valid()
                .then(|| (cursor.key().to_vec(), cursor.version()));
            assert_eq!(
                found,
                first.map(|((key, version), _)| (key.clone(), version.0))
            );
            cursor.seek_before(Some(&key)).expect("a seek");
            let found = cursor
                .valid()
                .then(|| (cursor.key().to_vec(), cursor.version()));
            let before = naive
                .range(..(key, std::cmp::Reverse(Version::MAX)))
                .next_back();
            assert_eq!(
                found,
                before.map(|((key, version), _)| (key.clone(), version.0))
            );
        }
    }
}

/// The result of one lookup answers lookups of other keys correctly, also if entries were inserted since.
#[test]
#[cfg(not(feature = "model"))]
fn a_lookup_result_answers_other_keys_correctly() {
    let mut answered = 0;
    for shape in 0..5 {
        let random = &mut Random(shape);
        let memtable = Memtable::new();
        let mut version = 0;
        for _ in 0..COMMITS / 15 {
            let at = version.max(3) - random.below(3);
            let mut keys: Vec<_> = (0..40).map(|_| key(random, shape)).collect();
            // Most are looked up in order; some twice.
            keys[..30].sort();
            keys.dedup();
            let mut last: Option<LookupHit<'_>> = None;
            for one in &keys {
                let before = last.is_some_and(|last| last.also_answers(one, at));
                answered += u64::from(before);
                let looked = memtable.look_up(one, at, last);
                assert_eq!(looked.get(one), memtable.get(one, at), "{one:?} at {at}");
                last = Some(looked);
                // Too new for the reader: only versions up to `at` were published to it.
                if random.below(3) == 0 {
                    version += 1;
                    let value = (random.below(5) > 0).then_some(&b"value"[..]);
                    memtable.insert(&key(random, shape), version.max(at + 1), value);
                    version = version.max(at + 1);
                }
            }
        }
    }
    assert!(answered > COMMITS / 6, "{answered} lookups were saved");
}

/// While one thread commits, others find everything of the version that they read, once and in order.
#[test]
#[cfg(not(feature = "model"))]
fn readers_see_whole_versions_while_it_grows() {
    const PER_COMMIT: u64 = 10;
    let memtable = Arc::new(Memtable::new());
    let published = AtomicU64::new(0);
    let entry = |version: Version, number: u64| {
        (version * PER_COMMIT + number)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .to_be_bytes()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for version in 1..=COMMITS {
                let mut committer = memtable.committer();
                for number in 0..PER_COMMIT {
                    committer.insert(
                        &entry(version, number),
                        version,
                        Some(&version.to_be_bytes()),
                    );
                }
                // One key is in every version.
                committer.insert(b"all", version, Some(&version.to_be_bytes()));
                drop(committer);
                published.store(version, Ordering::Release);
            }
        });
        for seed in 0..2 {
            let (memtable, published) = (&memtable, &published);
            scope.spawn(move || {
                let random = &mut Random(seed);
                loop {
                    let at = published.load(Ordering::Acquire);
                    for _ in 0..at.min(200) {
                        let (version, number) = (1 + random.below(at), random.below(PER_COMMIT));
                        let found = memtable.get(&entry(version, number), at);
                        assert_eq!(found, Some((version, Some(&version.to_be_bytes()[..]))));
                        let absent = (random.number() | 1).to_le_bytes();
                        assert_eq!(memtable.get(&absent[..5], at), None);
                    }
                    if at > 0 {
                        let newest = memtable.get(b"all", at);
                        assert_eq!(newest, Some((at, Some(&at.to_be_bytes()[..]))));
                    }
                    let mut cursor = memtable.cursor();
                    cursor.seek(b"", Version::MAX).expect("a seek");
                    let (mut count, mut last) = (0, Vec::new());
                    while cursor.valid() && random.below(20_000) > 0 {
                        assert!(cursor.key() > &last[..] || cursor.key() == b"all");
                        last = cursor.key().to_vec();
                        count += u64::from(cursor.version() <= at && cursor.key() != b"all");
                        cursor.next().expect("a step");
                    }
                    assert!(
                        cursor.valid() || count == at * PER_COMMIT,
                        "{count} entries at {at}"
                    );
                    if at == COMMITS {
                        break;
                    }
                }
            });
        }
    });
}

/// Under `shuttle`: in every interleaving tried, a reader finds what was published before it began.
#[test]
#[cfg(feature = "model")]
fn model_readers_find_what_was_published() {
    use super::words;

    shuttle::check_random(
        || {
            let memtable = Arc::new(Memtable::new());
            let published = Arc::new(words::AtomicU64::new(0));
            let order = [5u8, 1, 9, 3, 7, 2, 8, 4, 6, 0, 12, 11, 10, 13];
            let writer = {
                let (memtable, published) = (memtable.clone(), published.clone());
                shuttle::thread::spawn(move || {
                    for (version, key) in (1..).zip(order) {
                        memtable.insert(&[key], version, Some(&[key]));
                        published.store(version, words::Ordering::Release);
                    }
                })
            };
            let readers: Vec<_> = (0..2)
                .map(|reader| {
                    let (memtable, published) = (memtable.clone(), published.clone());
                    shuttle::thread::spawn(move || {
                        for _ in 0..3 {
                            let at = published.load(words::Ordering::Acquire);
                            let mut expected: Vec<u8> = order[..at as usize].to_vec();
                            expected.sort_unstable();
                            if reader == 0 {
                                for key in &expected {
                                    assert!(memtable.get(&[*key], at).is_some(), "{key} at {at}");
                                }
                                assert!(memtable.get(&[77], at).is_none());
                            } else {
                                let seen = walk(&memtable)
                                    .into_iter()
                                    .filter(|(_, version, _)| *version <= at);
                                let seen: Vec<u8> = seen.map(|(key, _, _)| key[0]).collect();
                                assert_eq!(seen, expected);
                                let mut cursor = memtable.cursor();
                                let mut back = Vec::new();
                                cursor.seek_before(None).expect("a seek");
                                while cursor.valid() {
                                    back.extend((cursor.version() <= at).then(|| cursor.key()[0]));
                                    cursor.prev().expect("a step");
                                }
                                back.reverse();
                                assert_eq!(back, expected);
                            }
                        }
                    })
                })
                .collect();
            writer.join().expect("the writer");
            readers
                .into_iter()
                .for_each(|reader| reader.join().expect("a reader"));
        },
        20_000,
    );
}
