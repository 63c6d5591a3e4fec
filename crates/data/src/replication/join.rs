//! Joining the state of another replica with this one's, as it comes in pages.
//!
//! What both hold stays; what one holds stays unless the other has seen it, and so has seen it go. A state that comes in one page is
//! joined in one transaction. One of several pages is joined in one transaction a page, and until all of it, and what
//! happened meanwhile, is here, the database answers nobody: it says that it is being brought up to date. That is
//! written down, so that it holds after a crash, too; joining begins anew then.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use isomer_storage::{Durability, StorageError};
use isomer_value::{NodeId, PropId, RelId, TypeId};
use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::xxh3_128;

use super::{
    codec::{malformed, take_byte, take_bytes, take_count, take_u32},
    conflicts::contested,
    shadow::{NodeShadow, Properties, RelShadow},
    snapshot::{self, entry_versions, take_identity, take_space},
    versions::{Version, join, join_stamps, take_versions},
    wire::{self, Incoming, Mapper},
};
use crate::{
    ConvergentOwner, DataError, Store, Transaction,
    catalog::NameKind,
    convergent::{Vector, join_rows, replica::encode_seen},
    keyspace::{
        self, IdSpace, JOINING, TAG_NODE, TAG_REL, after_prefix, push_id, sole_id, take_id,
    },
};

/// Records that are looked at in one transaction of the last step.
const SWEPT: usize = 10_000;

/// A state that is being joined.
pub struct Joining {
    _alone: Alone,
    /// What the first page had seen.
    theirs: Option<Vector>,
    place: Vec<u8>,
    pages: u64,
    nodes: Ids,
    relationships: Ids,
    entries: FxHashSet<u128>,
}

/// Held by the only one that joins.
struct Alone(Arc<AtomicBool>);

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A set of ids: a bit each.
#[derive(Default)]
struct Ids(FxHashMap<u64, u64>);

impl Ids {
    fn insert(&mut self, id: u64) {
        *self.0.entry(id >> 6).or_default() |= 1 << (id & 63);
    }

    fn contains(&self, id: u64) -> bool {
        self.0
            .get(&(id >> 6))
            .is_some_and(|bits| bits >> (id & 63) & 1 == 1)
    }
}

impl Store {
    /// Begins to join another replica's state. Nothing else is applied until it is dropped.
    ///
    /// # Errors
    /// [`DataError::Storage`] (unavailable) while another one is being joined.
    pub fn begin_join(&self) -> Result<Joining, DataError> {
        let replication = &self.shared().replication;
        // Whoever is applying comes to an end first.
        let _applying = replication.applying.lock();
        if replication.joins.swap(true, Ordering::AcqRel) {
            return Err(joining_error());
        }
        Ok(Joining {
            _alone: Alone(replication.joins.clone()),
            theirs: None,
            place: Vec::new(),
            pages: 0,
            nodes: Ids::default(),
            relationships: Ids::default(),
            entries: FxHashSet::default(),
        })
    }

    /// Whether somebody is joining a state right now.
    pub(super) fn is_being_joined(&self) -> bool {
        self.shared().replication.joins.load(Ordering::Acquire)
    }

    /// Whether a state is being joined, so that nobody else is answered.
    pub fn is_joining(&self) -> bool {
        self.shared().replication.is_joining()
    }

    /// Notes that nobody is answered before so much has been seen, of this state and of those whose joining broke off.
    fn mark_joining(&self, seen: &Vector, is_whole: bool) -> Result<(), DataError> {
        let mut tx = self.engine().begin()?;
        let mut until = match tx.get(JOINING)? {
            Some(stored) => decode_note(&stored)?.1,
            None => Vector::new(),
        };
        until.join(seen);
        let mut stored = vec![u8::from(is_whole)];
        until.push_local(&mut stored);
        tx.put(JOINING, &stored)?;
        tx.commit(Durability::Synced)?;
        self.shared().replication.set_joining(true);
        Ok(())
    }

    /// Answers again, where everything that was joined has been completed from the log.
    pub(super) fn end_joining(&self) -> Result<(), DataError> {
        if !self.is_joining() {
            return Ok(());
        }
        let mut tx = self.engine().begin()?;
        let Some(stored) = tx.get(JOINING)? else {
            self.shared().replication.set_joining(false);
            return Ok(());
        };
        let (is_whole, until) = decode_note(&stored)?;
        if !is_whole || !self.seen_in(&*tx, None)?.includes(&until) {
            return Ok(());
        }
        tx.delete(JOINING)?;
        tx.commit(Durability::Synced)?;
        self.shared().replication.set_joining(false);
        Ok(())
    }
}

