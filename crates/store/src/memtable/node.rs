//! Nodes of the tree: sorted arrays of atomic words under a version.
//!
//! A node's *version* is even while it rests and odd while it is changed. A reader notes it, reads words (which may be
//! of several states at once) and believes them only if the version is still the same: a sequence lock, in the form
//! that Boehm shows to be sound ("Can seqlocks get along with programming language memory models?", 2012). Every word
//! is an atomic, so that reading while another thread writes is no data race; what is read is used as an index or a
//! pointer only in ways that are safe whatever the word is: lengths never exceed the arrays, pointers in a slot are null or
//! of something that lives as long as the tree.
#![allow(unsafe_code)]

use std::ptr;

use super::{
    arena::Entry,
    words::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence, spin_loop, yield_now},
};
use crate::codec::head;

/// Most entries of a node.
pub const WIDTH: usize = if cfg!(all(test, feature = "model")) {
    4
} else {
    64
};

/// A node: a leaf holds entries, an inner node separators (entries, too) and one child more than these.
///
/// All keys that belong below a node share their first `skip` bytes; `prefixes` are the 8 bytes behind those, so that
/// most comparisons touch this node alone. Child `i` holds what is at or behind separator `i - 1` and before
/// separator `i`.
pub struct Node {
    version: AtomicU64,
    len: AtomicUsize,
    skip: AtomicUsize,
    /// The leaf behind this one.
    next: AtomicPtr<Node>,
    prefixes: [AtomicU64; WIDTH],
    entries: [AtomicPtr<u8>; WIDTH],
    /// Only in an inner node.
    children: Option<Box<[AtomicPtr<Node>]>>,
}

/// What was read belongs to no single state of a node: begin again.
#[derive(Debug)]
pub struct Changed;

/// What is searched for: the first entry at or behind (key, version).
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub key: &'a [u8],
    pub version: u64,
}

/// Which entries are counted as before a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Equal {
    /// Those before it.
    Behind,
    /// Those before it and the one at it.
    Before,
}

impl Node {
    /// A new leaf.
    pub fn leaf() -> Self {
        Self::new(None)
    }

    /// A new inner node without separators, over one child.
    pub fn inner(first: *mut Self) -> Self {
        let children: Box<[AtomicPtr<Self>]> = (0..=WIDTH)
            .map(|_| AtomicPtr::new(ptr::null_mut()))
            .collect();
        children[0].store(first, Ordering::Release);
        Self::new(Some(children))
    }

    fn new(children: Option<Box<[AtomicPtr<Self>]>>) -> Self {
        Self {
            version: AtomicU64::new(0),
            len: AtomicUsize::new(0),
            skip: AtomicUsize::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
            prefixes: std::array::from_fn(|_| AtomicU64::new(0)),
            entries: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            children,
        }
    }

    /// Bytes that it takes beside itself.
    pub fn more_bytes(&self) -> usize {
        let children = self.children.as_ref();
        children.map_or(0, |children| size_of_val(&**children))
    }

    /// The node at an address that a slot of this tree held. The caller holds the tree for at least `'a`.
    pub fn at<'a>(pointer: *mut Self) -> Option<&'a Self> {
        // Sound: slots hold null or a node that was placed in the tree's arena before it was stored (release, read with
        // acquire), and nodes are dropped only with the tree, when nobody reads any more.
        unsafe { pointer.as_ref() }
    }

    /// Whether it has children.
    pub fn is_inner(&self) -> bool {
        self.children.is_some()
    }

    /// Waits until the node rests; answers its version.
    pub fn begin(&self) -> u64 {
        let mut rounds = 0u32;
        loop {
            let version = self.version.load(Ordering::Acquire);
            if version & 1 == 0 {
                return version;
            }
            rounds += 1;
            if rounds < 64 && !cfg!(all(test, feature = "model")) {
                spin_loop();
            } else {
                yield_now();
            }
        }
    }

    /// Whether everything read since [`Node::begin`] answered `version` was of one state.
    pub fn check(&self, version: u64) -> Result<(), Changed> {
        fence(Ordering::Acquire);
        if self.version.load(Ordering::Relaxed) == version {
            Ok(())
        } else {
            Err(Changed)
        }
    }

    /// Number of entries or separators.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Entry or separator number `at`.
    pub fn entry(&self, at: usize) -> Result<Entry, Changed> {
        Entry::from_ptr(self.entries[at].load(Ordering::Acquire)).ok_or(Changed)
    }

    /// Child number `at` of an inner node.
    pub fn child(&self, at: usize) -> *mut Self {
        self.children.as_ref().map_or(ptr::null_mut(), |children| {
            children[at].load(Ordering::Acquire)
        })
    }

    /// The leaf behind this one, or null.
    pub fn next(&self) -> *mut Self {
        self.next.load(Ordering::Acquire)
    }

