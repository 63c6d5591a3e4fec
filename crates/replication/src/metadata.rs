//! What replication knows of a node or relationship in addition to its record: its name, and which transactions put its
//! content.
//!
//! ```text
//! node          identity, stamps, creations, labels, properties
//! relationship  identity, stamps, creation, creations of its source, creations of its target, properties
//!
//! identity      see `identity`
//! stamps        id number, and as many: dot, id hybrid time
//! creations     id number, and as many: id place among the stamps
//! labels        id number, and as many: id label, creations
//! properties    id number, and as many: id property, id number, and as many: id place among the stamps, then 0, or 1 and bytes
//!               where the value does not stand in the record
//! ```
//! Labels and properties of the record that are not named were put by the first stamp. A record without a metadata row
//! is older than replication: all of it was put by the *base*, one transaction of the moment when replication began.
//!
//! A node that is deleted and holds something that its deletion had not seen leaves a metadata row without a record, a
//! *ghost*: if a replica that had not seen the deletion either creates the node again, it gets that content back.

use std::collections::BTreeMap;

use isomer_data::{DataError, Dot};
use isomer_layout::{
    keyspace::{push_id, take_id},
    replicated::{
        codec::{malformed, push_bytes, take_byte, take_bytes, take_count, take_u32},
        identity::Identity,
    },
};
use isomer_value::{LabelId, PropId, record::RecordRef};

use crate::versions::{self, ReplicaNames, Stamp, Version};

/// Properties and their versions.
pub(crate) type Properties = BTreeMap<PropId, Vec<Version>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeMetadata {
    pub(crate) identity: Identity,
    /// The stamps of its creations that have not been deleted.
    pub(crate) creations: Vec<Stamp>,
    pub(crate) labels: BTreeMap<LabelId, Vec<Stamp>>,
    pub(crate) properties: Properties,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RelMetadata {
    pub(crate) identity: Identity,
    pub(crate) creation: Stamp,
    /// The creations of its ends that its creator saw: it exists while one of each end exists.
    pub(crate) source_creations: Vec<Dot>,
    pub(crate) target_creations: Vec<Dot>,
    pub(crate) properties: Properties,
}

impl NodeMetadata {
    pub(crate) fn new(identity: Identity) -> Self {
        Self {
            identity,
            creations: Vec::new(),
            labels: BTreeMap::new(),
            properties: Properties::new(),
        }
    }

    /// The implied metadata row of a record without one.
    pub(crate) fn implied(
        identity: Identity,
        base: Stamp,
        record: &RecordRef<'_>,
    ) -> Result<Self, DataError> {
        let mut metadata = Self::new(identity);
        metadata.creations.push(base);
        metadata.fill(base, record)?;
        Ok(metadata)
    }

    /// Whether it equals the implied metadata row.
    pub(crate) fn is_empty(&self) -> bool {
        self.creations.is_empty() && self.labels.is_empty() && self.properties.is_empty()
    }

    /// The dots of its creations.
    pub(crate) fn creation_dots(&self) -> Vec<Dot> {
        self.creations.iter().map(|creation| creation.dot).collect()
    }

    /// Removes everything that was seen.
    pub(crate) fn remove_seen(&mut self, seen: &dyn Fn(Dot) -> bool) {
        self.creations.retain(|creation| !seen(creation.dot));
        self.labels.retain(|_, stamps| {
            stamps.retain(|stamp| !seen(stamp.dot));
            !stamps.is_empty()
        });
        remove_seen(&mut self.properties, seen);
    }

    fn fill(&mut self, base: Stamp, record: &RecordRef<'_>) -> Result<(), DataError> {
        for label in record.labels() {
            self.labels.entry(label).or_insert_with(|| vec![base]);
        }
        fill(&mut self.properties, base, record)
    }

    pub(crate) fn encode(&self, has_record: bool, names: &dyn ReplicaNames) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        self.identity.push(&mut out);
        let stamps = Stamps::of(
            self.creations
                .iter()
                .copied()
                .chain(self.labels.values().flatten().copied())
                .chain(stamps_of(&self.properties)),
        );
        stamps.push(&mut out);
        stamps.push_places(&self.creations, &mut out);
        let is_stored =
            |own: &[Stamp]| !has_record || !matches!(own, [one] if stamps.is_base(*one));
        let stored: Vec<_> = self
            .labels
            .iter()
            .filter(|(_, own)| is_stored(own))
            .collect();
        push_id(&mut out, stored.len() as u64);
        for (label, own) in stored {
            push_id(&mut out, label.0.into());
            stamps.push_places(own, &mut out);
        }
        push_properties(&self.properties, &stamps, has_record, names, &mut out);
        out
    }

    pub(crate) fn decode(
        mut bytes: &[u8],
        record: Option<&RecordRef<'_>>,
    ) -> Result<Self, DataError> {
        let rest = &mut bytes;
        let parsed = (|| {
            let identity = Identity::take(rest)?;
            let stamps = Stamps::take(rest)?;
            let mut metadata = Self::new(identity);
            metadata.creations = stamps.take_places(rest)?;
            for _ in 0..take_count(rest)? {
                let label = LabelId(take_u32(rest)?);
                metadata.labels.insert(label, stamps.take_places(rest)?);
            }
            metadata.properties = take_properties(&stamps, record, rest)?;
            rest.is_empty().then_some((metadata, stamps))
        })();
        let (mut metadata, stamps) = parsed.ok_or_else(|| malformed("the metadata of a node"))?;
        if let (Some(record), Some(&base)) = (record, stamps.0.first()) {
            metadata.fill(base, record)?;
        }
        Ok(metadata)
    }
}

