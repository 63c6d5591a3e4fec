//! Pages of entries and state between databases: names and replicas are spelled out once a page, and referred to by
//! number.
//!
//! ```text
//! page    u8 format (3), for labels, types, properties and buckets: id number, and as many: bytes name;
//!         id number of replicas, and as many: 16 bytes, u32 epoch; items to the end
//! item    u8 tag, see `exchange` and `snapshot`, bytes content
//!   07 space   first in each page of a database that replicates a part of itself: see `space`
//!   08 open    first in the greeting of an empty database that adopts the space of the first member that it hears of
//! ```

use std::sync::Arc;

use isomer_value::{
    Interner, LabelId, Names, PropId, TypeId, ValueError,
    record::{decode_value, encode_value},
};
use rustc_hash::FxHashMap;

use super::{
    codec::{push_bytes, take_byte, take_bytes, take_count, take_u32},
    entry::{LogEntry, Op, Set},
    identity::{Identity, Owner},
    keep::Carried,
    space::ReplicatedSpace,
    versions::{Stamp, Version},
};
use crate::{
    DataError, DataStore,
    catalog::NameKind,
    convergent::{Action, Dot, ReplicaId, ReplicaNo, Vector},
    keyspace::{push_id, take_id},
    kv::Content,
};

pub(super) const FORMAT: u8 = 3;
/// Tags of items that may precede all others.
const SPACE: u8 = 7;
pub(super) const OPEN: u8 = 8;
/// Most names of one kind in a page.
const MAX_NAMES: usize = 1 << 20;

/// Changes the numbers of names and replicas.
pub(crate) trait Mapper {
    fn name(&mut self, kind: NameKind, id: u32) -> Result<u32, DataError>;
    fn replica(&mut self, replica: ReplicaNo) -> Result<ReplicaNo, DataError>;
    /// A value in the encoding of records.
    fn value(&mut self, value: &[u8]) -> Result<Vec<u8>, DataError>;
    /// A hybrid time.
    fn time(&mut self, time: u64) -> Result<u64, DataError> {
        Ok(time)
    }
    /// The hybrid time of the operation with this dot, which is mapped already.
    fn time_of(&mut self, _dot: Dot, time: u64) -> Result<u64, DataError> {
        self.time(time)
    }
}

/// Returns a value with other numbers of names.
pub(crate) type MapValue<'m> = dyn FnMut(&[u8]) -> Result<Vec<u8>, DataError> + 'm;

/// Names and replicas of a page.
#[derive(Default)]
struct Tables {
    names: [Vec<Arc<str>>; 4],
    replicas: Vec<ReplicaId>,
}

fn bad(what: &str) -> DataError {
    DataError::invalid(format!(
        "a page of replication is malformed ({what}): the peer is damaged, or not an IsomerDB of this version"
    ))
}

/// A page that is being written.
pub(crate) struct Outgoing<'s> {
    store: &'s DataStore,
    tables: Tables,
    numbers: [FxHashMap<u32, u32>; 4],
    replicas: FxHashMap<ReplicaNo, u32>,
    pub(crate) items: Vec<u8>,
}

impl<'s> Outgoing<'s> {
    pub(crate) fn new(store: &'s DataStore) -> Self {
        Self {
            store,
            tables: Tables::default(),
            numbers: Default::default(),
            replicas: FxHashMap::default(),
            items: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, tag: u8, content: &[u8]) {
        self.items.push(tag);
        push_bytes(&mut self.items, content);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        let mut page = vec![FORMAT];
        for names in &self.tables.names {
            push_id(&mut page, names.len() as u64);
            names
                .iter()
                .for_each(|name| push_bytes(&mut page, name.as_bytes()));
        }
        push_id(&mut page, self.tables.replicas.len() as u64);
        for replica in &self.tables.replicas {
            page.extend_from_slice(&replica.to_bytes());
        }
        if let Some(space) = self.store.replicated_space() {
            page.push(SPACE);
            push_bytes(&mut page, &space.spell());
        }
        page.extend_from_slice(&self.items);
        page
    }
}

impl Mapper for Outgoing<'_> {
    fn name(&mut self, kind: NameKind, id: u32) -> Result<u32, DataError> {
        let at = kind as usize - 1;
        if let Some(number) = self.numbers[at].get(&id) {
            return Ok(*number);
        }
        let name = self.store.shared_names().name(kind, id).ok_or_else(|| {
            DataError::corrupt(format!("{} number {id} has no name", kind.noun()))
        })?;
        let number = self.tables.names[at].len() as u32;
        self.tables.names[at].push(name);
        self.numbers[at].insert(id, number);
        Ok(number)
    }

