//! Merging nodes, relationships and convergent fields of two states: what both have stays; what one has stays unless
//! the other has seen it.

use isomer_data::{ConvergentKind, ConvergentOwner, DataError, Transaction, after_prefix};
use isomer_layout::{
    convergent::{
        join::{join_rows, stays_alone},
        place::Entries,
    },
    keyspace::push_id,
    replicated::codec::{malformed, take_bytes, take_count, take_u32},
};
use isomer_value::{NodeId, PropId, RelId, TypeId};

use crate::{
    apply, convergent,
    mapping::{self, Mapper, take_identity},
    metadata::{NodeMetadata, Properties, RelMetadata},
    property_conflicts::conflicting_properties,
    records, scope,
    state_transfer::{
        progress::Sides,
        send::{self, take_of_relationship},
    },
    wire::Incoming,
};

pub(crate) fn merge_node(
    tx: &mut Transaction,
    map: &mut Incoming<'_>,
    content: &[u8],
    sides: &Sides<'_>,
) -> Result<Option<NodeId>, DataError> {
    let mut rest = content;
    let metadata = take_bytes(&mut rest).ok_or_else(mapping::bad_item)?;
    let theirs = NodeMetadata::decode(metadata, None).map_err(|_| mapping::bad_item())?;
    let theirs = send::node(map, &theirs)?;
    scope::check_identity(tx.store(), &theirs.identity)?;
    let fields = take_fields(map, &mut rest)?;
    let found = records::find_node(tx, &theirs.identity)?;
    // Before the node is materialized, which may delete it and move its fields to a ghost.
    if let Some(id) = found {
        merge_absent_fields(tx, ConvergentOwner::Node(id), &fields, sides)?;
    }
    materialize_merged(tx, &theirs, sides, !fields.is_empty())?;
    records::find_node(tx, &theirs.identity)
}

/// `endpoint_keepers` creates a ghost where nothing is left: its fields follow.
pub(crate) fn materialize_merged(
    tx: &mut Transaction,
    theirs: &NodeMetadata,
    sides: &Sides<'_>,
    keep: bool,
) -> Result<(), DataError> {
    let (id, ours, old) = match records::find_node(tx, &theirs.identity)? {
        Some(id) => {
            let metadata = records::node_metadata(tx, id)?;
            let metadata = metadata.ok_or_else(|| malformed("the metadata of a node"))?;
            (Some(id), metadata, tx.graph().load_node(id)?)
        }
        None => (None, NodeMetadata::new(theirs.identity.clone()), None),
    };
    let before = (
        ours.creation_dots(),
        conflicting_properties(&ours.properties),
    );
    let merged = sides.node(&ours, theirs);
    // The usual case when replicas have most in common: no row is written, and no
    // local transaction conflicts.
    if id.is_some() && merged == ours {
        return Ok(());
    }
    // Everything that the other side has of it was seen and removed here.
    if id.is_none() && merged.is_empty() && !keep {
        return Ok(());
    }
    let id = match id {
        Some(id) => id,
        None => records::new_node_id(tx, merged.labels.keys().next().copied())?,
    };
    if merged.is_empty() && keep && old.is_none() {
        return records::put_node_metadata(tx, id, &merged, &[], false);
    }
    let identity = merged.identity.clone();
    apply::materialize_node(tx, id, old, merged, before)?;
    if keep && records::find_node(tx, &identity)?.is_none() {
        // It was deleted here; fields of it that are missing here follow separately.
        let place = records::new_node_id(tx, None)?;
        records::put_node_metadata(tx, place, &NodeMetadata::new(identity), &[], false)?;
    }
    Ok(())
}

pub(crate) fn merge_relationship(
    tx: &mut Transaction,
    map: &mut Incoming<'_>,
    content: &[u8],
    sides: &Sides<'_>,
) -> Result<Option<RelId>, DataError> {
    let mut rest = content;
    let type_id = take_u32(&mut rest).ok_or_else(mapping::bad_item)?;
    let type_id = mapping::type_id(map, TypeId(type_id))?;
    let source = take_identity(map, &mut rest)?;
    let target = take_identity(map, &mut rest)?;
    let metadata = take_bytes(&mut rest).ok_or_else(mapping::bad_item)?;
    let theirs = RelMetadata::decode_explicit(metadata).map_err(|_| mapping::bad_item())?;
    let theirs = send::relationship(map, &theirs)?;
    let fields = take_fields(map, &mut rest)?;
    match records::find_rel(tx, &theirs.identity)? {
        Some(id) => {
            merge_absent_fields(tx, ConvergentOwner::Relationship(id), &fields, sides)?;
            apply::edit_relationship(tx, id, &mut |ours| {
                ours.properties = sides.properties(&ours.properties, &theirs.properties);
            })?;
        }
        // Deleted here after it was seen. A relationship has one creation, so it does not come back.
        None if sides.here.covers(theirs.creation.dot) => return Ok(None),
        None => {
            let mut new = theirs.clone();
            let none = Properties::new();
            new.properties = sides.properties(&none, &theirs.properties);
            apply::make_relationship(tx, type_id, &source, &target, new)?;
        }
    }
    records::find_rel(tx, &theirs.identity)
}

/// Merges the fields that only this side has.
pub(crate) fn merge_absent_fields(
    tx: &mut Transaction,
    owner: ConvergentOwner,
    there: &[PropId],
    sides: &Sides<'_>,
) -> Result<(), DataError> {
    for prop in convergent::convergent_properties_of(tx, owner)? {
        if !there.contains(&prop) {
            let prefix = owner.prefix();
            let mut head = prefix.clone();
            push_id(&mut head, prop.0.into());
            let mut ours = Vec::new();
            tx.raw()
                .each_between(&head, after_prefix(&head).as_deref(), &mut |key, value| {
                    ours.push((key[prefix.len()..].to_vec(), value.to_vec()));
                })?;
            put_merged_rows(tx, (owner, prop), &ours, &[], sides)?;
        }
    }
    Ok(())
}

