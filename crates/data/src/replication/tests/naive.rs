//! What a history says, read off all of it at once: of each thing that was ever put, whether anybody who had seen it took it out.
//! Plain state only; convergent fields have an interpreter of their own.

use std::collections::BTreeMap;

use isomer_value::{PropId, record::decode_value};

use crate::{
    Dot, Store,
    replication::{
        entry::{Entry, Op},
        identity::Identity,
        versions::ReplicaNames,
    },
};

/// Where something is put.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Life(Identity),
    Label(Identity, String),
    Property(Identity, PropId),
    Link(Identity),
    LinkProperty(Identity, PropId),
    Entry(u32, Vec<u8>),
    Member(u32, Vec<u8>, Vec<u8>),
}

/// One thing that was put.
struct Thing {
    place: Place,
    entry: usize,
    op: usize,
    value: Vec<u8>,
}

/// Whether an operation takes out what stands at a place.
fn takes(store: &Store, op: &Op, place: &Place) -> bool {
    let names = store.catalog();
    let label = |id| names.label_name(id).unwrap().to_string();
    match (op, place) {
        (
            Op::NodeMade { node, .. } | Op::NodeGone { node },
            Place::Life(own) | Place::Label(own, _) | Place::Property(own, _),
        ) => node == own,
        (
            Op::NodeChanged {
                node,
                added,
                removed,
                ..
            },
            Place::Label(own, name),
        ) => node == own && added.iter().chain(removed).any(|id| label(*id) == *name),
        (
            Op::NodeChanged {
                node, set, unset, ..
            },
            Place::Property(own, prop),
        ) => node == own && (set.iter().any(|(id, _)| id == prop) || unset.contains(prop)),
        (Op::RelGone { rel }, Place::Link(own) | Place::LinkProperty(own, _)) => rel == own,
        (Op::RelChanged { rel, set, unset }, Place::LinkProperty(own, prop)) => {
            rel == own && (set.iter().any(|(id, _)| id == prop) || unset.contains(prop))
        }
        (Op::Put { bucket, key, .. } | Op::Taken { bucket, key }, Place::Entry(own, at)) => {
            bucket == own && key == at
        }
        (Op::RangeTaken { bucket, start, end }, Place::Entry(own, at)) => {
            bucket == own && at >= start && end.as_ref().is_none_or(|end| at < end)
        }
        (
            Op::ValueAdded { bucket, key, value } | Op::ValueRemoved { bucket, key, value },
            Place::Member(own, at, member),
        ) => bucket == own && key == at && value == member,
        _ => false,
    }
}

pub(super) fn lines(store: &Store, entries: &[Entry]) -> Vec<String> {
    let names = store.catalog();
    let mut things = Vec::new();
    for (entry, one) in entries.iter().enumerate() {
        for (op, done) in one.ops.iter().enumerate() {
            let mut put = |place, value: &[u8]| {
                things.push(Thing {
                    place,
                    entry,
                    op,
                    value: value.to_vec(),
                });
            };
            match done {
                Op::NodeMade { node, labels, set } => {
                    put(Place::Life(node.clone()), b"");
                    for label in labels {
                        let name = names.label_name(*label).unwrap().to_string();
                        put(Place::Label(node.clone(), name), b"");
                    }
                    for (prop, value) in set {
                        put(Place::Property(node.clone(), *prop), value);
                    }
                }
                Op::NodeChanged {
                    node, added, set, ..
                } => {
                    for label in added {
                        let name = names.label_name(*label).unwrap().to_string();
                        put(Place::Label(node.clone(), name), b"");
                    }
                    for (prop, value) in set {
                        put(Place::Property(node.clone(), *prop), value);
                    }
                }
                Op::RelMade { rel, set, .. } => {
                    put(Place::Link(rel.clone()), b"");
                    for (prop, value) in set {
                        put(Place::LinkProperty(rel.clone(), *prop), value);
                    }
                }
                Op::RelChanged { rel, set, .. } => {
                    for (prop, value) in set {
                        put(Place::LinkProperty(rel.clone(), *prop), value);
                    }
                }
                Op::Put {
                    bucket, key, entry, ..
                } => {
                    put(Place::Entry(*bucket, key.clone()), entry);
                }
                Op::ValueAdded { bucket, key, value } => {
                    put(Place::Member(*bucket, key.clone(), value.clone()), b"");
                }
                _ => {}
            }
        }
    }
    let stands = |thing: &&Thing| {
        let own = &entries[thing.entry];
        let dot = own.stamp().dot;
        !entries.iter().enumerate().any(|(at, other)| {
            other.ops.iter().enumerate().any(|(op, done)| {
                let later = match at == thing.entry {
                    true => op > thing.op,
                    false => other.seen.covers(dot),
                };
                later && takes(store, done, &thing.place)
            })
        })
    };
    // Of several versions of one place the latest is read.
    let mut read: BTreeMap<&Place, &Thing> = BTreeMap::new();
    let rank = |thing: &Thing| {
        let stamp = entries[thing.entry].stamp();
        let name = store.shared().own_replica.replica_name(stamp.dot.replica);
        (stamp.time, name, stamp.dot.number)
    };
    let mut lives: BTreeMap<&Identity, Vec<Dot>> = BTreeMap::new();
    for thing in things.iter().filter(stands) {
        if let Place::Life(node) = &thing.place {
            let dot = entries[thing.entry].stamp().dot;
            lives.entry(node).or_default().push(dot);
        }
        match read.get(&thing.place) {
            Some(other) if rank(other) > rank(thing) => {}
            _ => drop(read.insert(&thing.place, thing)),
        }
    }
    let shown = |prop: &PropId, thing: &Thing| {
        let value = decode_value(&thing.value, &*names.names).unwrap();
        format!("{}: {value:?}", names.prop_name(*prop).unwrap())
    };
    let mut lines = Vec::new();
    for node in lives.keys() {
        let (mut labels, mut properties) = (Vec::new(), Vec::new());
        for (place, thing) in &read {
            match place {
                Place::Label(own, name) if own == *node => labels.push(name.clone()),
                Place::Property(own, prop) if own == *node => properties.push(shown(prop, thing)),
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
        let Op::RelMade {
            rel,
            source,
            target,
            source_lives,
            target_lives,
            ..
        } = done
        else {
            continue;
        };
        let _ = entry;
        let meets = |node: &Identity, seen: &[Dot]| {
            lives
                .get(node)
                .is_some_and(|now| now.iter().any(|dot| seen.contains(dot)))
        };
        if !read.contains_key(&Place::Link(rel.clone()))
            || !meets(source, source_lives)
            || !meets(target, target_lives)
        {
            continue;
        }
        let mut properties = Vec::new();
        for (place, thing) in &read {
            if let Place::LinkProperty(own, prop) = place
                && own == rel
            {
                properties.push(shown(prop, thing));
            }
        }
        lines.push(format!("relationship {}", properties.join(", ")));
    }
    for (place, thing) in &read {
        match place {
            Place::Entry(bucket, key) => {
                let (.., value) = crate::kv::entry_parts(&thing.value).unwrap();
                lines.push(format!(
                    "bucket {} {} = {}",
                    names.bucket_name(*bucket).unwrap(),
                    text(key),
                    text(value)
                ));
            }
            Place::Member(bucket, key, value) => lines.push(format!(
                "bucket {} {} = {}",
                names.bucket_name(*bucket).unwrap(),
                text(key),
                text(value)
            )),
            _ => {}
        }
    }
    lines.sort();
    lines
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).escape_debug().to_string()
}