    fn replica(&mut self, replica: ReplicaNo) -> Result<ReplicaNo, DataError> {
        if let Some(number) = self.replicas.get(&replica) {
            return Ok(ReplicaNo(*number));
        }
        let name = self.store.shared().own_replica.name(replica);
        let name = name.ok_or_else(|| DataError::corrupt("a replica has no name"))?;
        let number = self.tables.replicas.len() as u32;
        self.tables.replicas.push(name);
        self.replicas.insert(replica, number);
        Ok(ReplicaNo(number))
    }

    fn value(&mut self, value: &[u8]) -> Result<Vec<u8>, DataError> {
        let decoded = decode_value(value, &**self.store.shared_names())?;
        let mut out = Vec::with_capacity(value.len());
        let mut interner = Naming(self, None);
        match encode_value(&decoded, &mut interner, &mut out) {
            Ok(()) => Ok(out),
            Err(error) => Err(interner.1.unwrap_or(error.into())),
        }
    }
}

/// Names of maps inside values.
struct Naming<'o, 's>(&'o mut Outgoing<'s>, Option<DataError>);

impl Interner for Naming<'_, '_> {
    fn intern(&mut self, name: &str) -> Result<PropId, ValueError> {
        let id = self.0.store.shared_names().find(NameKind::Prop, name);
        let mapped = id
            .ok_or_else(|| DataError::corrupt("a property has no number"))
            .and_then(|id| self.0.name(NameKind::Prop, id));
        mapped.map(PropId).map_err(|error| {
            self.1 = Some(error);
            ValueError::Fields {
                what: "record",
                reason: "its property names cannot be forwarded".into(),
            }
        })
    }
}

/// A received page.
pub(crate) struct Incoming<'s> {
    store: &'s DataStore,
    tables: Tables,
    /// Numbers here, by number in the page.
    names: [Vec<u32>; 4],
    replicas: Vec<Option<ReplicaNo>>,
    /// The latest time in it that is not ahead of the clock.
    latest: u64,
}

impl<'s> Incoming<'s> {
    /// The latest time that was read of it and is not ahead of the clock.
    pub(crate) fn latest(&self) -> u64 {
        self.latest
    }

    /// Reads the head of a page, and adds names that are new here; replicas are added as items name them. Returns the
    /// items.
    pub(crate) fn open<'p>(
        store: &'s DataStore,
        page: &'p [u8],
    ) -> Result<(Self, &'p [u8]), DataError> {
        let (head, rest) = Head::read(store, page)?;
        if !head.is_open || head.space.is_some() {
            store.meet_space(head.space.as_ref())?;
        }
        let mut incoming = Self {
            store,
            tables: head.tables,
            names: Default::default(),
            replicas: Vec::new(),
            latest: 0,
        };
        incoming.replicas = vec![None; incoming.tables.replicas.len()];
        for kind in NameKind::ALL {
            let at = kind as usize - 1;
            for name in &incoming.tables.names[at] {
                incoming.names[at].push(store.intern(kind, name)?);
            }
        }
        Ok((incoming, rest))
    }
}

/// The head of a page.
struct Head {
    tables: Tables,
    space: Option<ReplicatedSpace>,
    is_open: bool,
}

impl Head {
    /// Reads the head of a page, checks that items follow, and returns them. Nothing is stored for an invalid page, or
    /// one that names more replicas than the limit allows.
    fn read<'p>(store: &DataStore, page: &'p [u8]) -> Result<(Self, &'p [u8]), DataError> {
        let mut rest = page;
        match take_byte(&mut rest) {
            Some(FORMAT) => {}
            Some(other) => {
                return Err(DataError::Unsupported(format!(
                    "the peer speaks format {other} of replication, this program format {FORMAT}: bring both to the same version"
                )));
            }
            None => return Err(bad("it is empty")),
        }
        let tables = Tables::take(&mut rest)?;
        let mut items = rest;
        while take_item(&mut items)?.is_some() {}
        store.check_room(&tables.replicas)?;
        let space = take_head(&mut rest, SPACE)?
            .map(|spelled| ReplicatedSpace::read(spelled).ok_or_else(bad_item))
            .transpose()?;
        // A database that adopts a space in its greeting sends both.
        let is_open = take_head(&mut rest, OPEN)?.is_some();
        let head = Self {
            tables,
            space,
            is_open,
        };
        Ok((head, rest))
    }
}