impl RelMetadata {
    pub(crate) fn implied(
        identity: Identity,
        base: Stamp,
        record: &RecordRef<'_>,
    ) -> Result<Self, DataError> {
        let mut properties = Properties::new();
        fill(&mut properties, base, record)?;
        Ok(Self {
            identity,
            creation: base,
            source_creations: vec![base.dot],
            target_creations: vec![base.dot],
            properties,
        })
    }

    pub(crate) fn encode(&self, has_record: bool, names: &dyn ReplicaNames) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        self.identity.push(&mut out);
        let stamps = Stamps::of(std::iter::once(self.creation).chain(stamps_of(&self.properties)));
        stamps.push(&mut out);
        stamps.push_places(&[self.creation], &mut out);
        for creations in [&self.source_creations, &self.target_creations] {
            push_dots(creations, &mut out);
        }
        push_properties(&self.properties, &stamps, has_record, names, &mut out);
        out
    }

    pub(crate) fn decode(bytes: &[u8], record: &RecordRef<'_>) -> Result<Self, DataError> {
        Self::read(bytes, Some(record))
    }

    /// The metadata row of a record with all values.
    pub(crate) fn decode_explicit(bytes: &[u8]) -> Result<Self, DataError> {
        Self::read(bytes, None)
    }

    fn read(mut bytes: &[u8], record: Option<&RecordRef<'_>>) -> Result<Self, DataError> {
        let rest = &mut bytes;
        let parsed = (|| {
            let identity = Identity::take(rest)?;
            let stamps = Stamps::take(rest)?;
            let [creation] = stamps.take_places(rest)?[..] else {
                return None;
            };
            let metadata = Self {
                identity,
                creation,
                source_creations: take_dots(rest)?,
                target_creations: take_dots(rest)?,
                properties: take_properties(&stamps, record, rest)?,
            };
            rest.is_empty().then_some((metadata, stamps))
        })();
        let (mut metadata, stamps) =
            parsed.ok_or_else(|| malformed("the metadata of a relationship"))?;
        if let (Some(record), Some(&base)) = (record, stamps.0.first()) {
            fill(&mut metadata.properties, base, record)?;
        }
        Ok(metadata)
    }
}

/// Removes the seen versions of properties.
pub(crate) fn remove_seen(properties: &mut Properties, seen: &dyn Fn(Dot) -> bool) {
    properties.retain(|_, own| {
        versions::remove_seen(own, seen);
        !own.is_empty()
    });
}

/// The identity in the metadata row of a record, without the rest.
pub(crate) fn identity_of(mut bytes: &[u8]) -> Result<Identity, DataError> {
    Identity::take(&mut bytes).ok_or_else(|| malformed("the name of a record"))
}

fn fill(properties: &mut Properties, base: Stamp, record: &RecordRef<'_>) -> Result<(), DataError> {
    for raw in record.iter_raw() {
        let (prop, value) = raw?;
        properties.entry(prop).or_insert_with(|| {
            vec![Version {
                stamp: base,
                value: value.to_vec(),
            }]
        });
    }
    Ok(())
}