pub(crate) fn merge_field(
    tx: &mut Transaction,
    map: &mut Incoming<'_>,
    content: &[u8],
    sides: &Sides<'_>,
) -> Result<(), DataError> {
    let mut rest = content;
    let of_rel = take_of_relationship(&mut rest)?;
    let identity = take_identity(map, &mut rest)?;
    let prop = take_u32(&mut rest).ok_or_else(mapping::bad_item)?;
    let prop = mapping::prop(map, PropId(prop))?;
    let owner = match of_rel {
        false => records::find_node(tx, &identity)?.map(ConvergentOwner::Node),
        true => records::find_rel(tx, &identity)?.map(ConvergentOwner::Relationship),
    };
    let (Some(from), Some(to)) = (take_bytes(&mut rest), take_bytes(&mut rest)) else {
        return Err(mapping::bad_item());
    };
    let Some(owner) = owner else {
        return Ok(()); // it was deleted here, or for good
    };
    tx.store().enter_convergent(prop)?;
    let prefix = owner.prefix();
    let mut head = prefix.clone();
    push_id(&mut head, prop.0.into());
    let start = [&head[..], from].concat();
    let end = match to.is_empty() {
        true => after_prefix(&head),
        false => Some([&head[..], to].concat()),
    };
    // In an empty database all fields are new: their entries are written as they arrive, without
    // collecting those of either side.
    let is_new = tx.raw().first_key(&start, end.as_deref())?.is_none();
    let before = match is_new {
        true => tx.indexes_mut().fields_before(owner, prop)?,
        false => None,
    };
    let mut touched = Vec::new();
    let count = take_count(&mut rest).ok_or_else(mapping::bad_item)?;
    let mut rows = Vec::new();
    let mut entries = Entries::default();
    let below = head.len() - prefix.len();
    let mut sent = head[prefix.len()..].to_vec();
    let mut whole = prefix.clone();
    let mut changed = false;
    for _ in 0..count {
        let (Some(key), Some(value)) = (take_bytes(&mut rest), take_bytes(&mut rest)) else {
            return Err(mapping::bad_item());
        };
        sent.truncate(below);
        sent.extend_from_slice(key);
        whole.truncate(prefix.len());
        let (kind, dot) =
            send::map_row(map, &mut entries, &sent, &mut whole).map_err(|_| mapping::bad_item())?;
        if matches!(
            kind,
            ConvergentKind::Register | ConvergentKind::MultiRegister
        ) {
            let time = value.first_chunk::<8>().ok_or_else(mapping::bad_item)?;
            map.time(u64::from_be_bytes(*time))?;
        }
        // Whether an increment stays is decided by the sums of the whole counter (`join`).
        if !is_new || kind == ConvergentKind::Counter {
            rows.push((whole[prefix.len()..].to_vec(), value.to_vec()));
        } else if stays_alone(dot, sides.here) {
            // There is nothing here to compare it with.
            tx.replication_mut().put_row(&whole, value)?;
            changed = true;
            if before.is_some() {
                touched.push(whole.clone());
            }
        }
    }
    tx.indexes_mut().fields_after(before, &touched)?;
    if changed {
        tx.fields_mut().clear_owner(owner);
        tx.fields_mut().log_merged(owner, prop);
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
        tx.raw()
            .each_between(&start, end.as_deref(), &mut |key, value| {
                ours.push((key[prefix.len()..].to_vec(), value.to_vec()));
            })?;
    }
    put_merged_rows(tx, (owner, prop), &ours, &rows, sides)
}

/// Merges the local entries of one property with those of the other side, both ascending.
fn put_merged_rows(
    tx: &mut Transaction,
    (owner, prop): (ConvergentOwner, PropId),
    ours: &[(Vec<u8>, Vec<u8>)],
    theirs: &[(Vec<u8>, Vec<u8>)],
    sides: &Sides<'_>,
) -> Result<(), DataError> {
    let prefix = owner.prefix();
    let merged = join_rows((sides.here, ours), (sides.theirs, theirs))?;
    let mut changed = false;
    let before = tx.indexes_mut().fields_before(owner, prop)?;
    let mut touched = Vec::new();
    let (mut old, mut new) = (ours.iter().peekable(), merged.into_iter().peekable());
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
                tx.replication_mut().delete_row(&whole)?;
            }
            (one, Some((key, value))) if one.map(|one| &one.1) != Some(value) => {
                whole.truncate(prefix.len());
                whole.extend_from_slice(key);
                tx.replication_mut().put_row(&whole, value)?;
            }
            _ => continue,
        }
        changed = true;
        if before.is_some() {
            touched.push(whole.clone());
        }
    }
    tx.indexes_mut().fields_after(before, &touched)?;
    if changed {
        tx.fields_mut().clear_owner(owner);
        tx.fields_mut().log_merged(owner, prop);
    }
    Ok(())
}

fn take_fields(map: &mut Incoming<'_>, rest: &mut &[u8]) -> Result<Vec<PropId>, DataError> {
    let count = take_count(rest).ok_or_else(mapping::bad_item)?;
    (0..count)
        .map(|_| {
            let prop = take_u32(rest).ok_or_else(mapping::bad_item)?;
            mapping::prop(map, PropId(prop))
        })
        .collect()
}