/// Checks that a page is a greeting by which a database may become a replica. Nothing is written.
///
/// # Errors
/// [`DataError::Invalid`] where it is not a greeting, is of a replica of another space, or has this database's own
/// name;
/// [`DataError::Unsupported`] for another format; [`DataError::Limit`] where it names too many replicas.
pub(crate) fn check_greeting(store: &DataStore, page: &[u8]) -> Result<(), DataError> {
    let (head, mut items) = Head::read(store, page)?;
    if !head.is_open || head.space.is_some() {
        store.would_meet(head.space.as_ref())?;
    }
    let name = |replica: ReplicaNo| {
        let name = head.tables.replicas.get(replica.0 as usize);
        name.copied().ok_or_else(|| bad("the number of a replica"))
    };
    let member = |content: &mut &[u8]| {
        let number = take_u32(content).ok_or_else(bad_item)?;
        name(ReplicaNo(number))
    };
    let seen = |content: &mut &[u8]| {
        let seen = Vector::take_local(content).ok_or_else(bad_item)?;
        seen.mapped(|replica| name(replica).map(|_| replica))
    };
    let mut is_first = true;
    while let Some((tag, mut content)) = take_item(&mut items)? {
        let content = &mut content;
        // The first item names the sending replica.
        match (is_first, tag) {
            (true, 1) => {
                seen(content)?;
                if Some(member(content)?) == store.replica() {
                    return Err(DataError::invalid(
                        "received a greeting under this database's own name: a database cannot be a peer of itself, nor of a copy of its files under the same name",
                    ));
                }
            }
            (false, 6) => {
                member(content)?;
                seen(content)?;
            }
            _ => return Err(bad_item()),
        }
        if !content.is_empty() {
            return Err(bad_item());
        }
        is_first = false;
    }
    match is_first {
        true => Err(bad("it does not name the sending replica")),
        false => Ok(()),
    }
}

impl Tables {
    fn take(rest: &mut &[u8]) -> Result<Self, DataError> {
        let mut tables = Self::default();
        for names in &mut tables.names {
            let count = take_count(rest).filter(|count| *count <= MAX_NAMES);
            for _ in 0..count.ok_or_else(|| bad("its names"))? {
                let name = take_bytes(rest).and_then(|name| std::str::from_utf8(name).ok());
                names.push(name.ok_or_else(|| bad("a name"))?.into());
            }
        }
        let count = take_count(rest).ok_or_else(|| bad("its replicas"))?;
        for _ in 0..count {
            let name = rest.split_at_checked(ReplicaId::BYTES);
            let (name, after) = name.ok_or_else(|| bad("a replica"))?;
            *rest = after;
            let name = ReplicaId::from_bytes(name).ok_or_else(|| bad("a replica"))?;
            tables.replicas.push(name);
        }
        Ok(tables)
    }
}

impl Mapper for Incoming<'_> {
    fn name(&mut self, kind: NameKind, id: u32) -> Result<u32, DataError> {
        let found = self.names[kind as usize - 1].get(id as usize).copied();
        found.ok_or_else(|| bad("the number of a name"))
    }

    fn replica(&mut self, replica: ReplicaNo) -> Result<ReplicaNo, DataError> {
        let at = replica.0 as usize;
        match self.replicas.get(at) {
            Some(Some(found)) => Ok(*found),
            Some(None) => {
                let number = self.store.enter_replica(self.tables.replicas[at])?;
                self.replicas[at] = Some(number);
                Ok(number)
            }
            None => Err(bad("the number of a replica")),
        }
    }

    fn time(&mut self, time: u64) -> Result<u64, DataError> {
        self.store.check_time(time)?;
        if self.store.ahead_ms(time).is_none() {
            self.latest = self.latest.max(time);
        }
        Ok(time)
    }

    fn time_of(&mut self, dot: Dot, time: u64) -> Result<u64, DataError> {
        // A stamp of this replica comes back in snapshots of others, also after its clock was set back.
        let is_own = || self.store.shared().own_replica.own() == Some(dot.replica);
        if self.store.ahead_ms(time).is_some() && is_own() {
            return Ok(time);
        }
        self.time(time)
    }

    fn value(&mut self, value: &[u8]) -> Result<Vec<u8>, DataError> {
        let decoded = decode_value(value, &self.tables).map_err(|_| bad("a value"))?;
        let mut out = Vec::with_capacity(value.len());
        let mut names = crate::store::PropNames::new(self.store);
        match encode_value(&decoded, &mut names, &mut out) {
            Ok(()) => Ok(out),
            Err(error) => Err(names.explain(error)),
        }
    }
}

