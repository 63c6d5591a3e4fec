//! Nodes of the tree: sorted arrays of atomic words under a version.
//!
//! A node's *version* is even while it is not being changed and odd while it is. A reader notes it, reads words
//! (which may be of several states) and uses them only if the version is still the same: a sequence lock, in
//! the form that Boehm shows to be sound ("Can seqlocks get along with programming language memory models?",
//! 2012). Every word is an atomic, so that reading while another thread writes is not a data race; what is read
//! is used as an index or a pointer only in ways that are safe whatever the word is: lengths never exceed the
//! arrays, pointers in a slot are null or of something that lives as long as the tree.
#![allow(unsafe_code)]

use std::ptr;

use super::{
    arena::EntryRef,
    words::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence, spin_loop, yield_now},
};
use crate::codec::head;

/// Largest number of entries of a node.
pub const WIDTH: usize = if cfg!(all(test, feature = "model")) {
    4
} else {
    64
};

/// A node: a leaf holds entries, an inner node separators (entries as well) and one child more than separators.
///
/// All keys below a node share their first `skip` bytes; `prefixes` are the 8 bytes after those, so that most
/// comparisons touch this node alone. Child `i` holds the entries at or after separator `i - 1` and before
/// separator `i`.
///
/// Slots are null or hold entries and nodes of one arena: the `unsafe` functions below demand it. A node is made
/// for that arena, is placed there, and is borrowed while the arena lives; so what its slots lead to lives at
/// least as long as the borrow.
pub struct Node {
    version: AtomicU64,
    len: AtomicUsize,
    skip: AtomicUsize,
    /// The next leaf.
    next: AtomicPtr<Node>,
    prefixes: [AtomicU64; WIDTH],
    entries: [AtomicPtr<u8>; WIDTH],
    /// Only in an inner node.
    children: Option<Box<[AtomicPtr<Node>]>>,
}

/// The words read do not belong to one state of the node: the operation must be restarted.
#[derive(Debug)]
pub struct Changed;

/// The target of a search: the first entry at or after (key, version).
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub key: &'a [u8],
    pub version: u64,
}

/// Which entries count as before a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Equal {
    /// Entries before it.
    Behind,
    /// Entries before it and the one at it.
    Before,
}

impl Node {
    /// A new leaf.
    pub fn leaf() -> Self {
        Self::new(None)
    }

    /// A new inner node without separators, over one child.
    ///
    /// # Safety
    /// The child was placed in an arena that lives as long as the new node is used.
    pub unsafe fn inner(first: *mut Self) -> Self {
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

    /// Bytes that it takes in addition to its own size.
    pub fn more_bytes(&self) -> usize {
        let children = self.children.as_ref();
        children.map_or(0, |children| size_of_val(&**children))
    }

    /// The node that a slot leads to.
    fn follow(&self, slot: &AtomicPtr<Self>) -> Option<&Self> {
        let pointer = slot.load(Ordering::Acquire);
        // SAFETY: slots of a node hold null or a node that was placed in the arena before it was stored (release,
        // read with acquire); the arena lives as long as `self` is borrowed, and its nodes are dropped only when
        // no reader is left.
        unsafe { pointer.as_ref() }
    }

    /// Whether it has children.
    pub fn is_inner(&self) -> bool {
        self.children.is_some()
    }

    /// Waits until the node is not being changed; returns its version.
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

    /// Whether everything read since [`Node::begin`] returned `version` was of one state.
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
    pub fn entry(&self, at: usize) -> Result<EntryRef<'_>, Changed> {
        let pointer = self.entries[at].load(Ordering::Acquire);
        // SAFETY: slots of entries are null or hold what the arena returned, which lives as long as `self` is
        // borrowed.
        unsafe { EntryRef::from_ptr(pointer) }.ok_or(Changed)
    }

    /// Child number `at` of an inner node.
    pub fn child(&self, at: usize) -> Option<&Self> {
        self.follow(self.children.as_ref()?.get(at)?)
    }

    /// The address of child number `at`, null in a leaf.
    fn child_address(&self, at: usize) -> *mut Self {
        self.children.as_ref().map_or(ptr::null_mut(), |children| {
            children[at].load(Ordering::Acquire)
        })
    }

    /// The next leaf.
    pub fn next(&self) -> Option<&Self> {
        self.follow(&self.next)
    }

