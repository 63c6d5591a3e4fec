//! Numbers of names and replicas mean nothing in another database: how the parts of entries and states are given those
//! of another one, or of a page.

use isomer_data::{Content, DataError, Dot, ReplicaNo, Vector};
use isomer_layout::{
    catalog::names::NameKind,
    convergent::effect::Action,
    keyspace::{push_id, take_id},
    kv::content::{encode_entry, entry_parts},
    replicated::identity::Identity,
};
use isomer_value::{LabelId, PropId, TypeId};

use crate::versions::{CopiedProperties, Set, Stamp, Version};

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

pub(crate) fn bad(what: &str) -> DataError {
    DataError::invalid(format!(
        "a page of replication is malformed ({what}): the peer is damaged, or not an IsomerDB of this version"
    ))
}

/// The error for an unreadable item.
pub(crate) fn bad_item() -> DataError {
    bad("an item")
}

pub(crate) fn label(map: &mut impl Mapper, id: LabelId) -> Result<LabelId, DataError> {
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

pub(crate) fn set(map: &mut impl Mapper, set: &Set) -> Result<Set, DataError> {
    set.iter()
        .map(|(id, value)| Ok((prop(map, *id)?, map.value(value)?)))
        .collect()
}

pub(crate) fn carried(
    map: &mut impl Mapper,
    carried: &CopiedProperties,
) -> Result<CopiedProperties, DataError> {
    let mut mapped = CopiedProperties::new();
    for (id, values) in carried {
        let mut own = Vec::with_capacity(values.len());
        for (time, value) in values {
            own.push((map.time(*time)?, map.value(value)?));
        }
        mapped.push((prop(map, *id)?, own));
    }
    Ok(mapped)
}

pub(crate) fn props(map: &mut impl Mapper, ids: &[PropId]) -> Result<Vec<PropId>, DataError> {
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
    let (content, expires, bytes) = entry_parts(stored).map_err(|_| bad("an entry of a bucket"))?;
    Ok(match content {
        Content::Value => encode_entry(content, expires, &value(bytes)?),
        _ => stored.to_vec(),
    })
}

pub(crate) fn action(map: &mut impl Mapper, bytes: &[u8]) -> Result<Vec<u8>, DataError> {
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

/// A part without numbers of names and replicas.
pub(crate) fn same<T: Clone>(_: &mut impl Mapper, value: &T) -> Result<T, DataError> {
    Ok(value.clone())
}

pub(crate) fn type_of(map: &mut impl Mapper, id: &TypeId) -> Result<TypeId, DataError> {
    type_id(map, *id)
}

pub(crate) fn bucket(map: &mut impl Mapper, id: &u32) -> Result<u32, DataError> {
    map.name(NameKind::Bucket, *id)
}

pub(crate) fn bucket_entry_of(map: &mut impl Mapper, stored: &[u8]) -> Result<Vec<u8>, DataError> {
    bucket_entry(&mut |bytes| map.value(bytes), stored)
}

/// The identity at the front of an item, in the numbers of this database.
pub(crate) fn take_identity(
    map: &mut impl Mapper,
    rest: &mut &[u8],
) -> Result<Identity, DataError> {
    let identity = Identity::take(rest).ok_or_else(bad_item)?;
    self::identity(map, &identity)
}

/// Versions of an entry of a bucket in other numbers; values of multi-value buckets have an empty list.
pub(crate) fn entry_versions(
    map: &mut impl Mapper,
    versions: &[Version],
) -> Result<Vec<Version>, DataError> {
    self::versions(map, versions, |value, stored| match stored.is_empty() {
        true => Ok(Vec::new()),
        false => bucket_entry(value, stored),
    })
}
