//! Joining records and convergent fields of two states: what both hold stays; what one holds stays unless the other has
//! seen it.

use isomer_value::{NodeId, PropId, RelId, TypeId};
use rustc_hash::FxHashSet;

use super::{
    codec::{malformed, take_bytes, take_count, take_u32},
    conflicts::contested,
    shadow::{NodeShadow, Properties, RelShadow},
    snapshot::{self, take_identity, take_of_relationship},
    versions::{join, join_stamps},
    wire::{self, Incoming, Mapper},
};
use crate::{
    ConvergentOwner, DataError, Transaction,
    convergent::{ConvergentKind, Entries, Vector, join_rows, stays_alone},
    keyspace::{after_prefix, push_id},
};

/// The vectors of both sides.
pub(super) struct Sides<'v> {
    pub(super) here: &'v Vector,
    pub(super) theirs: &'v Vector,
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
    pub(super) fn join_node(
        &mut self,
        map: &mut Incoming<'_>,
        content: &[u8],
        sides: &Sides<'_>,
    ) -> Result<Option<NodeId>, DataError> {
        let mut rest = content;
        let shadow = take_bytes(&mut rest).ok_or_else(wire::bad_item)?;
        let theirs = NodeShadow::decode(shadow, None).map_err(|_| wire::bad_item())?;
        let theirs = snapshot::node(map, &theirs)?;
        self.store().check_identity(&theirs.identity)?;
        let fields = take_fields(map, &mut rest)?;
        let found = self.find_node(&theirs.identity)?;
        if let Some(id) = found {
            self.join_absent_fields(ConvergentOwner::Node(id), &fields, sides)?;
        }
        self.materialize_joined(&theirs, sides, !fields.is_empty())?;
        self.find_node(&theirs.identity)
    }

    /// `keep` creates a ghost where nothing is left: its fields follow.
    pub(super) fn materialize_joined(
        &mut self,
        theirs: &NodeShadow,
        sides: &Sides<'_>,
        keep: bool,
    ) -> Result<(), DataError> {
        let (id, ours, old) = match self.find_node(&theirs.identity)? {
            Some(id) => {
                let shadow = self.node_shadow(id)?;
                let shadow = shadow.ok_or_else(|| malformed("the metadata of a node"))?;
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
        let identity = joined.identity.clone();
        self.materialize_node(id, old, joined, before)?;
        if keep && self.find_node(&identity)?.is_none() {
            // It was deleted here; fields of it that are missing here follow separately.
            let place = self.new_node_id(None)?;
            self.put_node_shadow(place, &NodeShadow::new(identity), &[], false)?;
        }
        Ok(())
    }

    pub(super) fn join_relationship(
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
        let theirs = RelShadow::decode_explicit(shadow).map_err(|_| wire::bad_item())?;
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

    /// Joins the fields that only this side has.
    pub(super) fn join_absent_fields(
        &mut self,
        owner: ConvergentOwner,
        there: &[PropId],
        sides: &Sides<'_>,
    ) -> Result<(), DataError> {
        for prop in self.convergent_properties_of(owner)? {
            if !there.contains(&prop) {
                let prefix = owner.prefix();
                let mut head = prefix.clone();
                push_id(&mut head, prop.0.into());
                let mut ours = Vec::new();
                self.each_between(&head, after_prefix(&head).as_deref(), &mut |key, value| {
                    ours.push((key[prefix.len()..].to_vec(), value.to_vec()));
                })?;
                self.put_joined_rows((owner, prop), &ours, &[], sides)?;
            }
        }
        Ok(())
    }

    pub(super) fn join_field(
        &mut self,
        map: &mut Incoming<'_>,
        content: &[u8],
        sides: &Sides<'_>,
    ) -> Result<(), DataError> {
        let mut rest = content;
        let of_rel = take_of_relationship(&mut rest)?;
        let identity = take_identity(map, &mut rest)?;
        let prop = take_u32(&mut rest).ok_or_else(wire::bad_item)?;
        let prop = wire::prop(map, PropId(prop))?;
        let owner = match of_rel {
            false => self.find_node(&identity)?.map(ConvergentOwner::Node),
            true => self.find_rel(&identity)?.map(ConvergentOwner::Relationship),
        };
        let (Some(from), Some(to)) = (take_bytes(&mut rest), take_bytes(&mut rest)) else {
            return Err(wire::bad_item());
        };
        let Some(owner) = owner else {
            return Ok(()); // it was deleted here, or for good
        };
        self.store().enter_convergent(prop)?;
        let prefix = owner.prefix();
        let mut head = prefix.clone();
        push_id(&mut head, prop.0.into());
        let start = [&head[..], from].concat();
        let end = match to.is_empty() {
            true => after_prefix(&head),
            false => Some([&head[..], to].concat()),
        };
        let is_new = self.first_key(&start, end.as_deref())?.is_none();
        let before = match is_new {
            true => self.fields_before(owner, prop)?,
            false => None,
        };
        let mut touched = Vec::new();
        let count = take_count(&mut rest).ok_or_else(wire::bad_item)?;
        let mut rows = Vec::new();
        let mut entries = Entries::default();
        let below = head.len() - prefix.len();
        let mut sent = head[prefix.len()..].to_vec();
        let mut whole = prefix.clone();
        let mut changed = false;
        for _ in 0..count {
            let (Some(key), Some(value)) = (take_bytes(&mut rest), take_bytes(&mut rest)) else {
                return Err(wire::bad_item());
            };
            sent.truncate(below);
            sent.extend_from_slice(key);
            whole.truncate(prefix.len());
            let (kind, dot) = snapshot::map_row(map, &mut entries, &sent, &mut whole)
                .map_err(|_| wire::bad_item())?;
            if matches!(
                kind,
                ConvergentKind::Register | ConvergentKind::MultiRegister
            ) {
                let time = value.first_chunk::<8>().ok_or_else(wire::bad_item)?;
                map.time(u64::from_be_bytes(*time))?;
            }
            if !is_new || kind == ConvergentKind::Counter {
                rows.push((whole[prefix.len()..].to_vec(), value.to_vec()));
            } else if stays_alone(dot, sides.here) {
                // There is nothing here to compare it with.
                self.put(&whole, value)?;
                changed = true;
                if before.is_some() {
                    touched.push(whole.clone());
                }
            }
        }
        self.fields_after(before, &touched)?;
        if changed {
            self.clear_owner(owner);
            self.log_merged(owner, prop);
        }
        if is_new && rows.is_empty() {
            return Ok(());
        }
        // Dots are ordered by the numbers of replicas, which differ between databases.
        if !rows.is_sorted() {
            rows.sort_unstable();
        }
        let mut ours = Vec::new();
        if !is_new {
            self.each_between(&start, end.as_deref(), &mut |key, value| {
                ours.push((key[prefix.len()..].to_vec(), value.to_vec()));
            })?;
        }
        self.put_joined_rows((owner, prop), &ours, &rows, sides)
    }

    /// Joins the local entries of one property with those of the other side, both ascending.
    fn put_joined_rows(
        &mut self,
        (owner, prop): (ConvergentOwner, PropId),
        ours: &[(Vec<u8>, Vec<u8>)],
        theirs: &[(Vec<u8>, Vec<u8>)],
        sides: &Sides<'_>,
    ) -> Result<(), DataError> {
        let prefix = owner.prefix();
        let joined = join_rows((sides.here, ours), (sides.theirs, theirs))?;
        let mut changed = false;
        let before = self.fields_before(owner, prop)?;
        let mut touched = Vec::new();
        let (mut old, mut new) = (ours.iter().peekable(), joined.into_iter().peekable());
        let mut whole = prefix.clone();
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
                    whole.truncate(prefix.len());
                    whole.extend_from_slice(key);
                    self.delete(&whole)?;
                }
                (one, Some((key, value))) if one.map(|one| &one.1) != Some(value) => {
                    whole.truncate(prefix.len());
                    whole.extend_from_slice(key);
                    self.put(&whole, value)?;
                }
                _ => continue,
            }
            changed = true;
            if before.is_some() {
                touched.push(whole.clone());
            }
        }
        self.fields_after(before, &touched)?;
        if changed {
            self.clear_owner(owner);
            self.log_merged(owner, prop);
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
