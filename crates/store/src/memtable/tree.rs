//! The tree of a memtable: one thread inserts, many read without waiting for it.
//!
//! Readers go down hand over hand: a child's version is noted before the parent's is checked, so that a child that was
//! split meanwhile is met together with a parent that changed. Whoever splits locks all nodes that change, from the
//! highest one down, before it changes the first. Nodes are never joined or freed while the tree lives, and the first
//! entry of a leaf that is not the first leaf never changes.
#![allow(unsafe_code)]

use std::{ptr, sync::Arc};

use isomer_storage::Version;

use super::{
    arena::{Arena, Chunks, Entry},
    node::{Changed, Equal, Node, Target, WIDTH},
    words::{AtomicPtr, Ordering},
};

/// The tree.
pub struct Tree {
    root: AtomicPtr<Node>,
}

/// What inserting needs to itself.
#[derive(Debug)]
pub struct Inserter {
    arena: Arena,
    node_bytes: usize,
    path: Vec<Step>,
}

/// An inner node on the way down, with the child that was taken and what bounds the node's keys.
#[derive(Clone, Copy, Debug)]
struct Step {
    node: *mut Node,
    child: usize,
    low: Option<Entry>,
    high: Option<Entry>,
}

// Sound: the pointers of a path are of nodes of the tree and used during one insertion only; the arena is `Send`.
unsafe impl Send for Inserter {}

/// Where an entry belongs: a leaf, while its version is this.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    leaf: *mut Node,
    version: u64,
}

/// The entries of a leaf as they were at one moment, and the leaf behind it.
pub struct Batch {
    entries: [Option<Entry>; WIDTH],
    len: usize,
    next: *mut Node,
}

// Sound: the entries are `Send` and `Sync`, and the pointer is of a node, which may be read from any thread.
unsafe impl Send for Batch {}
// Sound: as above; whoever shares one reads copies of entries only, and the pointer is followed by its owner alone.
unsafe impl Sync for Batch {}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self {
            entries: [None; WIDTH],
            len: 0,
            next: ptr::null_mut(),
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Entry number `at`, if there is one.
    pub fn get(&self, at: usize) -> Option<Entry> {
        if at < self.len {
            self.entries[at]
        } else {
            None
        }
    }

    fn copy(&mut self, leaf: &Node) -> Result<(), Changed> {
        let len = leaf.len();
        for at in 0..len {
            self.entries[at] = Some(leaf.entry(at)?);
        }
        (self.len, self.next) = (len, leaf.next());
        Ok(())
    }
}

impl Inserter {
    /// One that fills chunks of `chunks`.
    pub fn new(chunks: Arc<Chunks>) -> Self {
        Self {
            arena: Arena::new(chunks),
            node_bytes: 0,
            path: Vec::new(),
        }
    }

    /// Bytes of entries and nodes.
    pub fn bytes(&self) -> usize {
        self.arena.bytes() + self.node_bytes
    }

    fn place(&mut self, node: Node) -> *mut Node {
        self.node_bytes += node.more_bytes();
        self.arena.place(node)
    }
}

impl Tree {
    /// An empty tree, whose nodes are where the entries are. The inserter lives longer than the tree.
    pub fn new(inserter: &mut Inserter) -> Self {
        Self {
            root: AtomicPtr::new(inserter.arena.place(Node::leaf())),
        }
    }

    /// The root and its version, noted while it was the root.
    fn root(&self) -> (&Node, u64) {
        loop {
            let pointer = self.root.load(Ordering::Acquire);
            let root = Node::at(pointer).expect("a tree has a root");
            let version = root.begin();
            if self.root.load(Ordering::Acquire) == pointer {
                return (root, version);
            }
        }
    }

    /// Goes down to a leaf; `choose` picks the child. Answers the leaf with its version.
    fn descend(
        &self,
        choose: impl Fn(&Node) -> Result<usize, Changed>,
    ) -> Result<(&Node, u64), Changed> {
        let (mut node, mut version) = self.root();
        while node.is_inner() {
            let child = Node::at(node.child(choose(node)?)).ok_or(Changed)?;
            let child_version = child.begin();
            node.check(version)?;
            (node, version) = (child, child_version);
        }
        Ok((node, version))
    }