/// Layout: u8 whether all pages were joined, vector of what they had seen.
fn decode_note(stored: &[u8]) -> Result<(bool, Vector), DataError> {
    let mut rest = stored;
    let note = take_byte(&mut rest).zip(Vector::take_local(&mut rest));
    match note {
        Some((whole, until)) if rest.is_empty() => Ok((whole == 1, until)),
        _ => Err(malformed("the note of a snapshot")),
    }
}

/// Why nobody is answered.
pub(crate) fn joining_error() -> DataError {
    StorageError::Unavailable(
        "this database is being brought up to date from a snapshot of another replica: wait for `isomer sync`, or run it again".into(),
    )
    .into()
}

impl Joining {
    /// Where the next page begins; [`Store::snapshot_page`] of the other replica makes it.
    pub fn place(&self) -> &[u8] {
        &self.place
    }

    /// How many pages were joined.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Joins a page; answers whether it was the last. Exchange entries then: what happened since the first page is there.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for a page that is none; those of a commit.
    pub fn join_page(&mut self, store: &Store, page: &[u8]) -> Result<bool, DataError> {
        let _applying = store.shared().replication.applying.lock();
        let (mut map, items) = Incoming::open(store, page)?;
        let (seen, is_last) = head(&mut map, items)?;
        let theirs = self.theirs.get_or_insert_with(|| seen.clone()).clone();
        let is_only = self.pages == 0 && is_last;
        if !is_only {
            store.mark_joining(&seen, false)?;
        }
        let mut place = Vec::new();
        let (mut nodes, mut rels) = (Vec::new(), Vec::new());
        let mut entries = Vec::new();
        store.merging(|tx| {
            // It may run several times.
            place.clear();
            nodes.clear();
            rels.clear();
            entries.clear();
            let mut rest = items;
            // Of this very state: what was removed here since the page before must not come back.
            let here = store.seen_in(tx.read(), None)?;
            let sides = Sides {
                here: &here,
                theirs: &theirs,
            };
            while let Some((tag, content)) = wire::take_item(&mut rest)? {
                match tag {
                    10 | 18 => {}
                    11 => nodes.extend(tx.join_node(&mut map, content, &sides)?),
                    12 => rels.extend(tx.join_relationship(&mut map, content, &sides)?),
                    13 => tx.join_field(&mut map, content, &sides)?,
                    14 | 15 => entries.push(tx.join_entry(&mut map, tag, content, &sides)?),
                    16 => tx.join_sequence(&mut map, content)?,
                    17 => place = content.to_vec(),
                    _ => return Err(wire::bad_item()),
                }
            }
            if is_only {
                let (mut seen_nodes, mut seen_rels) = (Ids::default(), Ids::default());
                nodes.iter().for_each(|id: &NodeId| seen_nodes.insert(id.0));
                rels.iter().for_each(|id: &RelId| seen_rels.insert(id.0));
                let seen_entries = entries.iter().copied().collect();
                let mut from = Some(Vec::new());
                while let Some(place) = from {
                    let visited = (&seen_nodes, &seen_rels, &seen_entries);
                    from = tx.sweep(&place, visited, &sides)?;
                }
                tx.put_joined(&sides)?;
            }
            Ok(())
        })?;
        nodes.iter().for_each(|id| self.nodes.insert(id.0));
        rels.iter().for_each(|id| self.relationships.insert(id.0));
        self.entries.extend(entries);
        self.place = place;
        self.pages += 1;
        if is_last && !is_only {
            self.finish(store, &seen)?;
        } else if is_last && store.is_joining() {
            // One that broke off before left its note.
            store.mark_joining(&seen, true)?;
            store.end_joining()?;
        }
        // What is written from now on is later than all that came.
        store.shared().own_replica.reached(map.latest());
        store.engine().sync()?;
        Ok(is_last)
    }