impl Names for Tables {
    fn name(&self, prop: PropId) -> Option<Arc<str>> {
        self.names[NameKind::Prop as usize - 1]
            .get(prop.0 as usize)
            .cloned()
    }
}

/// The items of a page, without entering its names.
pub(crate) fn items(page: &[u8]) -> Result<&[u8], DataError> {
    let mut rest = page;
    take_byte(&mut rest).ok_or_else(|| bad("it is empty"))?;
    Tables::take(&mut rest)?;
    Ok(rest)
}

/// The next item, if it has this tag.
fn take_head<'p>(items: &mut &'p [u8], tag: u8) -> Result<Option<&'p [u8]>, DataError> {
    let mut rest = *items;
    match take_item(&mut rest)? {
        Some((found, content)) if found == tag => {
            *items = rest;
            Ok(Some(content))
        }
        _ => Ok(None),
    }
}

/// The next item of a page.
pub(crate) fn take_item<'p>(rest: &mut &'p [u8]) -> Result<Option<(u8, &'p [u8])>, DataError> {
    if rest.is_empty() {
        return Ok(None);
    }
    let item = take_byte(rest).zip(take_bytes(rest));
    item.map(Some).ok_or_else(|| bad("an item"))
}

/// The error for an unreadable item.
pub(crate) fn bad_item() -> DataError {
    bad("an item")
}

// ---- what pages are made of

fn label(map: &mut impl Mapper, id: LabelId) -> Result<LabelId, DataError> {
    map.name(NameKind::Label, id.0).map(LabelId)
}

pub(crate) fn type_id(map: &mut impl Mapper, id: TypeId) -> Result<TypeId, DataError> {
    map.name(NameKind::Type, id.0).map(TypeId)
}

pub(crate) fn prop(map: &mut impl Mapper, id: PropId) -> Result<PropId, DataError> {
    map.name(NameKind::Prop, id.0).map(PropId)
}

pub(crate) fn labels(map: &mut impl Mapper, ids: &[LabelId]) -> Result<Vec<LabelId>, DataError> {
    ids.iter().map(|id| label(map, *id)).collect()
}

fn set(map: &mut impl Mapper, set: &Set) -> Result<Set, DataError> {
    set.iter()
        .map(|(id, value)| Ok((prop(map, *id)?, map.value(value)?)))
        .collect()
}

fn kept(map: &mut impl Mapper, carried: &Carried) -> Result<Carried, DataError> {
    let mut mapped = Carried::new();
    for (id, values) in carried {
        let mut own = Vec::with_capacity(values.len());
        for (time, value) in values {
            own.push((map.time(*time)?, map.value(value)?));
        }
        mapped.push((prop(map, *id)?, own));
    }
    Ok(mapped)
}

fn props(map: &mut impl Mapper, ids: &[PropId]) -> Result<Vec<PropId>, DataError> {
    ids.iter().map(|id| prop(map, *id)).collect()
}

pub(crate) fn dot(map: &mut impl Mapper, dot: Dot) -> Result<Dot, DataError> {
    Ok(Dot {
        replica: map.replica(dot.replica)?,
        ..dot
    })
}

pub(crate) fn dots(map: &mut impl Mapper, dots: &[Dot]) -> Result<Vec<Dot>, DataError> {
    dots.iter().map(|one| dot(map, *one)).collect()
}