fn stamps_of(properties: &Properties) -> impl Iterator<Item = Stamp> + '_ {
    properties.values().flatten().map(|version| version.stamp)
}

/// Distinct stamps, the most frequent one first.
struct Stamps(Vec<Stamp>);

impl Stamps {
    fn of(all: impl Iterator<Item = Stamp>) -> Self {
        let mut counted: BTreeMap<Stamp, usize> = BTreeMap::new();
        all.for_each(|stamp| *counted.entry(stamp).or_default() += 1);
        let mut stamps: Vec<_> = counted.into_iter().collect();
        stamps.sort_by_key(|(stamp, count)| (std::cmp::Reverse(*count), *stamp));
        Self(stamps.into_iter().map(|(stamp, _)| stamp).collect())
    }

    fn is_base(&self, stamp: Stamp) -> bool {
        self.0.first() == Some(&stamp)
    }

    fn push(&self, out: &mut Vec<u8>) {
        push_id(out, self.0.len() as u64);
        self.0.iter().for_each(|stamp| stamp.push(out));
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let stamps: Option<_> = (0..take_count(bytes)?)
            .map(|_| Stamp::take(bytes))
            .collect();
        stamps.map(Self)
    }

    fn place(&self, stamp: Stamp) -> u64 {
        let at = self.0.iter().position(|own| *own == stamp);
        at.expect("the table was made of all stamps") as u64
    }

    fn push_places(&self, stamps: &[Stamp], out: &mut Vec<u8>) {
        push_id(out, stamps.len() as u64);
        stamps
            .iter()
            .for_each(|stamp| push_id(out, self.place(*stamp)));
    }

    fn take_places(&self, bytes: &mut &[u8]) -> Option<Vec<Stamp>> {
        (0..take_count(bytes)?)
            .map(|_| self.take_place(bytes))
            .collect()
    }

    fn take_place(&self, bytes: &mut &[u8]) -> Option<Stamp> {
        self.0.get(usize::try_from(take_id(bytes)?).ok()?).copied()
    }
}

fn push_properties(
    properties: &Properties,
    stamps: &Stamps,
    has_record: bool,
    names: &dyn ReplicaNames,
    out: &mut Vec<u8>,
) {
    let is_stored =
        |own: &[Version]| !has_record || !matches!(own, [one] if stamps.is_base(one.stamp));
    let stored: Vec<_> = properties
        .iter()
        .filter(|(_, own)| is_stored(own))
        .collect();
    push_id(out, stored.len() as u64);
    for (prop, own) in stored {
        push_id(out, prop.0.into());
        let read = versions::winner(own, names).filter(|_| has_record);
        push_id(out, own.len() as u64);
        for (at, version) in own.iter().enumerate() {
            push_id(out, stamps.place(version.stamp));
            match read == Some(at) {
                true => out.push(0),
                false => {
                    out.push(1);
                    push_bytes(out, &version.value);
                }
            }
        }
    }
}

fn take_properties(
    stamps: &Stamps,
    record: Option<&RecordRef<'_>>,
    rest: &mut &[u8],
) -> Option<Properties> {
    let mut properties = Properties::new();
    for _ in 0..take_count(rest)? {
        let prop = PropId(take_u32(rest)?);
        let mut own = Vec::new();
        for _ in 0..take_count(rest)? {
            let stamp = stamps.take_place(rest)?;
            let value = match take_byte(rest)? {
                // A record that is being changed may lack it already, or be deleted.
                0 => match record {
                    Some(record) => record.get_raw(prop).ok()?.unwrap_or_default().to_vec(),
                    None => Vec::new(),
                },
                1 => take_bytes(rest)?.to_vec(),
                _ => return None,
            };
            own.push(Version { stamp, value });
        }
        properties.insert(prop, own);
    }
    Some(properties)
}

pub(crate) fn push_dots(dots: &[Dot], out: &mut Vec<u8>) {
    push_id(out, dots.len() as u64);
    dots.iter().for_each(|dot| dot.push(out));
}

pub(crate) fn take_dots(bytes: &mut &[u8]) -> Option<Vec<Dot>> {
    (0..take_count(bytes)?).map(|_| Dot::take(bytes)).collect()
}
