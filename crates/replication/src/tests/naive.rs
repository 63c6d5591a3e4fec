//! The expected state, computed from a whole history: for each thing that was ever put, whether a transaction that had
//! seen it removed it. Plain state only; convergent fields have a separate interpreter.

use std::collections::{BTreeMap, BTreeSet};

use isomer_data::{BucketKind, DataStore, Dot, internals::own_replica};
use isomer_layout::replicated::identity::Identity;
use isomer_value::{PropId, record::decode_value};

use crate::{
    entry::{LogEntry, Op},
    versions::ReplicaNames,
};

/// The place of an item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ItemKey {
    Life(Identity),
    Label(Identity, String),
    Property(Identity, PropId),
    Link(Identity),
    LinkProperty(Identity, PropId),
    Entry(u32, Vec<u8>),
    Member(u32, Vec<u8>, Vec<u8>),
    /// A bucket, with its options.
    Bucket(u32, u8),
    Sequence(u32, Vec<u8>),
}

/// An item that was put.
struct VersionedItem {
    place: ItemKey,
    entry: usize,
    op: usize,
    value: Vec<u8>,
    dot: Dot,
    time: u64,
}

/// Whether an operation removes the item at a place.
fn takes(store: &DataStore, op: &Op, place: &ItemKey, dot: Dot) -> bool {
    let names = store.catalog();
    let label = |id| names.label_name(id).unwrap().to_string();
    match (op, place) {
        (
            Op::NodeCreated { node, .. } | Op::NodeDeleted { node },
            ItemKey::Life(own) | ItemKey::Label(own, _) | ItemKey::Property(own, _),
        ) => node == own,
        (
            Op::NodeChanged {
                node,
                added,
                removed,
                ..
            },
            ItemKey::Label(own, name),
        ) => node == own && added.iter().chain(removed).any(|id| label(*id) == *name),
        (
            Op::NodeChanged {
                node, set, unset, ..
            },
            ItemKey::Property(own, prop),
        ) => node == own && (set.iter().any(|(id, _)| id == prop) || unset.contains(prop)),
        (Op::NodeCreationAdded { node, replaced, .. }, ItemKey::Life(own)) => {
            node == own && replaced.contains(&dot)
        }
        (Op::NodeCreationAdded { node, labels, .. }, ItemKey::Label(own, name)) => {
            node == own && labels.iter().any(|id| label(*id) == *name)
        }
        (Op::NodeCreationAdded { node, carried, .. }, ItemKey::Property(own, prop)) => {
            node == own && carried.iter().any(|(id, _)| id == prop)
        }
        (Op::RelDeleted { rel }, ItemKey::Link(own) | ItemKey::LinkProperty(own, _)) => rel == own,
        (Op::RelChanged { rel, set, unset }, ItemKey::LinkProperty(own, prop)) => {
            rel == own && (set.iter().any(|(id, _)| id == prop) || unset.contains(prop))
        }
        (Op::Put { bucket, key, .. } | Op::Taken { bucket, key }, ItemKey::Entry(own, at)) => {
            bucket == own && key == at
        }
        (Op::RangeTaken { bucket, start, end }, ItemKey::Entry(own, at)) => {
            bucket == own && at >= start && end.as_ref().is_none_or(|end| at < end)
        }
        (
            Op::ValueAdded { bucket, key, value } | Op::ValueRemoved { bucket, key, value },
            ItemKey::Member(own, at, member),
        ) => bucket == own && key == at && value == member,
        (Op::BucketCreated { bucket, .. }, ItemKey::Bucket(own, _)) => bucket == own,
        (Op::KindDropped { bucket, kind }, place) => {
            let is_map = *kind == BucketKind::Map;
            match place {
                ItemKey::Bucket(own, shape) => bucket == own && is_map == (*shape != 2),
                ItemKey::Entry(own, _) => bucket == own && is_map,
                ItemKey::Member(own, ..) => bucket == own && !is_map,
                ItemKey::Sequence(own, _) => bucket == own,
                _ => false,
            }
        }
        (Op::Sequence { bucket, name, .. }, ItemKey::Sequence(own, at)) => {
            bucket == own && name == at
        }
        _ => false,
    }
}