    /// The first entry at or behind the target.
    pub fn find(&self, target: Target<'_>) -> Option<Entry> {
        loop {
            if let Ok(found) = self.try_find(target) {
                return found;
            }
        }
    }

    fn try_find(&self, target: Target<'_>) -> Result<Option<Entry>, Changed> {
        let (leaf, version) = self.descend(|node| node.rank(target, Equal::Before))?;
        let at = leaf.rank(target, Equal::Behind)?;
        if at < leaf.len() {
            let entry = leaf.entry(at)?;
            leaf.check(version)?;
            return Ok(Some(entry));
        }
        let next = leaf.next();
        leaf.check(version)?;
        // A leaf behind another has a first entry, which stays.
        Node::at(next).map(|next| next.entry(0)).transpose()
    }

    /// Fills `batch` with the leaf that has the first entry at or behind the target; answers that entry's place, which is
    /// behind the batch where there is none.
    pub fn seek(&self, target: Target<'_>, batch: &mut Batch) -> usize {
        let at = loop {
            if let Ok(at) = self.try_seek(target, batch) {
                break at;
            }
        };
        if at == batch.len() && self.load_next(batch) {
            0
        } else {
            at
        }
    }

    fn try_seek(&self, target: Target<'_>, batch: &mut Batch) -> Result<usize, Changed> {
        let (leaf, version) = self.descend(|node| node.rank(target, Equal::Before))?;
        let at = leaf.rank(target, Equal::Behind)?;
        batch.copy(leaf)?;
        leaf.check(version)?;
        Ok(at)
    }

    /// Fills `batch` with the leaf that has the last entry before the target (of all for `None`); answers that entry's place.
    pub fn seek_before(&self, target: Option<Target<'_>>, batch: &mut Batch) -> Option<usize> {
        loop {
            if let Ok(at) = self.try_seek_before(target, batch) {
                return at;
            }
        }
    }