    /// Prefetches the words that [`Node::rank`] will read. A hint.
    #[inline]
    pub fn prefetch(&self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        for line in (0..WIDTH).step_by(8) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: prefetching has no effect but on time, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(ptr::from_ref(&self.prefixes[line]).cast()) };
        }
    }

    /// Number of entries before `target`.
    pub fn rank(&self, target: Target<'_>, equal: Equal) -> Result<usize, Changed> {
        let len = self.len();
        let prefix = prefix(target.key, self.skip.load(Ordering::Relaxed));
        let at = |index: usize| self.prefixes[index].load(Ordering::Relaxed);
        // Fast path for keys that are inserted in ascending order.
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
        // Those with the same prefix are compared in full.
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

/// Changes, by the one thread that inserts: everything below runs while it alone writes. A node that readers
/// can find is locked first.
impl Node {
    /// Makes the version odd.
    pub fn lock(&self) {
        let version = self.version.load(Ordering::Relaxed);
        debug_assert_eq!(version & 1, 0, "locked twice");
        self.version.store(version + 1, Ordering::Relaxed);
        // Later writes must not be visible before the odd version is.
        fence(Ordering::Release);
    }

    /// Makes the version even again.
    pub fn unlock(&self) {
        let version = self.version.load(Ordering::Relaxed);
        debug_assert_eq!(version & 1, 1, "not locked");
        self.version.store(version + 1, Ordering::Release);
    }

    /// Whether the node is full.
    pub fn is_full(&self) -> bool {
        self.len() == WIDTH
    }

    /// Inserts an entry at `at`, and `child` after it in an inner node.
    ///
    /// # Safety
    /// The entry is of the arena for which this node was made, and so is the child, which is null for a leaf.
    pub unsafe fn insert(&self, at: usize, entry: EntryRef<'_>, child: *mut Self) {
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

    /// Moves the entries from `from` on into a new leaf after this one, which is not linked yet.
    ///
    /// # Safety
    /// The new node is placed in the arena for which this node was made before its slots are followed.
    pub unsafe fn split_leaf(&self, from: usize) -> Self {
        let right = Self::leaf();
        self.copy_to(&right, from);
        right
            .next
            .store(self.next.load(Ordering::Acquire), Ordering::Release);
        self.len.store(from, Ordering::Relaxed);
        right
    }

    /// Moves the separators after `from` into a new inner node; the one at `from` moves up.
    ///
    /// # Safety
    /// As for [`Node::split_leaf`].
    pub unsafe fn split_inner(&self, from: usize) -> (EntryRef<'_>, Self) {
        let up = self.entry(from).expect("the writer reads what it wrote");
        // SAFETY: a child of this node is of its arena; the caller places the result there.
        let right = unsafe { Self::inner(self.child_address(from + 1)) };
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
                children[index - from + 1].store(self.child_address(index + 1), Ordering::Release);
            }
        }
        right.len.store(len - from, Ordering::Relaxed);
    }

    /// Links `next` as the next leaf.
    ///
    /// # Safety
    /// The leaf was placed in the arena for which this node was made.
    pub unsafe fn set_next(&self, next: *mut Self) {
        self.next.store(next, Ordering::Release);
    }

    /// Records that all keys below are between `low` and `high`, so that their common prefix is skipped.
    pub fn set_fences(&self, low: Option<EntryRef<'_>>, high: Option<EntryRef<'_>>) {
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

    /// Drops the nodes of a tree in place.
    ///
    /// # Safety
    /// `root` was placed in an arena that lives, and is in no other tree; there are no readers any more.
    pub unsafe fn drop_all(root: *mut Self) {
        let mut nodes = vec![root];
        while let Some(pointer) = nodes.pop() {
            // SAFETY: the root and its descendants were placed in an arena that lives, and are not dropped yet.
            if let Some(node) = unsafe { pointer.as_ref() }
                && node.is_inner()
            {
                nodes.extend((0..=node.len()).map(|at| node.child_address(at)));
            }
            // SAFETY: each node is the child of one parent, was written where it is and is dropped once.
            unsafe { ptr::drop_in_place(pointer) };
        }
    }
}

/// The 8 bytes of a key after the first `skip`, big-endian, padded with zeros.
fn prefix(key: &[u8], skip: usize) -> u64 {
    head(key.get(skip..).unwrap_or_default())
}