    /// Takes away what the other replica has seen go, and notes what was seen.
    fn finish(&mut self, store: &Store, last: &Vector) -> Result<(), DataError> {
        let theirs = self.theirs.clone().unwrap_or_default();
        let mut from = Some(Vec::new());
        while let Some(place) = from {
            from = store.merging(|tx| {
                let here = store.seen_in(tx.read(), None)?;
                let sides = Sides {
                    here: &here,
                    theirs: &theirs,
                };
                let visited = (&self.nodes, &self.relationships, &self.entries);
                tx.sweep(&place, visited, &sides)
            })?;
        }
        store.merging(|tx| {
            let here = store.seen_in(tx.read(), None)?;
            tx.put_joined(&Sides {
                here: &here,
                theirs: &theirs,
            })
        })?;
        store.mark_joining(last, true)?;
        store.end_joining()
    }
}

impl Store {
    /// Takes what is in a page and not here, and takes nothing away. Both must have seen the same.
    pub(super) fn join_union(&self, page: &[u8]) -> Result<(), DataError> {
        let (mut map, items) = Incoming::open(self, page)?;
        let (seen, _) = head(&mut map, items)?;
        let none = Vector::new();
        let sides = Sides {
            here: &none,
            theirs: &none,
        };
        self.merging(|tx| {
            let here = self.seen_in(tx.read(), None)?;
            if !here.includes(&seen) || !seen.includes(&here) {
                return Err(StorageError::Unavailable(
                    "something was written while the two were compared: compare them again".into(),
                )
                .into());
            }
            let mut rest = items;
            while let Some((tag, content)) = wire::take_item(&mut rest)? {
                match tag {
                    10 => {}
                    11 => drop(tx.join_node(&mut map, content, &sides)?),
                    12 => drop(tx.join_relationship(&mut map, content, &sides)?),
                    13 => tx.join_field(&mut map, content, &sides)?,
                    14 | 15 => drop(tx.join_entry(&mut map, tag, content, &sides)?),
                    _ => return Err(wire::bad_item()),
                }
            }
            Ok(())
        })
    }
}

/// What a page's state has seen, and whether it is the last one.
fn head(map: &mut Incoming<'_>, mut items: &[u8]) -> Result<(Vector, bool), DataError> {
    let (mut seen, mut is_last) = (None, false);
    while let Some((tag, mut content)) = wire::take_item(&mut items)? {
        match tag {
            10 => {
                let vector = Vector::take_local(&mut content).ok_or_else(wire::bad_item)?;
                seen = Some(wire::vector(map, &vector)?);
            }
            18 => is_last = true,
            _ => {}
        }
    }
    Ok((seen.ok_or_else(wire::bad_item)?, is_last))
}

/// What both sides have seen.
struct Sides<'v> {
    here: &'v Vector,
    theirs: &'v Vector,
}

impl Sides<'_> {
    fn properties(&self, ours: &Properties, theirs: &Properties) -> Properties {
        let props: FxHashSet<PropId> = ours.keys().chain(theirs.keys()).copied().collect();
        let none = Vec::new();
        props
            .into_iter()
            .map(|prop| {
                let (one, other) = (
                    ours.get(&prop).unwrap_or(&none),
                    theirs.get(&prop).unwrap_or(&none),
                );
                (prop, join(one, self.here, other, self.theirs))
            })
            .filter(|(_, versions)| !versions.is_empty())
            .collect()
    }

    fn node(&self, ours: &NodeShadow, theirs: &NodeShadow) -> NodeShadow {
        let mut joined = NodeShadow::new(ours.identity.clone());
        joined.lives = join_stamps(&ours.lives, self.here, &theirs.lives, self.theirs);
        let none = Vec::new();
        for label in ours.labels.keys().chain(theirs.labels.keys()) {
            let (one, other) = (
                ours.labels.get(label).unwrap_or(&none),
                theirs.labels.get(label).unwrap_or(&none),
            );
            let stamps = join_stamps(one, self.here, other, self.theirs);
            if !stamps.is_empty() {
                joined.labels.insert(*label, stamps);
            }
        }
        joined.properties = self.properties(&ours.properties, &theirs.properties);
        joined
    }
}

impl Transaction {
    fn join_node(
        &mut self,
        map: &mut Incoming<'_>,
        content: &[u8],
        sides: &Sides<'_>,
    ) -> Result<Option<NodeId>, DataError> {
        let mut rest = content;
        let shadow = take_bytes(&mut rest).ok_or_else(wire::bad_item)?;
        let theirs = NodeShadow::decode(shadow, None).map_err(|_| wire::bad_item())?;
        let theirs = snapshot::node(map, &theirs)?;
        let fields = take_fields(map, &mut rest)?;
        let found = self.find_node(&theirs.identity)?;
        if let Some(id) = found {
            self.join_absent_fields(ConvergentOwner::Node(id), &fields, sides)?;
        }
        self.settle_joined(&theirs, sides, !fields.is_empty())?;
        self.find_node(&theirs.identity)
    }

