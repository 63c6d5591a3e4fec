//! The tree of a memtable: one thread inserts, many read without waiting for it.
//!
//! Readers descend with optimistic lock coupling: a child's version is noted before the parent's is checked, so
//! that a concurrent split of the child is detected as a change of the parent. A split locks all nodes that
//! change, from the highest one down, before it changes the first. Nodes are never merged or freed while the
//! tree lives, and the first entry of a leaf other than the first leaf never changes.
#![allow(unsafe_code)]

use std::{ptr, sync::Arc};

use isomer_storage::Version;
use isomer_storage::sync::{Mutex, MutexGuard};

use super::{
    arena::{Arena, Chunks, EntryRef},
    node::{Changed, Equal, Node, Target, WIDTH},
    words::{AtomicPtr, Ordering},
};

/// Why the writer unwraps what a reader may have to repeat.
const OWN: &str = "the writer reads what it wrote";

/// The tree, with the memory of its nodes and entries: what it lends lives as long as the tree is borrowed.
pub struct Tree {
    /// A node of the arena, never null.
    root: AtomicPtr<Node>,
    /// Dropped after the nodes, which `drop` drops in place.
    inserter: Mutex<Inserter>,
}

/// State of the inserting thread.
#[derive(Debug)]
struct Inserter {
    arena: Arena,
    node_bytes: usize,
    /// Empty between insertions; kept for its capacity.
    path: Vec<Step<'static>>,
}

/// The right to insert: one at a time.
pub struct Writer<'t> {
    tree: &'t Tree,
    inserter: MutexGuard<'t, Inserter>,
}

/// An inner node on the path down, with the child that was taken and the bounds of the node's keys.
#[derive(Clone, Copy)]
struct Step<'t> {
    node: &'t Node,
    child: usize,
    low: Option<EntryRef<'t>>,
    high: Option<EntryRef<'t>>,
}

impl std::fmt::Debug for Step<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let child = self.child;
        formatter
            .debug_struct("Step")
            .field("child", &child)
            .finish_non_exhaustive()
    }
}

/// Where an entry belongs: a leaf of a tree, valid while the leaf has this version.
#[derive(Clone, Copy)]
pub struct LeafPosition<'t> {
    tree: &'t Tree,
    leaf: &'t Node,
    version: u64,
}

/// The entries of a leaf at one moment, and the next leaf.
pub struct Batch<'t> {
    entries: [Option<EntryRef<'t>>; WIDTH],
    len: usize,
    next: Option<&'t Node>,
}

impl<'t> Batch<'t> {
    /// An empty batch.
    pub fn new() -> Self {
        Self {
            entries: [None; WIDTH],
            len: 0,
            next: None,
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Entry number `at`, if there is one.
    pub fn get(&self, at: usize) -> Option<EntryRef<'t>> {
        if at < self.len {
            self.entries[at]
        } else {
            None
        }
    }

    /// Replaces the entries by those of the next leaf; returns whether there is one.
    pub fn load_next(&mut self) -> bool {
        // Whatever was inserted since the batch was copied, its successor still begins where the batch ended.
        let Some(leaf) = self.next else {
            return false;
        };
        loop {
            let version = leaf.begin();
            if self.copy(leaf).is_ok() && leaf.check(version).is_ok() {
                return true;
            }
        }
    }

    fn copy(&mut self, leaf: &'t Node) -> Result<(), Changed> {
        let len = leaf.len();
        for at in 0..len {
            self.entries[at] = Some(leaf.entry(at)?);
        }
        (self.len, self.next) = (len, leaf.next());
        Ok(())
    }
}

impl Inserter {
    fn place(&mut self, node: Node) -> *mut Node {
        self.node_bytes += node.more_bytes();
        self.arena.place(node)
    }
}

impl Tree {
    /// An empty tree, whose memory comes from `chunks` and returns there.
    pub fn new(chunks: Arc<Chunks>) -> Self {
        let mut inserter = Inserter {
            arena: Arena::new(chunks),
            node_bytes: 0,
            path: Vec::new(),
        };
        Self {
            root: AtomicPtr::new(inserter.place(Node::leaf())),
            inserter: Mutex::new(inserter),
        }
    }

