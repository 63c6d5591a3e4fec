//! An ordered map of bytes with free copies: a B+-tree with shared nodes, copied on write.
//!
//! A clone costs one reference count. A change copies the shared nodes on its path, at most [`WIDTH`] entries
//! per level; long values are never copied. Nodes that no clone reaches any more are freed at once.

mod leaf;

use std::{ops::ControlFlow, sync::Arc};

use self::leaf::{Leaf, Source};
use crate::{KeyRange, Order, Visitor};

/// Most entries of a node.
const WIDTH: usize = 32;
/// Adjacent nodes that together have no more entries than this are merged.
const JOIN: usize = WIDTH / 2;

/// A pair to put.
pub(crate) type Pair<'a> = (&'a [u8], &'a [u8]);

/// The map.
#[derive(Clone, Debug)]
pub struct Tree {
    root: Arc<Node>,
    len: u64,
    bytes: u64,
}

#[derive(Clone, Debug)]
enum Node {
    /// Pairs, ascending.
    Leaf(Leaf),
    /// Children, ascending; `low` of the first one is not used.
    Inner(Vec<Child>),
}

/// A subtree with the lowest key that may be in it.
#[derive(Clone, Debug)]
struct Child {
    low: Arc<[u8]>,
    node: Arc<Node>,
}

/// Number of pairs, and bytes of keys and values.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    len: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.len += 1;
        self.bytes += (key.len() + value.len()) as u64;
    }
}

impl Default for Tree {
    fn default() -> Self {
        Self {
            root: Arc::new(Node::Leaf(Leaf::default())),
            len: 0,
            bytes: 0,
        }
    }
}

impl Tree {
    /// Number of pairs.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The value under `key`.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(pairs) => return Some(pairs.value(pairs.search(key).ok()?)),
                Node::Inner(children) => node = &children[child_of(children, key)].node,
            }
        }
    }

    /// Puts a pair.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        let (key_len, value_len) = (key.len() as u64, value.len() as u64);
        let root = Arc::make_mut(&mut self.root);
        let (replaced, split) = put(root, key, value);
        if let Some(right) = split {
            let left = Child {
                low: Arc::from(&b""[..]),
                node: self.root.clone(),
            };
            self.root = Arc::new(Node::Inner(vec![left, right]));
        }
        match replaced {
            Some(old) => self.bytes = self.bytes + value_len - old as u64,
            None => {
                self.len += 1;
                self.bytes += key_len + value_len;
            }
        }
    }

    /// Puts pairs, whose keys ascend: each node on the path is visited once for all pairs that belong into it.
    pub fn put_all(&mut self, pairs: &[Pair<'_>]) {
        debug_assert!(pairs.windows(2).all(|two| two[0].0 < two[1].0));
        if pairs.is_empty() {
            return;
        }
        let (mut added, mut replaced) = (Sum::default(), Sum::default());
        pairs.iter().for_each(|(key, value)| added.add(key, value));
        let mut rest = put_many(&mut self.root, pairs, &mut replaced);
        while !rest.is_empty() {
            let mut children = vec![Child {
                low: Arc::from(&b""[..]),
                node: self.root.clone(),
            }];
            children.append(&mut rest);
            let mut pieces = in_pieces(children).into_iter();
            let first = pieces.next().unwrap_or_default();
            self.root = Arc::new(Node::Inner(first));
            rest = pieces.map(inner_child).collect();
        }
        self.len = self.len + added.len - replaced.len;
        self.bytes = self.bytes + added.bytes - replaced.bytes;
    }

    /// Deletes `key`.
    pub fn delete(&mut self, key: &[u8]) {
        if self.get(key).is_some() {
            let mut end = key.to_vec();
            end.push(0);
            self.delete_range(KeyRange {
                start: key,
                end: Some(&end),
            });
        }
    }

    /// Deletes every key of `range`. Whole subtrees are dropped in one step.
    pub fn delete_range(&mut self, range: KeyRange<'_>) {
        let mut removed = Sum::default();
        delete_range(Arc::make_mut(&mut self.root), range, &mut removed);
        self.len -= removed.len;
        self.bytes -= removed.bytes;
        while let Node::Inner(children) = &*self.root {
            match children.len() {
                0 => self.root = Arc::new(Node::Leaf(Leaf::default())),
                1 => self.root = children[0].node.clone(),
                _ => break,
            }
        }
    }

    /// Calls `visit` with the pairs of `range` in `order` until it breaks.
    pub fn visit(&self, range: KeyRange<'_>, order: Order, visit: &mut Visitor<'_>) {
        let _ = match order {
            Order::Ascending => ascend(&self.root, range, visit),
            Order::Descending => descend(&self.root, range, visit),
        };
    }
}