pub(crate) fn stamp(map: &mut impl Mapper, stamp: Stamp) -> Result<Stamp, DataError> {
    let dot = dot(map, stamp.dot)?;
    Ok(Stamp {
        dot,
        time: map.time_of(dot, stamp.time)?,
    })
}

pub(crate) fn stamps(map: &mut impl Mapper, stamps: &[Stamp]) -> Result<Vec<Stamp>, DataError> {
    stamps.iter().map(|one| stamp(map, *one)).collect()
}

pub(crate) fn vector(map: &mut impl Mapper, vector: &Vector) -> Result<Vector, DataError> {
    vector.mapped(|replica| map.replica(replica))
}

pub(crate) fn identity(map: &mut impl Mapper, identity: &Identity) -> Result<Identity, DataError> {
    Ok(match identity {
        Identity::Keyed { label: id, key } => Identity::Keyed {
            label: label(map, *id)?,
            key: key.clone(),
        },
        Identity::Made { replica, id } => Identity::Made {
            replica: map.replica(*replica)?,
            id: *id,
        },
    })
}

pub(crate) fn versions(
    map: &mut impl Mapper,
    versions: &[Version],
    value: impl Fn(
        &mut dyn FnMut(&[u8]) -> Result<Vec<u8>, DataError>,
        &[u8],
    ) -> Result<Vec<u8>, DataError>,
) -> Result<Vec<Version>, DataError> {
    versions
        .iter()
        .map(|one| {
            Ok(Version {
                stamp: stamp(map, one.stamp)?,
                value: value(&mut |bytes| map.value(bytes), &one.value)?,
            })
        })
        .collect()
}

/// The place of a field below its owner: the property comes first.
pub(crate) fn place(map: &mut impl Mapper, place: &[u8]) -> Result<Vec<u8>, DataError> {
    let mut rest = place;
    let id = take_id(&mut rest).and_then(|id| u32::try_from(id).ok());
    let id = id.ok_or_else(|| bad("the place of a field"))?;
    let mut mapped = Vec::with_capacity(place.len());
    push_id(&mut mapped, prop(map, PropId(id))?.0.into());
    mapped.extend_from_slice(rest);
    Ok(mapped)
}

/// The stored form of an entry of a bucket.
pub(crate) fn bucket_entry(value: &mut MapValue<'_>, stored: &[u8]) -> Result<Vec<u8>, DataError> {
    let (content, expires, bytes) =
        crate::kv::entry_parts(stored).map_err(|_| bad("an entry of a bucket"))?;
    Ok(match content {
        Content::Value => crate::kv::encode_entry(content, expires, &value(bytes)?),
        _ => stored.to_vec(),
    })
}

fn action(map: &mut impl Mapper, bytes: &[u8]) -> Result<Vec<u8>, DataError> {
    let mut action = Action::decode(bytes).ok_or_else(|| bad("an action"))?;
    let context = match &mut action {
        Action::Remove { context, .. }
        | Action::Disable { context }
        | Action::Clear { context } => context,
        _ => return Ok(bytes.to_vec()),
    };
    if let Some(own) = context {
        *own = vector(map, own)?;
    }
    let mut mapped = Vec::with_capacity(bytes.len());
    action.push(&mut mapped);
    Ok(mapped)
}

/// An entry in other numbers.
pub(crate) fn entry(map: &mut impl Mapper, entry: &LogEntry) -> Result<LogEntry, DataError> {
    Ok(LogEntry {
        origin: map.replica(entry.origin)?,
        number: entry.number,
        time: entry.time,
        seen: vector(map, &entry.seen)?,
        ops: entry
            .ops
            .iter()
            .map(|one| op(map, one))
            .collect::<Result<_, _>>()?,
    })
}