    /// `keep` makes a ghost where nothing is left: fields come.
    fn settle_joined(
        &mut self,
        theirs: &NodeShadow,
        sides: &Sides<'_>,
        keep: bool,
    ) -> Result<(), DataError> {
        let (id, ours, old) = match self.find_node(&theirs.identity)? {
            Some(id) => {
                let shadow = self.node_shadow(id)?;
                let shadow = shadow.ok_or_else(|| malformed("what is known of a node"))?;
                (Some(id), shadow, self.load_node(id)?)
            }
            None => (None, NodeShadow::new(theirs.identity.clone()), None),
        };
        let before = (ours.life_dots(), contested(&ours.properties));
        let joined = sides.node(&ours, theirs);
        if id.is_some() && joined == ours {
            return Ok(());
        }
        if id.is_none() && joined.is_empty() && !keep {
            return Ok(());
        }
        let id = match id {
            Some(id) => id,
            None => self.new_node_id(joined.labels.keys().next().copied())?,
        };
        if joined.is_empty() && keep && old.is_none() {
            return self.put_node_shadow(id, &joined, &[], false);
        }
        self.settle_node(id, old, joined, before)
    }

    fn join_relationship(
        &mut self,
        map: &mut Incoming<'_>,
        content: &[u8],
        sides: &Sides<'_>,
    ) -> Result<Option<RelId>, DataError> {
        let mut rest = content;
        let type_id = take_u32(&mut rest).ok_or_else(wire::bad_item)?;
        let type_id = wire::type_id(map, TypeId(type_id))?;
        let source = take_identity(map, &mut rest)?;
        let target = take_identity(map, &mut rest)?;
        let shadow = take_bytes(&mut rest).ok_or_else(wire::bad_item)?;
        let theirs = RelShadow::decode_told(shadow).map_err(|_| wire::bad_item())?;
        let theirs = snapshot::relationship(map, &theirs)?;
        let fields = take_fields(map, &mut rest)?;
        match self.find_rel(&theirs.identity)? {
            Some(id) => {
                self.join_absent_fields(ConvergentOwner::Relationship(id), &fields, sides)?;
                self.edit_relationship(id, &mut |ours| {
                    ours.properties = sides.properties(&ours.properties, &theirs.properties);
                })?;
            }
            None if sides.here.covers(theirs.life.dot) => return Ok(None),
            None => {
                let mut new = theirs.clone();
                let none = Properties::new();
                new.properties = sides.properties(&none, &theirs.properties);
                self.make_relationship(type_id, &source, &target, new)?;
            }
        }
        self.find_rel(&theirs.identity)
    }

    /// Joins the fields that the other side does not have at all.
    fn join_absent_fields(
        &mut self,
        owner: ConvergentOwner,
        there: &[PropId],
        sides: &Sides<'_>,
    ) -> Result<(), DataError> {
        for prop in self.convergent_properties_of(owner)? {
            if !there.contains(&prop) {
                self.join_rows(owner, prop, (&[], &[]), &[], sides)?;
            }
        }
        Ok(())
    }

    fn join_field(
        &mut self,
        map: &mut Incoming<'_>,
        content: &[u8],
        sides: &Sides<'_>,
    ) -> Result<(), DataError> {
        let mut rest = content;
        let space = take_space(&mut rest)?;
        let identity = take_identity(map, &mut rest)?;
        let prop = take_u32(&mut rest).ok_or_else(wire::bad_item)?;
        let prop = wire::prop(map, PropId(prop))?;
        let owner = match space {
            IdSpace::Nodes => self.find_node(&identity)?.map(ConvergentOwner::Node),
            IdSpace::Relationships => self.find_rel(&identity)?.map(ConvergentOwner::Relationship),
        };
        let (Some(from), Some(to)) = (take_bytes(&mut rest), take_bytes(&mut rest)) else {
            return Err(wire::bad_item());
        };
        let Some(owner) = owner else {
            return Ok(()); // it went meanwhile, or for good
        };
        self.store().enter_convergent(prop)?;
        let mut head = Vec::new();
        push_id(&mut head, prop.0.into());
        let count = take_count(&mut rest).ok_or_else(wire::bad_item)?;
        let mut rows = Vec::with_capacity(count.min(4096));
        for _ in 0..count {
            let (Some(key), Some(value)) = (take_bytes(&mut rest), take_bytes(&mut rest)) else {
                return Err(wire::bad_item());
            };
            let full = [&head[..], key].concat();
            let key = snapshot::map_row(map, &full, key).map_err(|_| wire::bad_item())?;
            rows.push(([&head[..], &key].concat(), value.to_vec()));
        }
        // The order of dots is that of replicas' numbers, which are others here.
        rows.sort_unstable();
        self.join_rows(owner, prop, (from, to), &rows, sides)
    }