    /// Asks for the words that [`Node::rank`] is going to read. A hint: it answers nothing and waits for nothing.
    #[inline]
    pub fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        for line in (0..WIDTH).step_by(8) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // Sound: prefetching has no effect but on time, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(ptr::from_ref(&self.prefixes[line]).cast()) };
        }
    }

    /// How many entries come before `target`.
    pub fn rank(&self, target: Target<'_>, equal: Equal) -> Result<usize, Changed> {
        let len = self.len();
        let prefix = prefix(target.key, self.skip.load(Ordering::Relaxed));
        let at = |index: usize| self.prefixes[index].load(Ordering::Relaxed);
        // What ascends goes to the end.
        if len == 0 || at(len - 1) < prefix {
            return Ok(len);
        }
        let (mut low, mut size) = (0, len);
        while size > 1 {
            let half = size / 2;
            low += if at(low + half - 1) < prefix { half } else { 0 };
            size -= half;
        }
        low += usize::from(at(low) < prefix);
        // Those with the same prefix are compared whole.
        let mut high = low;
        let mut step = 1;
        while high < len && at(high) == prefix {
            high = (high + step).min(len);
            step *= 2;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            let order = match at(middle).cmp(&prefix) {
                std::cmp::Ordering::Equal => {
                    self.entry(middle)?.compare(target.key, target.version)
                }
                other => other,
            };
            if order.is_lt() || (order.is_eq() && equal == Equal::Before) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

/// Changes, by the one thread that inserts: everything below runs while it alone writes. A node that others can find is
/// locked first.
impl Node {
    /// Makes the version odd.
    pub fn lock(&self) {
        let version = self.version.load(Ordering::Relaxed);
        debug_assert_eq!(version & 1, 0, "locked twice");
        self.version.store(version + 1, Ordering::Relaxed);
        // What is written from here on is not seen before the odd version is.
        fence(Ordering::Release);
    }

    /// Makes the version even again.
    pub fn unlock(&self) {
        let version = self.version.load(Ordering::Relaxed);
        debug_assert_eq!(version & 1, 1, "not locked");
        self.version.store(version + 1, Ordering::Release);
    }

    /// Whether there is no room.
    pub fn is_full(&self) -> bool {
        self.len() == WIDTH
    }

    /// Puts an entry at `at`, and `child` behind it in an inner node.
    pub fn insert(&self, at: usize, entry: Entry, child: *mut Self) {
        let len = self.len();
        debug_assert!(at <= len && len < WIDTH);
        for index in (at..len).rev() {
            let moved = self.prefixes[index].load(Ordering::Relaxed);
            self.prefixes[index + 1].store(moved, Ordering::Relaxed);
        }
        for index in (at..len).rev() {
            let moved = self.entries[index].load(Ordering::Relaxed);
            self.entries[index + 1].store(moved, Ordering::Release);
        }
        if let Some(children) = &self.children {
            for index in (at + 1..=len).rev() {
                let moved = children[index].load(Ordering::Relaxed);
                children[index + 1].store(moved, Ordering::Release);
            }
            children[at + 1].store(child, Ordering::Release);
        }
        let skip = self.skip.load(Ordering::Relaxed);
        self.prefixes[at].store(prefix(entry.key(), skip), Ordering::Relaxed);
        self.entries[at].store(entry.as_ptr(), Ordering::Release);
        self.len.store(len + 1, Ordering::Relaxed);
    }

    /// Moves the entries from `from` on into a new leaf behind this one, which is not linked yet.
    pub fn split_leaf(&self, from: usize) -> Self {
        let right = Self::leaf();
        self.copy_to(&right, from);
        right.next.store(self.next(), Ordering::Release);
        self.len.store(from, Ordering::Relaxed);
        right
    }

    /// Moves the separators behind `from` into a new inner node; the one at `from` goes up.
    pub fn split_inner(&self, from: usize) -> (Entry, Self) {
        let up = self.entry(from).expect("the writer reads what it wrote");
        let right = Self::inner(self.child(from + 1));
        self.copy_to(&right, from + 1);
        self.len.store(from, Ordering::Relaxed);
        (up, right)
    }

    fn copy_to(&self, right: &Self, from: usize) {
        let len = self.len();
        right
            .skip
            .store(self.skip.load(Ordering::Relaxed), Ordering::Relaxed);
        for index in from..len {
            let (prefix, entry) = (&self.prefixes[index], &self.entries[index]);
            right.prefixes[index - from].store(prefix.load(Ordering::Relaxed), Ordering::Relaxed);
            right.entries[index - from].store(entry.load(Ordering::Relaxed), Ordering::Release);
            if let Some(children) = &right.children {
                children[index - from + 1].store(self.child(index + 1), Ordering::Release);
            }
        }
        right.len.store(len - from, Ordering::Relaxed);
    }

    /// Links the leaf `next` behind this one.
    pub fn set_next(&self, next: *mut Self) {
        self.next.store(next, Ordering::Release);
    }

    /// Notes that all keys below lie between `low` and `high`, so that what these share is skipped.
    pub fn set_fences(&self, low: Option<Entry>, high: Option<Entry>) {
        let (Some(low), Some(high)) = (low, high) else {
            return;
        };
        let shared = low
            .key()
            .iter()
            .zip(high.key())
            .take_while(|(low, high)| low == high)
            .count();
        if shared == self.skip.load(Ordering::Relaxed) {
            return;
        }
        self.skip.store(shared, Ordering::Relaxed);
        for index in 0..self.len() {
            let entry = self.entry(index).expect("the writer reads what it wrote");
            self.prefixes[index].store(prefix(entry.key(), shared), Ordering::Relaxed);
        }
    }

    /// Drops the nodes of a tree where they are.
    ///
    /// # Safety
    /// `root` was placed in an arena that lives, and is in no other tree; nobody reads it any more.
    pub unsafe fn drop_all(root: *mut Self) {
        let mut nodes = vec![root];
        while let Some(pointer) = nodes.pop() {
            if let Some(node) = Self::at(pointer)
                && node.is_inner()
            {
                nodes.extend((0..=node.len()).map(|at| node.child(at)));
            }
            // Sound: each node is the child of one parent, was written where it is and is dropped once.
            unsafe { ptr::drop_in_place(pointer) };
        }
    }
}

/// The 8 bytes of a key behind the first `skip`, big-endian; zeros where it ends.
fn prefix(key: &[u8], skip: usize) -> u64 {
    head(key.get(skip..).unwrap_or_default())
}