/// Index of the child that `key` belongs to.
fn child_of(children: &[Child], key: &[u8]) -> usize {
    children[1..].partition_point(|child| *child.low <= *key)
}

/// Puts a pair; returns the length of the value that it replaces, and the new right sibling if the node was
/// split.
fn put(node: &mut Node, key: &[u8], value: &[u8]) -> (Option<usize>, Option<Child>) {
    match node {
        Node::Leaf(pairs) => match pairs.search(key) {
            Ok(at) => (Some(pairs.replace(at, value)), None),
            Err(at) => {
                pairs.insert(at, key, value);
                if pairs.len() <= WIDTH {
                    return (None, None);
                }
                let right = pairs.split_off(split_at(at, pairs.len()));
                (None, Some(leaf_child(right)))
            }
        },
        Node::Inner(children) => {
            let at = child_of(children, key);
            let (replaced, split) = put(Arc::make_mut(&mut children[at].node), key, value);
            if let Some(child) = split {
                children.insert(at + 1, child);
                if children.len() > WIDTH {
                    let right = children.split_off(split_at(at + 1, children.len()));
                    return (replaced, Some(inner_child(right)));
                }
            }
            (replaced, None)
        }
    }
}

/// Splits the entries of a node into as few nodes as hold them: full ones, as single puts of ascending keys
/// create them.
fn in_pieces<T>(mut entries: Vec<T>) -> Vec<Vec<T>> {
    if entries.len() <= WIDTH {
        return vec![entries];
    }
    let count = entries.len().div_ceil(WIDTH);
    let mut pieces = Vec::with_capacity(count);
    for piece in (1..count).rev() {
        pieces.push(entries.split_off(piece * entries.len() / (piece + 1)));
    }
    pieces.push(entries);
    pieces.reverse();
    pieces
}

fn inner_child(children: Vec<Child>) -> Child {
    Child {
        low: children[0].low.clone(),
        node: Arc::new(Node::Inner(children)),
    }
}

fn leaf_child(pairs: Leaf) -> Child {
    Child {
        low: pairs.key(0).into(),
        node: Arc::new(Node::Leaf(pairs)),
    }
}