fn op(map: &mut impl Mapper, op: &Op) -> Result<Op, DataError> {
    let bucket = |map: &mut _, id: u32| Mapper::name(map, NameKind::Bucket, id);
    Ok(match op {
        Op::NodeMade {
            node,
            labels: ids,
            set: properties,
        } => Op::NodeMade {
            node: identity(map, node)?,
            labels: labels(map, ids)?,
            set: set(map, properties)?,
        },
        Op::NodeChanged {
            node,
            added,
            removed,
            set: properties,
            unset,
        } => Op::NodeChanged {
            node: identity(map, node)?,
            added: labels(map, added)?,
            removed: labels(map, removed)?,
            set: set(map, properties)?,
            unset: props(map, unset)?,
        },
        Op::NodeGone { node } => Op::NodeGone {
            node: identity(map, node)?,
        },
        Op::NodeKept {
            node,
            replaced,
            labels: ids,
            carried,
        } => Op::NodeKept {
            node: identity(map, node)?,
            replaced: dots(map, replaced)?,
            labels: labels(map, ids)?,
            carried: kept(map, carried)?,
        },
        Op::RelMade {
            rel,
            type_id: id,
            source,
            target,
            source_lives,
            target_lives,
            keeps_ends,
            set: properties,
        } => Op::RelMade {
            rel: identity(map, rel)?,
            type_id: type_id(map, *id)?,
            source: identity(map, source)?,
            target: identity(map, target)?,
            source_lives: dots(map, source_lives)?,
            target_lives: dots(map, target_lives)?,
            keeps_ends: *keeps_ends,
            set: set(map, properties)?,
        },
        Op::RelChanged {
            rel,
            set: properties,
            unset,
        } => Op::RelChanged {
            rel: identity(map, rel)?,
            set: set(map, properties)?,
            unset: props(map, unset)?,
        },
        Op::RelGone { rel } => Op::RelGone {
            rel: identity(map, rel)?,
        },
        Op::Field {
            owner,
            op,
            place: at,
            action: done,
        } => Op::Field {
            owner: match owner {
                Owner::Node(node) => Owner::Node(identity(map, node)?),
                Owner::Relationship(rel) => Owner::Relationship(identity(map, rel)?),
            },
            op: *op,
            place: place(map, at)?,
            action: action(map, done)?,
        },
        Op::BucketMade {
            bucket: id,
            options,
        } => Op::BucketMade {
            bucket: bucket(map, *id)?,
            options: *options,
        },
        Op::BucketGone { bucket: id, kind } => Op::BucketGone {
            bucket: bucket(map, *id)?,
            kind: *kind,
        },
        Op::Put {
            bucket: id,
            key,
            entry,
        } => Op::Put {
            bucket: bucket(map, *id)?,
            key: key.clone(),
            entry: bucket_entry(&mut |bytes| map.value(bytes), entry)?,
        },
        Op::Taken { bucket: id, key } => Op::Taken {
            bucket: bucket(map, *id)?,
            key: key.clone(),
        },
        Op::RangeTaken {
            bucket: id,
            start,
            end,
        } => Op::RangeTaken {
            bucket: bucket(map, *id)?,
            start: start.clone(),
            end: end.clone(),
        },
        Op::ValueAdded {
            bucket: id,
            key,
            value,
        } => Op::ValueAdded {
            bucket: bucket(map, *id)?,
            key: key.clone(),
            value: value.clone(),
        },
        Op::ValueRemoved {
            bucket: id,
            key,
            value,
        } => Op::ValueRemoved {
            bucket: bucket(map, *id)?,
            key: key.clone(),
            value: value.clone(),
        },
        Op::Sequence {
            bucket: id,
            name,
            last,
        } => Op::Sequence {
            bucket: bucket(map, *id)?,
            name: name.clone(),
            last: *last,
        },
        Op::FileMade { file, created_ms } => Op::FileMade {
            file: identity(map, file)?,
            created_ms: *created_ms,
        },
        Op::FileGone { file } => Op::FileGone {
            file: identity(map, file)?,
        },
        Op::FileCalled { file, path } => Op::FileCalled {
            file: identity(map, file)?,
            path: path.clone(),
        },
        Op::FileSized {
            file,
            bytes,
            modified_ms,
        } => Op::FileSized {
            file: identity(map, file)?,
            bytes: *bytes,
            modified_ms: *modified_ms,
        },
        Op::ChunkPut { file, chunk, bytes } => Op::ChunkPut {
            file: identity(map, file)?,
            chunk: *chunk,
            bytes: bytes.clone(),
        },
        Op::ChunksGone { file, from } => Op::ChunksGone {
            file: identity(map, file)?,
            from: *from,
        },
        Op::FolderMade { path, created_ms } => Op::FolderMade {
            path: path.clone(),
            created_ms: *created_ms,
        },
        Op::FolderGone { path } => Op::FolderGone { path: path.clone() },
    })
}