    fn try_seek_before(
        &self,
        target: Option<Target<'_>>,
        batch: &mut Batch,
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

    /// Fills `batch` with the leaf behind it; answers whether there is one.
    pub fn load_next(&self, batch: &mut Batch) -> bool {
        // Whatever was inserted since the batch was copied, its successor still begins where the batch ended.
        let Some(leaf) = Node::at(batch.next) else {
            return false;
        };
        loop {
            let version = leaf.begin();
            if batch.copy(leaf).is_ok() && leaf.check(version).is_ok() {
                return true;
            }
        }
    }

    /// Finds the leaf in which an entry belongs, and asks for it to come near. For the one thread that inserts.
    pub fn locate(&self, key: &[u8], version: Version) -> Place {
        let target = Target { key, version };
        let mut pointer = self.root.load(Ordering::Relaxed);
        loop {
            let node = Node::at(pointer).expect("a node of the tree");
            if !node.is_inner() {
                node.prefetch();
                let version = node.begin();
                return Place {
                    leaf: pointer,
                    version,
                };
            }
            let child = node.rank(target, Equal::Before);
            pointer = node.child(child.expect("the writer reads what it wrote"));
        }
    }

    /// As [`Tree::insert`], at a place that [`Tree::locate`] found for the same entry: where nothing has changed there since
    /// and there is room, the way down is saved.
    pub fn insert_at(
        &self,
        place: Place,
        inserter: &mut Inserter,
        key: &[u8],
        version: Version,
        value: Option<&[u8]>,
    ) {
        let leaf = Node::at(place.leaf).expect("a node of the tree");
        if leaf.check(place.version).is_err() || leaf.is_full() {
            return self.insert(inserter, key, version, value);
        }
        let target = Target { key, version };
        let at = leaf.rank(target, Equal::Behind);
        let at = at.expect("the writer reads what it wrote");
        let entry = inserter.arena.add(key, version, value);
        leaf.lock();
        leaf.insert(at, entry, ptr::null_mut());
        leaf.unlock();
    }

    /// Puts an entry in. No entry of the same key and version may be there.
    pub fn insert(
        &self,
        inserter: &mut Inserter,
        key: &[u8],
        version: Version,
        value: Option<&[u8]>,
    ) {
        let target = Target { key, version };
        let mut path = std::mem::take(&mut inserter.path);
        path.clear();
        let (mut low, mut high) = (None, None);
        let mut pointer = self.root.load(Ordering::Relaxed);
        let mut node = Node::at(pointer).expect("a tree has a root");
        let own = "the writer reads what it wrote";
        while node.is_inner() {
            let child = node.rank(target, Equal::Before).expect(own);
            path.push(Step {
                node: pointer,
                child,
                low,
                high,
            });
            if child > 0 {
                low = Some(node.entry(child - 1).expect(own));
            }
            if child < node.len() {
                high = Some(node.entry(child).expect(own));
            }
            pointer = node.child(child);
            node = Node::at(pointer).expect(own);
        }
        let at = node.rank(target, Equal::Behind).expect(own);
        debug_assert!(
            at == node.len() || node.entry(at).expect(own).compare(key, version).is_ne(),
            "an entry comes once"
        );
        let entry = inserter.arena.add(key, version, value);
        if !node.is_full() {
            node.lock();
            node.insert(at, entry, ptr::null_mut());
            node.unlock();
        } else {
            self.insert_full(
                inserter,
                &path,
                Step {
                    node: pointer,
                    child: at,
                    low,
                    high,
                },
                entry,
            );
        }
        inserter.path = path;
    }

    /// Puts an entry into a full leaf: splits it, and the full nodes above it.
    fn insert_full(&self, inserter: &mut Inserter, path: &[Step], leaf: Step, entry: Entry) {
        let node = |pointer: *mut Node| Node::at(pointer).expect("a node of the path");
        // The lowest inner node with room, and all full ones below it, change.
        let first = path.iter().rposition(|step| !node(step.node).is_full());
        let changed = &path[first.unwrap_or(0)..];
        changed.iter().for_each(|step| node(step.node).lock());
        let left = node(leaf.node);
        left.lock();

        // What ascends leaves full leaves behind.
        let middle = if leaf.child == WIDTH {
            WIDTH
        } else {
            WIDTH / 2
        };
        let right = left.split_leaf(middle);
        if middle == WIDTH {
            right.insert(0, entry, ptr::null_mut());
        }
        let separator = right.entry(0).expect("not empty");
        left.set_fences(leaf.low, Some(separator));
        right.set_fences(Some(separator), leaf.high);
        if middle < leaf.child && middle < WIDTH {
            right.insert(leaf.child - middle, entry, ptr::null_mut());
        } else if middle < WIDTH {
            left.insert(leaf.child, entry, ptr::null_mut());
        }
        let mut right = inserter.place(right);
        left.set_next(right);

        let mut up = Some(separator);
        for step in changed.iter().rev() {
            let separator = up
                .take()
                .expect("each level gets one separator until one has room");
            let inner = node(step.node);
            if !inner.is_full() {
                inner.insert(step.child, separator, right);
                continue;
            }
            let middle = if step.child == WIDTH {
                WIDTH - 1
            } else {
                WIDTH / 2
            };
            let (middle_entry, right_inner) = inner.split_inner(middle);
            inner.set_fences(step.low, Some(middle_entry));
            right_inner.set_fences(Some(middle_entry), step.high);
            if step.child > middle {
                right_inner.insert(step.child - middle - 1, separator, right);
            } else {
                inner.insert(step.child, separator, right);
            }
            right = inserter.place(right_inner);
            up = Some(middle_entry);
        }
        if let Some(separator) = up {
            let root = Node::inner(self.root.load(Ordering::Relaxed));
            root.insert(0, separator, right);
            self.root.store(inserter.place(root), Ordering::Release);
        }
        left.unlock();
        changed
            .iter()
            .rev()
            .for_each(|step| node(step.node).unlock());
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // Sound: whoever reads holds the memtable, so nobody does; the arena that the nodes are in goes after the tree.
        unsafe { Node::drop_all(self.root.load(Ordering::Relaxed)) };
    }
}