    /// Waits until the previous writer is dropped.
    pub fn writer(&self) -> Writer<'_> {
        Writer {
            tree: self,
            inserter: self.inserter.lock(),
        }
    }

    /// The node at an address from the root or from the arena.
    ///
    /// # Safety
    /// The node was placed in this tree's arena.
    unsafe fn node(&self, pointer: *mut Node) -> &Node {
        // SAFETY: the arena belongs to the tree and drops nothing while the tree is borrowed; a node is reached by
        // others only after it was stored with release. Nodes change by their atomics alone.
        unsafe { &*pointer }
    }

    /// The root and its version, noted while it was the root.
    fn root(&self) -> (&Node, u64) {
        loop {
            let pointer = self.root.load(Ordering::Acquire);
            // SAFETY: the root is a node of the arena.
            let root = unsafe { self.node(pointer) };
            let version = root.begin();
            if self.root.load(Ordering::Acquire) == pointer {
                return (root, version);
            }
        }
    }

    /// Descends to a leaf; `choose` picks the child. Returns the leaf with its version.
    fn descend(
        &self,
        choose: impl Fn(&Node) -> Result<usize, Changed>,
    ) -> Result<(&Node, u64), Changed> {
        let (mut node, mut version) = self.root();
        while node.is_inner() {
            let child = node.child(choose(node)?).ok_or(Changed)?;
            let child_version = child.begin();
            node.check(version)?;
            (node, version) = (child, child_version);
        }
        Ok((node, version))
    }

    /// The first entry at or after the target.
    pub fn find(&self, target: Target<'_>) -> Option<EntryRef<'_>> {
        loop {
            if let Ok(found) = self.try_find(target) {
                return found;
            }
        }
    }

    fn try_find(&self, target: Target<'_>) -> Result<Option<EntryRef<'_>>, Changed> {
        let (leaf, version) = self.descend(|node| node.rank(target, Equal::Before))?;
        let at = leaf.rank(target, Equal::Behind)?;
        if at < leaf.len() {
            let entry = leaf.entry(at)?;
            leaf.check(version)?;
            return Ok(Some(entry));
        }
        let next = leaf.next();
        leaf.check(version)?;
        // A leaf after another has a first entry, which stays.
        next.map(|next| next.entry(0)).transpose()
    }

    /// Fills `batch` with the leaf that has the first entry at or after the target; returns that entry's index,
    /// which is past the batch if there is none.
    pub fn seek<'t>(&'t self, target: Target<'_>, batch: &mut Batch<'t>) -> usize {
        let at = loop {
            if let Ok(at) = self.try_seek(target, batch) {
                break at;
            }
        };
        if at == batch.len() && batch.load_next() {
            0
        } else {
            at
        }
    }

    fn try_seek<'t>(&'t self, target: Target<'_>, batch: &mut Batch<'t>) -> Result<usize, Changed> {
        let (leaf, version) = self.descend(|node| node.rank(target, Equal::Before))?;
        let at = leaf.rank(target, Equal::Behind)?;
        batch.copy(leaf)?;
        leaf.check(version)?;
        Ok(at)
    }

    /// Fills `batch` with the leaf that has the last entry before the target (of all for `None`); returns that
    /// entry's index.
    pub fn seek_before<'t>(
        &'t self,
        target: Option<Target<'_>>,
        batch: &mut Batch<'t>,
    ) -> Option<usize> {
        loop {
            if let Ok(at) = self.try_seek_before(target, batch) {
                return at;
            }
        }
    }

    fn try_seek_before<'t>(
        &'t self,
        target: Option<Target<'_>>,
        batch: &mut Batch<'t>,
    ) -> Result<Option<usize>, Changed> {
        let rank = |node: &Node| match target {
            Some(target) => node.rank(target, Equal::Behind),
            None => Ok(node.len()),
        };
        let (leaf, version) = self.descend(rank)?;
        let at = rank(leaf)?;
        batch.copy(leaf)?;
        leaf.check(version)?;
        Ok(at.checked_sub(1))
    }
}