/// Puts pairs that belong into `node`, at least one; returns the new right siblings.
fn put_many(node: &mut Arc<Node>, pairs: &[Pair<'_>], replaced: &mut Sum) -> Vec<Child> {
    if let Node::Leaf(own) = &**node {
        let leaves = merged(own, pairs, replaced);
        let mut leaves = leaves.into_iter();
        *node = Arc::new(Node::Leaf(leaves.next().unwrap_or_default()));
        return leaves.map(leaf_child).collect();
    }
    let Node::Inner(children) = Arc::make_mut(node) else {
        return Vec::new();
    };
    let mut made: Vec<(usize, Vec<Child>)> = Vec::new();
    let mut left = pairs;
    while let Some((key, _)) = left.first() {
        let at = child_of(children, key);
        let own = match children.get(at + 1) {
            Some(next) => left.partition_point(|(key, _)| **key < *next.low),
            None => left.len(),
        };
        let (own, rest) = left.split_at(own);
        left = rest;
        let new = put_many(&mut children[at].node, own, replaced);
        if !new.is_empty() {
            made.push((at, new));
        }
    }
    if made.is_empty() {
        return Vec::new();
    }
    let mut all = Vec::with_capacity(children.len() + made.len());
    let mut made = made.into_iter().peekable();
    for (at, child) in std::mem::take(children).into_iter().enumerate() {
        all.push(child);
        if let Some((_, new)) = made.next_if(|(after, _)| *after == at) {
            all.extend(new);
        }
    }
    let mut pieces = in_pieces(all).into_iter();
    *children = pieces.next().unwrap_or_default();
    pieces.map(inner_child).collect()
}

/// Merges the pairs of a leaf with others, into as many leaves as necessary.
fn merged(own: &Leaf, pairs: &[Pair<'_>], replaced: &mut Sum) -> Vec<Leaf> {
    let mut all = Vec::with_capacity(own.len() + pairs.len());
    let mut left = pairs;
    for old in 0..own.len() {
        let old_key = own.key(old);
        // Often many pairs, or none, belong between two existing ones.
        if left.first().is_some_and(|(key, _)| *key < old_key) {
            let below = left.partition_point(|(key, _)| *key < old_key);
            all.extend(left[..below].iter().map(Source::of));
            left = &left[below..];
        }
        match left.first() {
            Some(pair) if pair.0 == old_key => {
                replaced.add(old_key, own.value(old));
                all.push(Source::of(pair));
                left = &left[1..];
            }
            _ => all.push(own.source(old)),
        }
    }
    all.extend(left.iter().map(Source::of));
    let count = all.len().div_ceil(WIDTH).max(1);
    let ends = (0..=count).map(|piece| piece * all.len() / count);
    let starts = ends.clone();
    starts
        .zip(ends.skip(1))
        .map(|(start, end)| Leaf::of(&all[start..end]))
        .collect()
}

/// Where a full node of `len` entries is split: in the middle, or before the last entry if entries come in
/// ascending order.
fn split_at(inserted: usize, len: usize) -> usize {
    if inserted + 1 == len {
        len - 1
    } else {
        len / 2
    }
}

fn delete_range(node: &mut Node, range: KeyRange<'_>, removed: &mut Sum) {
    match node {
        Node::Leaf(pairs) => {
            let from = pairs.below(range.start);
            let to = range.end.map_or(pairs.len(), |end| pairs.below(end));
            let to = to.max(from);
            (from..to).for_each(|at| removed.add(pairs.key(at), pairs.value(at)));
            pairs.remove(from..to);
        }
        Node::Inner(children) => {
            let first = child_of(children, range.start);
            let last = range
                .end
                .map_or(children.len() - 1, |end| child_of(children, end));
            for at in first..=last {
                let above = at > 0 && *children[at].low >= *range.start;
                let below = match range.end {
                    None => true,
                    Some(end) => at + 1 < children.len() && *children[at + 1].low <= *end,
                };
                if above && below {
                    count(&children[at].node, removed);
                    children[at].node = Arc::new(Node::Leaf(Leaf::default()));
                } else {
                    delete_range(Arc::make_mut(&mut children[at].node), range, removed);
                }
            }
            children.retain(|child| child.node.len() > 0);
            join_small(children, first.saturating_sub(1));
        }
    }
}

/// Merges small adjacent `children` from `from` on.
fn join_small(children: &mut Vec<Child>, from: usize) {
    let mut at = from;
    while at + 1 < children.len() && at <= from + 3 {
        let joinable = children[at].node.len() + children[at + 1].node.len() <= JOIN;
        let same_kind = matches!(
            (&*children[at].node, &*children[at + 1].node),
            (Node::Leaf(_), Node::Leaf(_)) | (Node::Inner(_), Node::Inner(_))
        );
        if !(joinable && same_kind) {
            at += 1;
            continue;
        }
        let right = children.remove(at + 1);
        match (
            Arc::make_mut(&mut children[at].node),
            Arc::unwrap_or_clone(right.node),
        ) {
            (Node::Leaf(left), Node::Leaf(pairs)) => left.append(&pairs),
            (Node::Inner(left), Node::Inner(mut grandchildren)) => {
                // The lower bound of the first one was not used so far; now it is.
                if let Some(first) = grandchildren.first_mut() {
                    first.low = right.low;
                }
                left.append(&mut grandchildren);
            }
            _ => unreachable!("same kind"),
        }
    }
}

fn count(node: &Node, removed: &mut Sum) {
    match node {
        Node::Leaf(pairs) => {
            (0..pairs.len()).for_each(|at| removed.add(pairs.key(at), pairs.value(at)));
        }
        Node::Inner(children) => children
            .iter()
            .for_each(|child| count(&child.node, removed)),
    }
}

fn ascend(node: &Node, range: KeyRange<'_>, visit: &mut Visitor<'_>) -> ControlFlow<()> {
    match node {
        Node::Leaf(pairs) => {
            for at in pairs.below(range.start)..pairs.len() {
                let key = pairs.key(at);
                if range.end.is_some_and(|end| key >= end) {
                    return ControlFlow::Break(());
                }
                visit(key, pairs.value(at))?;
            }
            ControlFlow::Continue(())
        }
        Node::Inner(children) => children[child_of(children, range.start)..]
            .iter()
            .try_for_each(|child| ascend(&child.node, range, visit)),
    }
}

fn descend(node: &Node, range: KeyRange<'_>, visit: &mut Visitor<'_>) -> ControlFlow<()> {
    match node {
        Node::Leaf(pairs) => {
            let to = range.end.map_or(pairs.len(), |end| pairs.below(end));
            for at in (0..to).rev() {
                let key = pairs.key(at);
                if key < range.start {
                    return ControlFlow::Break(());
                }
                visit(key, pairs.value(at))?;
            }
            ControlFlow::Continue(())
        }
        Node::Inner(children) => {
            let last = range
                .end
                .map_or(children.len() - 1, |end| child_of(children, end));
            children[..=last]
                .iter()
                .rev()
                .try_for_each(|child| descend(&child.node, range, visit))
        }
    }
}

impl Node {
    fn len(&self) -> usize {
        match self {
            Node::Leaf(pairs) => pairs.len(),
            Node::Inner(children) => children.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Put(u16),
        Delete(u16),
        DeleteRange(u16, u16),
        /// Number of keys, the first one and the distance between them.
        PutMany(u16, u16, u16),
        Clone,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            20 => (0u16..600).prop_map(Step::Put),
            8 => (0u16..600).prop_map(Step::Delete),
            1 => (0u16..600, 0u16..200).prop_map(|(from, len)| Step::DeleteRange(from, from + len)),
            1 => (0u16..600, 1u16..300, 1u16..9)
                .prop_map(|(from, count, step)| Step::PutMany(from, count, step)),
            1 => Just(Step::Clone),
        ]
    }

    fn pairs(tree: &Tree, range: KeyRange<'_>, order: Order) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut pairs = Vec::new();
        tree.visit(range, order, &mut |key, value| {
            pairs.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        });
        pairs
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The tree agrees with a sorted map, and older clones never change.
        #[test]
        fn the_tree_is_a_map_with_free_copies(
            steps in prop::collection::vec(step(), 0..1500), from in 0u16..600, len in 0u16..600
        ) {
            let (mut tree, mut map) = (Tree::default(), BTreeMap::new());
            let mut clones = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Put(key) => {
                        // Some are long enough to be shared instead of copied with the leaf.
                        let value = number.to_be_bytes().repeat(1 + number % 40);
                        tree.put(&key.to_be_bytes(), &value);
                        map.insert(key.to_be_bytes().to_vec(), value);
                    }
                    Step::PutMany(from, count, step) => {
                        // Some are long enough to be shared instead of copied with the leaf.
                        let value = number.to_be_bytes().repeat(1 + number % 40);
                        let keys = (0..count).map(|at| from + at * step);
                        let bytes: Vec<[u8; 2]> = keys.clone().map(u16::to_be_bytes).collect();
                        let many: Vec<Pair<'_>> = bytes.iter().map(|key| (&key[..], &value[..])).collect();
                        tree.put_all(&many);
                        map.extend(keys.map(|key| (key.to_be_bytes().to_vec(), value.clone())));
                    }
                    Step::Delete(key) => {
                        tree.delete(&key.to_be_bytes());
                        map.remove(key.to_be_bytes().as_slice());
                    }
                    Step::DeleteRange(from, to) => {
                        tree.delete_range(KeyRange { start: &from.to_be_bytes(), end: Some(&to.to_be_bytes()) });
                        map.retain(|key, _| {
                            key.as_slice() < from.to_be_bytes().as_slice()
                                || key.as_slice() >= to.to_be_bytes().as_slice()
                        });
                    }
                    Step::Clone => clones.push((tree.clone(), map.clone())),
                }
            }
            clones.push((tree, map));
            for (tree, map) in clones {
                prop_assert_eq!(tree.len(), map.len() as u64);
                let bytes = map.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
                prop_assert_eq!(tree.bytes(), bytes);
                let all = KeyRange { start: b"", end: None };
                let expected: Vec<_> = map.clone().into_iter().collect();
                prop_assert_eq!(pairs(&tree, all, Order::Ascending), expected);
                let (start, end) = (from.to_be_bytes().to_vec(), (from + len).to_be_bytes().to_vec());
                let range = map.range(start.clone()..end.clone());
                let mut expected: Vec<_> = range.map(|(key, value)| (key.clone(), value.clone())).collect();
                let part = KeyRange { start: &start, end: Some(&end) };
                prop_assert_eq!(pairs(&tree, part, Order::Ascending), expected.clone());
                expected.reverse();
                prop_assert_eq!(pairs(&tree, part, Order::Descending), expected);
                for key in 0u16..600 {
                    let expected = map.get(key.to_be_bytes().as_slice()).map(Vec::as_slice);
                    prop_assert_eq!(tree.get(&key.to_be_bytes()), expected);
                }
            }
        }
    }

    /// A deep tree that shrinks while keys are put again still finds every key: merged nodes are in order.
    #[test]
    fn deep_trees_shrink_in_order() {
        const KEYS: u32 = 30_000;
        let mixed = |number: u32| number.wrapping_mul(0x9e37_79b1).to_be_bytes();
        let (mut tree, mut map) = (Tree::default(), BTreeMap::new());
        for number in 0..KEYS {
            tree.put(&mixed(number), b"first");
            map.insert(mixed(number).to_vec(), b"first".to_vec());
        }
        for round in 0u32..40 {
            // A wide gap, which empties the first children of inner nodes.
            let start = mixed(round * 977);
            let end = u32::from_be_bytes(start)
                .saturating_add(1 << 27)
                .to_be_bytes();
            tree.delete_range(KeyRange {
                start: &start,
                end: Some(&end),
            });
            let inside: Vec<Vec<u8>> = map
                .range(start.to_vec()..end.to_vec())
                .map(|(key, _)| key.clone())
                .collect();
            inside.iter().for_each(|key| drop(map.remove(key)));
            // Some keys are put again, others are deleted, one by one.
            for number in 0..KEYS / 60 {
                let key = mixed(round * 31 + number * 60);
                if map.remove(key.as_slice()).is_some() {
                    tree.delete(&key);
                } else {
                    tree.put(&key, b"again");
                    map.insert(key.to_vec(), b"again".to_vec());
                }
            }
            let all = KeyRange {
                start: b"",
                end: None,
            };
            assert_eq!(
                pairs(&tree, all, Order::Ascending),
                map.clone().into_iter().collect::<Vec<_>>()
            );
            assert!(
                map.iter().all(|(key, value)| tree.get(key) == Some(value)),
                "round {round}"
            );
            assert_eq!(tree.len(), map.len() as u64);
        }
        assert!((1000..20_000).contains(&map.len()), "{}", map.len());
    }

    /// Deleting everything leaves a working empty tree, not a skeleton of empty nodes.
    #[test]
    fn an_emptied_tree_shrinks_to_nothing() {
        let mut tree = Tree::default();
        for key in 0u32..10_000 {
            tree.put(&key.to_be_bytes(), b"v");
        }
        for key in 0u32..10_000 {
            tree.delete(&key.to_be_bytes());
        }
        assert_eq!((tree.len(), tree.bytes()), (0, 0));
        assert!(matches!(&*tree.root, Node::Leaf(pairs) if pairs.len() == 0));
        tree.put(b"a", b"b");
        assert_eq!(tree.get(b"a"), Some(&b"b"[..]));
    }
}
