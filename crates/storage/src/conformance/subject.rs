//! The engine under test, and what the scripts do with it.

use std::{ops::ControlFlow, sync::Arc};

use crate::{Durability, Engine, KeyRange, Order, Page, PageLimit, Read, Version};

/// Options with which a test opens the engine.
#[derive(Clone, Copy, Debug)]
pub struct SubjectOptions {
    /// Largest write set.
    pub max_transaction_bytes: usize,
}

impl Default for SubjectOptions {
    fn default() -> Self {
        Self {
            max_transaction_bytes: crate::MAX_TRANSACTION_BYTES,
        }
    }
}

/// One database under test.
pub trait Subject {
    /// The open engine.
    fn engine(&self) -> Arc<dyn Engine>;
    /// Closes and reopens it; does nothing for an engine that is not durable.
    fn reopen(&mut self);
}

/// Creates an empty database.
pub type Make = fn(SubjectOptions) -> Box<dyn Subject>;

/// The whole key space.
pub const ALL: KeyRange<'static> = KeyRange {
    start: b"",
    end: None,
};

/// A range between two keys.
pub fn between<'a>(start: &'a [u8], end: &'a [u8]) -> KeyRange<'a> {
    KeyRange {
        start,
        end: Some(end),
    }
}

/// All pairs of a range, read in pages of `keys` pairs.
pub fn scan<R: Read + ?Sized>(
    read: &R,
    range: KeyRange<'_>,
    order: Order,
    keys: usize,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut page = Page::new();
    let mut rest = Some((range.start.to_vec(), range.end.map(<[u8]>::to_vec)));
    while let Some((start, end)) = rest {
        let range = KeyRange {
            start: &start,
            end: end.as_deref(),
        };
        read.scan(
            range,
            order,
            PageLimit {
                keys,
                bytes: usize::MAX,
            },
            &mut page,
        )
        .expect("a scan");
        assert!(
            page.len() <= keys,
            "{} pairs on a page of {keys}",
            page.len()
        );
        assert!(
            !page.is_empty() || page.next().is_none(),
            "an empty page with a continuation"
        );
        pairs.extend(
            page.iter()
                .map(|(key, value)| (key.to_vec(), value.to_vec())),
        );
        rest = page
            .next()
            .map(|rest| (rest.start.to_vec(), rest.end.map(<[u8]>::to_vec)));
    }
    assert_visits(read, range, order, &pairs);
    pairs
}

/// A visit gives the same pairs as pages, and stops when the visitor breaks.
fn assert_visits<R: Read + ?Sized>(
    read: &R,
    range: KeyRange<'_>,
    order: Order,
    pairs: &[(Vec<u8>, Vec<u8>)],
) {
    for wanted in [usize::MAX, pairs.len() / 2] {
        let mut seen = 0;
        read.visit(range, order, &mut |key, value| {
            assert!(seen < wanted.max(1), "a visit continues after a break");
            assert_eq!((key, value), (&pairs[seen].0[..], &pairs[seen].1[..]));
            seen += 1;
            if seen >= wanted {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })
        .expect("a visit");
        assert_eq!(seen, wanted.max(1).min(pairs.len()));
    }
}

/// Commits one pair.
pub fn put(engine: &dyn Engine, key: &[u8], value: &[u8]) -> Version {
    let mut transaction = engine.begin().expect("a transaction");
    transaction.put(key, value).expect("a put");
    transaction.commit(Durability::Synced).expect("a commit")
}

/// The committed value of a key.
pub fn get(engine: &dyn Engine, key: &[u8]) -> Option<Vec<u8>> {
    engine
        .snapshot()
        .expect("a snapshot")
        .get(key)
        .expect("a get")
}

/// Owned pairs, for comparison.
pub fn pairs(of: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    of.iter()
        .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect()
}

/// A small reproducible pseudo-random generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }
}