pub(super) fn lines(store: &DataStore, entries: &[LogEntry]) -> Vec<String> {
    let names = store.catalog();
    let mut things = Vec::new();
    for (entry, one) in entries.iter().enumerate() {
        for (op, done) in one.ops.iter().enumerate() {
            let mut put = |place, value: &[u8]| {
                things.push(VersionedItem {
                    place,
                    entry,
                    op,
                    value: value.to_vec(),
                    dot: one.stamp().dot,
                    time: one.time,
                });
            };
            if let Op::NodeCreationAdded {
                node,
                labels,
                carried,
                ..
            } = done
            {
                put(ItemKey::Life(node.clone()), b"");
                for label in labels {
                    let name = names.label_name(*label).unwrap().to_string();
                    put(ItemKey::Label(node.clone(), name), b"");
                }
                let kept = Dot {
                    op: 1,
                    ..one.stamp().dot
                };
                let own = things.iter_mut().rev();
                own.take_while(|thing| thing.entry == entry && thing.op == op)
                    .for_each(|thing| thing.dot = kept);
                for (prop, values) in carried {
                    for (at, (time, value)) in values.iter().enumerate() {
                        things.push(VersionedItem {
                            place: ItemKey::Property(node.clone(), *prop),
                            entry,
                            op,
                            value: value.clone(),
                            dot: Dot {
                                op: 1 + at as u32,
                                ..kept
                            },
                            time: *time,
                        });
                    }
                }
                continue;
            }
            match done {
                Op::NodeCreated { node, labels, set } => {
                    put(ItemKey::Life(node.clone()), b"");
                    for label in labels {
                        let name = names.label_name(*label).unwrap().to_string();
                        put(ItemKey::Label(node.clone(), name), b"");
                    }
                    for (prop, value) in set {
                        put(ItemKey::Property(node.clone(), *prop), value);
                    }
                }
                Op::NodeChanged {
                    node, added, set, ..
                } => {
                    for label in added {
                        let name = names.label_name(*label).unwrap().to_string();
                        put(ItemKey::Label(node.clone(), name), b"");
                    }
                    for (prop, value) in set {
                        put(ItemKey::Property(node.clone(), *prop), value);
                    }
                }
                Op::RelCreated { rel, set, .. } => {
                    put(ItemKey::Link(rel.clone()), b"");
                    for (prop, value) in set {
                        put(ItemKey::LinkProperty(rel.clone(), *prop), value);
                    }
                }
                Op::RelChanged { rel, set, .. } => {
                    for (prop, value) in set {
                        put(ItemKey::LinkProperty(rel.clone(), *prop), value);
                    }
                }
                Op::Put {
                    bucket, key, entry, ..
                } => {
                    put(ItemKey::Entry(*bucket, key.clone()), entry);
                }
                Op::ValueAdded { bucket, key, value } => {
                    put(ItemKey::Member(*bucket, key.clone(), value.clone()), b"");
                }
                Op::BucketCreated { bucket, options } => {
                    put(ItemKey::Bucket(*bucket, *options), b"")
                }
                Op::Sequence { bucket, name, last } => {
                    put(
                        ItemKey::Sequence(*bucket, name.clone()),
                        &last.to_be_bytes(),
                    );
                }
                _ => {}
            }
        }
    }
    let stands = |thing: &&VersionedItem| {
        let dot = thing.dot;
        !entries.iter().enumerate().any(|(at, other)| {
            other.ops.iter().enumerate().any(|(op, done)| {
                let later = match at == thing.entry {
                    true => op > thing.op,
                    false => other.seen.covers(dot),
                };
                later && takes(store, done, &thing.place, dot)
            })
        })
    };
    // Of several versions of one place the latest is read.
    let mut read: BTreeMap<&ItemKey, &VersionedItem> = BTreeMap::new();
    let rank = |thing: &VersionedItem| {
        let name = own_replica(store).replica_name(thing.dot.replica);
        (thing.time, name, thing.dot.number)
    };
    let mut creations: BTreeMap<&Identity, Vec<Dot>> = BTreeMap::new();
    let mut sequences: BTreeMap<(u32, &[u8]), &[u8]> = BTreeMap::new();
    for thing in things.iter().filter(stands) {
        if let ItemKey::Life(node) = &thing.place {
            creations.entry(node).or_default().push(thing.dot);
        }
        if let ItemKey::Sequence(bucket, name) = &thing.place {
            let last = sequences.entry((*bucket, name)).or_default();
            *last = (*last).max(&thing.value);
        }
        match read.get(&thing.place) {
            Some(other) if rank(other) > rank(thing) => {}
            _ => drop(read.insert(&thing.place, thing)),
        }
    }
    let shown = |prop: &PropId, thing: &VersionedItem| {
        let value = decode_value(&thing.value, &*names.names).unwrap();
        format!("{}: {value:?}", names.prop_name(*prop).unwrap())
    };
    let mut lines = Vec::new();
    for node in creations.keys() {
        let (mut labels, mut properties) = (Vec::new(), Vec::new());
        for (place, thing) in &read {
            match place {
                ItemKey::Label(own, name) if own == *node => labels.push(name.clone()),
                ItemKey::Property(own, prop) if own == *node => properties.push(shown(prop, thing)),
                _ => {}
            }
        }
        labels.sort();
        properties.sort();
        lines.push(format!("node {labels:?} {}", properties.join(", ")));
    }
    for (entry, done) in entries
        .iter()
        .flat_map(|one| one.ops.iter().map(move |op| (one, op)))
    {
        let Op::RelCreated {
            rel,
            source,
            target,
            source_creations,
            target_creations,
            ..
        } = done
        else {
            continue;
        };
        let _ = entry;
        let meets = |node: &Identity, seen: &[Dot]| {
            creations
                .get(node)
                .is_some_and(|now| now.iter().any(|dot| seen.contains(dot)))
        };
        if !read.contains_key(&ItemKey::Link(rel.clone()))
            || !meets(source, source_creations)
            || !meets(target, target_creations)
        {
            continue;
        }
        let mut properties = Vec::new();
        for (place, thing) in &read {
            if let ItemKey::LinkProperty(own, prop) = place
                && own == rel
            {
                properties.push(shown(prop, thing));
            }
        }
        lines.push(format!("relationship {}", properties.join(", ")));
    }
    for (place, thing) in &read {
        match place {
            ItemKey::Entry(bucket, key) => {
                let (.., value) = isomer_layout::kv::content::entry_parts(&thing.value).unwrap();
                lines.push(format!(
                    "bucket {} {} = {}",
                    names.bucket_name(*bucket).unwrap(),
                    text(key),
                    text(value)
                ));
            }
            ItemKey::Member(bucket, key, value) => lines.push(format!(
                "bucket {} {} = {}",
                names.bucket_name(*bucket).unwrap(),
                text(key),
                text(value)
            )),
            _ => {}
        }
    }
    let buckets: BTreeSet<u32> = read
        .keys()
        .filter_map(|place| match place {
            ItemKey::Bucket(bucket, _)
            | ItemKey::Entry(bucket, _)
            | ItemKey::Member(bucket, ..)
            | ItemKey::Sequence(bucket, _) => Some(*bucket),
            _ => None,
        })
        .collect();
    for bucket in buckets {
        let has = |is_one: &dyn Fn(&ItemKey) -> bool| read.keys().any(|place| is_one(place));
        let made = |shape: u8| has(&|place| *place == ItemKey::Bucket(bucket, shape));
        let is_map = made(0)
            || made(1)
            || has(&|place| matches!(place, ItemKey::Entry(own, _) if *own == bucket));
        let is_multi =
            made(2) || has(&|place| matches!(place, ItemKey::Member(own, ..) if *own == bucket));
        let shown = match is_multi && !is_map {
            true => "Multi",
            false if made(1) && !made(0) => "Map reversible",
            false => "Map",
        };
        lines.push(format!(
            "bucket {} is {shown}",
            names.bucket_name(bucket).unwrap()
        ));
    }
    for ((bucket, name), last) in sequences {
        lines.push(format!(
            "sequence {} {} {}",
            names.bucket_name(bucket).unwrap(),
            text(name),
            u64::from_be_bytes(last.try_into().unwrap())
        ));
    }
    lines.sort();
    lines
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).escape_debug().to_string()
}