impl<'t> Writer<'t> {
    /// Bytes of entries and nodes.
    pub fn bytes(&self) -> usize {
        self.inserter.arena.bytes() + self.inserter.node_bytes
    }

    /// Finds the leaf in which an entry belongs, and prefetches it.
    pub fn locate(&self, key: &[u8], version: Version) -> LeafPosition<'t> {
        let target = Target { key, version };
        let mut node = self.root();
        while node.is_inner() {
            let child = node.rank(target, Equal::Before).expect(OWN);
            node = node.child(child).expect(OWN);
        }
        node.prefetch();
        LeafPosition {
            tree: self.tree,
            leaf: node,
            version: node.begin(),
        }
    }

    /// Like [`Writer::insert`], at a position that [`Writer::locate`] found for the same entry: if nothing has
    /// changed there since and there is room, the descent is skipped.
    pub fn insert_at(
        &mut self,
        place: LeafPosition<'t>,
        key: &[u8],
        version: Version,
        value: Option<&[u8]>,
    ) {
        let leaf = place.leaf;
        let is_own = ptr::eq(place.tree, self.tree);
        if !is_own || leaf.check(place.version).is_err() || leaf.is_full() {
            return self.insert(key, version, value);
        }
        let at = leaf
            .rank(Target { key, version }, Equal::Behind)
            .expect(OWN);
        let entry = self.add(key, version, value);
        leaf.lock();
        // SAFETY: leaf and entry are of this tree's arena.
        unsafe { leaf.insert(at, entry, ptr::null_mut()) };
        leaf.unlock();
    }

    /// Inserts an entry. No entry of the same key and version may exist.
    pub fn insert(&mut self, key: &[u8], version: Version, value: Option<&[u8]>) {
        let target = Target { key, version };
        let mut path: Vec<Step<'t>> = emptied(std::mem::take(&mut self.inserter.path));
        let (mut low, mut high) = (None, None);
        let mut node = self.root();
        while node.is_inner() {
            let child = node.rank(target, Equal::Before).expect(OWN);
            path.push(Step {
                node,
                child,
                low,
                high,
            });
            if child > 0 {
                low = Some(node.entry(child - 1).expect(OWN));
            }
            if child < node.len() {
                high = Some(node.entry(child).expect(OWN));
            }
            node = node.child(child).expect(OWN);
        }
        let at = node.rank(target, Equal::Behind).expect(OWN);
        debug_assert!(
            at == node.len() || node.entry(at).expect(OWN).compare(key, version).is_ne(),
            "an entry is inserted once"
        );
        let entry = self.add(key, version, value);
        if node.is_full() {
            let leaf = Step {
                node,
                child: at,
                low,
                high,
            };
            self.insert_full(&path, leaf, entry);
        } else {
            node.lock();
            // SAFETY: node and entry are of this tree's arena.
            unsafe { node.insert(at, entry, ptr::null_mut()) };
            node.unlock();
        }
        self.inserter.path = emptied(path);
    }

    /// The root; no other thread changes it.
    fn root(&self) -> &'t Node {
        let pointer = self.tree.root.load(Ordering::Relaxed);
        // SAFETY: the root is a node of the arena.
        unsafe { self.tree.node(pointer) }
    }

    /// Copies an entry into the arena.
    fn add(&mut self, key: &[u8], version: Version, value: Option<&[u8]>) -> EntryRef<'t> {
        let at = self.inserter.arena.add(key, version, value);
        // SAFETY: the arena belongs to the tree, which is borrowed for `'t`.
        unsafe { EntryRef::from_ptr(at.as_ptr()) }.expect("an address of the arena")
    }

    /// Places a node in the arena; returns its address, for slots, and the node.
    fn place(&mut self, node: Node) -> (*mut Node, &'t Node) {
        let pointer = self.inserter.place(node);
        // SAFETY: the node was placed just now.
        (pointer, unsafe { self.tree.node(pointer) })
    }

    /// Inserts an entry into a full leaf: splits it, and the full nodes above it.
    fn insert_full(&mut self, path: &[Step<'t>], leaf: Step<'t>, entry: EntryRef<'t>) {
        // The lowest inner node with room, and all full ones below it, change.
        let first = path.iter().rposition(|step| !step.node.is_full());
        let changed = &path[first.unwrap_or(0)..];
        changed.iter().for_each(|step| step.node.lock());
        leaf.node.lock();
        let (separator, mut right) = self.split_leaf(leaf, entry);
        let mut up = Some(separator);
        for step in changed.iter().rev() {
            let separator = up
                .take()
                .expect("each level gets one separator until one has room");
            if step.node.is_full() {
                let (middle, pointer) = self.split_inner(*step, separator, right);
                (up, right) = (Some(middle), pointer);
            } else {
                // SAFETY: the separator and the child are of this tree's arena.
                unsafe { step.node.insert(step.child, separator, right) };
            }
        }
        if let Some(separator) = up {
            let old = self.tree.root.load(Ordering::Relaxed);
            // SAFETY: the old root is a node of the arena, where the new one is placed before it is followed.
            let (pointer, root) = self.place(unsafe { Node::inner(old) });
            // SAFETY: the separator and the child are of this tree's arena.
            unsafe { root.insert(0, separator, right) };
            self.tree.root.store(pointer, Ordering::Release);
        }
        leaf.node.unlock();
        changed.iter().rev().for_each(|step| step.node.unlock());
    }

    /// Splits a full leaf, which is locked, and inserts an entry; returns the separator and the new leaf.
    fn split_leaf(&mut self, leaf: Step<'t>, entry: EntryRef<'t>) -> (EntryRef<'t>, *mut Node) {
        let left = leaf.node;
        // Ascending insertions leave full leaves behind.
        let middle = if leaf.child == WIDTH {
            WIDTH
        } else {
            WIDTH / 2
        };
        // SAFETY: the new leaf is placed in the arena of the old one.
        let (pointer, right) = self.place(unsafe { left.split_leaf(middle) });
        let insert = |node: &Node, at: usize| {
            // SAFETY: both leaves and the entry are of this tree's arena.
            unsafe { node.insert(at, entry, ptr::null_mut()) };
        };
        if middle == WIDTH {
            insert(right, 0);
        }
        let separator = right.entry(0).expect("not empty");
        left.set_fences(leaf.low, Some(separator));
        right.set_fences(Some(separator), leaf.high);
        if middle < leaf.child && middle < WIDTH {
            insert(right, leaf.child - middle);
        } else if middle < WIDTH {
            insert(left, leaf.child);
        }
        // SAFETY: the new leaf was placed in the arena.
        unsafe { left.set_next(pointer) };
        (separator, pointer)
    }

    /// Splits a full inner node, which is locked, and inserts a separator and a child; returns the separator that
    /// moves up and the new node.
    fn split_inner(
        &mut self,
        step: Step<'t>,
        separator: EntryRef<'t>,
        child: *mut Node,
    ) -> (EntryRef<'t>, *mut Node) {
        let left = step.node;
        let middle = if step.child == WIDTH {
            WIDTH - 1
        } else {
            WIDTH / 2
        };
        // SAFETY: the new node is placed in the arena of the old one.
        let (up, right) = unsafe { left.split_inner(middle) };
        let (pointer, right) = self.place(right);
        left.set_fences(step.low, Some(up));
        right.set_fences(Some(up), step.high);
        let (node, at) = if step.child > middle {
            (right, step.child - middle - 1)
        } else {
            (left, step.child)
        };
        // SAFETY: both nodes, the separator and the child are of this tree's arena.
        unsafe { node.insert(at, separator, child) };
        (up, pointer)
    }
}

/// The vector without its steps, whatever they borrowed, with its memory.
fn emptied<'b>(mut path: Vec<Step<'_>>) -> Vec<Step<'b>> {
    path.clear();
    path.into_iter()
        .map(|_| unreachable!("the vector is empty"))
        .collect()
}

impl Drop for Tree {
    fn drop(&mut self) {
        // SAFETY: what the tree lent is gone; the arena of the nodes is a field, which is dropped after this.
        unsafe { Node::drop_all(self.root.load(Ordering::Relaxed)) };
    }
}