    /// Joins the entries of one property, between two places below it.
    fn join_rows(
        &mut self,
        owner: ConvergentOwner,
        prop: PropId,
        (from, to): (&[u8], &[u8]),
        theirs: &[(Vec<u8>, Vec<u8>)],
        sides: &Sides<'_>,
    ) -> Result<(), DataError> {
        let prefix = owner.prefix();
        let mut head = prefix.clone();
        push_id(&mut head, prop.0.into());
        let start = [&head[..], from].concat();
        let end = match to.is_empty() {
            true => after_prefix(&head),
            false => Some([&head[..], to].concat()),
        };
        let mut ours = Vec::new();
        self.each_between(&start, end.as_deref(), &mut |key, value| {
            ours.push((key[prefix.len()..].to_vec(), value.to_vec()));
        })?;
        let joined = join_rows((sides.here, &ours), (sides.theirs, theirs))?;
        let mut changed = false;
        let (mut old, mut new) = (ours.iter().peekable(), joined.iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => break,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(one), Some(other)) => one.0.cmp(&other.0),
            };
            let one = if order.is_le() { old.next() } else { None };
            let other = if order.is_ge() { new.next() } else { None };
            match (one, other) {
                (Some((key, _)), None) => {
                    let gone = [&prefix[..], key].concat();
                    self.delete(&gone)?;
                }
                (one, Some((key, value))) if one.map(|one| &one.1) != Some(value) => {
                    let there = [&prefix[..], key].concat();
                    self.put(&there, value)?;
                }
                _ => continue,
            }
            changed = true;
        }
        if changed {
            self.clear_owner(owner);
        }
        Ok(())
    }

    /// Joins an entry of a bucket; answers what it was.
    fn join_entry(
        &mut self,
        map: &mut Incoming<'_>,
        tag: u8,
        content: &[u8],
        sides: &Sides<'_>,
    ) -> Result<u128, DataError> {
        let mut rest = content;
        let bucket = take_u32(&mut rest).ok_or_else(wire::bad_item)?;
        let bucket = map.name(NameKind::Bucket, bucket)?;
        let shape = match tag {
            14 => take_byte(&mut rest).ok_or_else(wire::bad_item)?,
            _ => 2,
        };
        self.make_bucket(bucket, shape)?;
        let key = take_bytes(&mut rest).ok_or_else(wire::bad_item)?;
        let value = match tag {
            14 => &[],
            _ => take_bytes(&mut rest).ok_or_else(wire::bad_item)?,
        };
        let theirs = take_versions(&mut rest, &[]).ok_or_else(wire::bad_item)?;
        let theirs = entry_versions(map, &theirs)?;
        let stored = match tag {
            14 => keyspace::bucket_entry(bucket, key),
            _ => keyspace::bucket_pair(bucket, key, value),
        };
        let ours = self.cell_versions(&stored)?;
        let joined = join(&ours, sides.here, &theirs, sides.theirs);
        match tag {
            14 => self.settle_entry(bucket, key, &ours, joined)?,
            _ => self.settle_pair(bucket, key, value, &ours, joined)?,
        }
        Ok(xxh3_128(&stored))
    }

    fn join_sequence(&mut self, map: &mut Incoming<'_>, content: &[u8]) -> Result<(), DataError> {
        let mut rest = content;
        let bucket = take_u32(&mut rest).ok_or_else(wire::bad_item)?;
        let bucket = map.name(NameKind::Bucket, bucket)?;
        let name = take_bytes(&mut rest).and_then(|name| std::str::from_utf8(name).ok());
        let last = take_id(&mut rest);
        let (name, last) = name.zip(last).ok_or_else(wire::bad_item)?;
        let bucket = self.bucket_name(bucket)?;
        self.sequence_skip_to(&bucket, name, last)
    }

    /// Joins what is here alone, a part of it; answers where to go on.
    fn sweep(
        &mut self,
        place: &[u8],
        (nodes, rels, entries): (&Ids, &Ids, &FxHashSet<u128>),
        sides: &Sides<'_>,
    ) -> Result<Option<Vec<u8>>, DataError> {
        let parts = [
            vec![TAG_REL],
            vec![TAG_NODE],
            keyspace::shadows(IdSpace::Nodes),
            vec![keyspace::TAG_BUCKET_ENTRY],
            vec![keyspace::TAG_BUCKET_PAIR],
        ];
        let part = usize::from(place.first().copied().unwrap_or(0));
        let Some(prefix) = parts.get(part) else {
            return Ok(None);
        };
        let start = match place {
            [] | [_] => prefix.clone(),
            [_, from @ ..] => from.to_vec(),
        };
        let end = after_prefix(prefix);
        let (keys, next) = self.some_keys(&start, end.as_deref(), SWEPT)?;
        for key in &keys {
            let id = || sole_id(&key[prefix.len()..], "the key of a record");
            match part {
                0 => {
                    let id = RelId(id()?);
                    if rels.contains(id.0) {
                        continue;
                    }
                    let Some(shadow) = self.rel_shadow(id)? else {
                        continue;
                    };
                    if sides.theirs.covers(shadow.life.dot) {
                        self.purge_relationship(id)?;
                    }
                }
                1 | 2 => {
                    let id = NodeId(id()?);
                    if nodes.contains(id.0) {
                        continue;
                    }
                    let Some(shadow) = self.node_shadow(id)? else {
                        continue;
                    };
                    self.join_absent_fields(ConvergentOwner::Node(id), &[], sides)?;
                    let absent = NodeShadow::new(shadow.identity);
                    self.settle_joined(&absent, sides, false)?;
                }
                _ => {
                    if entries.contains(&xxh3_128(key)) {
                        continue;
                    }
                    self.sweep_one(part, key, sides)?;
                }
            }
        }
        Ok(Some(match next {
            Some(next) => [&[part as u8], &next[..]].concat(),
            None => vec![part as u8 + 1],
        }))
    }

    fn sweep_one(
        &mut self,
        part: usize,
        stored: &[u8],
        sides: &Sides<'_>,
    ) -> Result<(), DataError> {
        let ours = self.cell_versions(stored)?;
        let joined: Vec<Version> = join(&ours, sides.here, &[], sides.theirs);
        let mut rest = &stored[1..];
        let bucket = take_u32(&mut rest).ok_or_else(|| malformed("the key of a bucket"))?;
        match part {
            3 => self.settle_entry(bucket, rest, &ours, joined),
            _ => {
                let key = keyspace::take_terminated(&mut rest);
                let key = key.ok_or_else(|| malformed("the key of a bucket"))?;
                self.settle_pair(bucket, &key, rest, &ours, joined)
            }
        }
    }

    /// Everything that the other state has seen is here now, and not in the log.
    fn put_joined(&mut self, sides: &Sides<'_>) -> Result<(), DataError> {
        let mut joined = sides.here.clone();
        joined.join(sides.theirs);
        let own = self.shared().own_replica.own();
        for (replica, upto) in sides.theirs.iter() {
            let is_known = sides.here.upto(replica) == joined.upto(replica)
                && sides.here.exceptions(replica) == joined.exceptions(replica);
            if is_known || own == Some(replica) {
                continue; // a restored database goes on under another name
            }
            let seen = encode_seen(joined.upto(replica), joined.exceptions(replica));
            self.put(&keyspace::seen(replica.0), &seen)?;
            let floor = self.store().floor(self.read(), replica)?;
            let mut value = Vec::new();
            push_id(&mut value, upto.max(floor));
            self.put(&keyspace::floor(replica.0), &value)?;
        }
        Ok(())
    }
}

fn take_fields(map: &mut Incoming<'_>, rest: &mut &[u8]) -> Result<Vec<PropId>, DataError> {
    let count = take_count(rest).ok_or_else(wire::bad_item)?;
    (0..count)
        .map(|_| {
            let prop = take_u32(rest).ok_or_else(wire::bad_item)?;
            wire::prop(map, PropId(prop))
        })
        .collect()
}
