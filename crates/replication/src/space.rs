//! The replicated part of a database: all of it, or a declared *space*: labels, relationship types and buckets by name.
//!
//! All members of a replication replicate the same space; each names it on the first line of its pages (see `wire`),
//! and another one is refused. A database that holds nothing yet and has heard of no member adopts the space of the
//! first member that it hears of. Everything outside the space is local: it is not sent, and received changes cannot
//! touch it.
//!
//! - A node is in the space if it was made with a label of it. It stays: taking its last such label away here, or
//!   giving one to a node outside the space, is refused, as others would keep what they have, or never get what was
//!   there before. (Where two replicas take different labels away, the node is left without one, and is still in the
//!   space: its metadata row says so.)
//! - A relationship is in the space if both its ends are, and its type, where types are named. One outside the space is
//!   deleted with its ends, by whichever replica these are deleted.
//! - A bucket is in the space by its name, with its sequences.
//! - Files are not in a declared space: they are replicated only where everything is.
//!
//! A record with a metadata row is in the space. One without a metadata row, in a database with a declared space, is in
//! it if its labels say so: it is older than replication.
//!
//! ```text
//! stored   u8 1, bytes name, then for labels, types and buckets: id number, and as many ids
//! on wire  bytes name, then for labels, types and buckets: id number, and as many: bytes name
//! ```

use std::{collections::BTreeSet, sync::Arc};

use isomer_data::DataError;
use isomer_layout::{
    catalog::names::NameKind,
    keyspace::{SPACE, push_id},
    replicated::codec::{malformed, push_bytes, take_byte, take_count, take_text, take_u32},
};
use isomer_storage::Read;
use isomer_value::{LabelId, TypeId, record::RecordRef};

/// The part of a database that is replicated. Names are sorted and unique.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicatedSpace {
    /// Its name, for display.
    pub name: String,
    /// Nodes that are created with one of these labels are in it.
    pub labels: BTreeSet<String>,
    /// Relationships of these types between nodes of the space are in it; of all types where the list is empty.
    pub rel_types: BTreeSet<String>,
    /// Buckets.
    pub buckets: BTreeSet<String>,
}

impl ReplicatedSpace {
    pub(crate) fn spell(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_bytes(&mut out, self.name.as_bytes());
        for names in [&self.labels, &self.rel_types, &self.buckets] {
            push_id(&mut out, names.len() as u64);
            names
                .iter()
                .for_each(|name| push_bytes(&mut out, name.as_bytes()));
        }
        out
    }

    pub(crate) fn read(mut bytes: &[u8]) -> Option<Self> {
        let name = take_text(&mut bytes)?;
        let [mut labels, mut rel_types, mut buckets] = [const { BTreeSet::new() }; 3];
        for names in [&mut labels, &mut rel_types, &mut buckets] {
            for _ in 0..take_count(&mut bytes)? {
                names.insert(take_text(&mut bytes)?);
            }
        }
        bytes.is_empty().then_some(Self {
            name,
            labels,
            rel_types,
            buckets,
        })
    }

    pub(crate) fn check(&self) -> Result<(), DataError> {
        isomer_data::internals::store::check_name("space", &self.name)?;
        if self.name.is_empty() {
            return Err(DataError::invalid(
                "the name of the space is empty: give it a name",
            ));
        }
        let named = [
            (NameKind::Label, &self.labels),
            (NameKind::Type, &self.rel_types),
            (NameKind::Bucket, &self.buckets),
        ];
        for (kind, names) in named {
            for name in names {
                isomer_data::internals::store::check_name(kind.noun(), name)?;
            }
        }
        match self.labels.is_empty() && self.buckets.is_empty() {
            true => Err(DataError::invalid(format!(
                "the space `{}` holds nothing: name a label or a bucket",
                self.name
            ))),
            false => Ok(()),
        }
    }
}

/// A space in numbers of this database, each list ascending.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) name: String,
    pub(crate) labels: Vec<u32>,
    pub(crate) types: Vec<u32>,
    pub(crate) buckets: Vec<u32>,
}

pub(crate) fn load(read: &dyn Read) -> Result<Option<Arc<Space>>, DataError> {
    let Some(stored) = read.get(SPACE)? else {
        return Ok(None);
    };
    let space = Space::decode(&stored).ok_or_else(|| malformed("the space"))?;
    Ok(Some(Arc::new(space)))
}

impl Space {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![1];
        push_bytes(&mut out, self.name.as_bytes());
        for ids in [&self.labels, &self.types, &self.buckets] {
            push_id(&mut out, ids.len() as u64);
            ids.iter().for_each(|id| push_id(&mut out, (*id).into()));
        }
        out
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let rest = &mut bytes;
        if take_byte(rest)? != 1 {
            return None;
        }
        let name = take_text(rest)?;
        let mut ids =
            || -> Option<Vec<u32>> { (0..take_count(rest)?).map(|_| take_u32(rest)).collect() };
        let space = Self {
            name,
            labels: ids()?,
            types: ids()?,
            buckets: ids()?,
        };
        bytes.is_empty().then_some(space)
    }

    pub(crate) fn has_any(&self, labels: &[LabelId]) -> bool {
        labels
            .iter()
            .any(|label| self.labels.binary_search(&label.0).is_ok())
    }

    pub(crate) fn has_label_of(&self, record: &RecordRef<'_>) -> bool {
        record.labels().any(|label| self.has_any(&[label]))
    }

    pub(crate) fn has_type(&self, type_id: TypeId) -> bool {
        self.types.is_empty() || self.types.binary_search(&type_id.0).is_ok()
    }

    pub(crate) fn has_bucket(&self, bucket: u32) -> bool {
        self.buckets.binary_search(&bucket).is_ok()
    }
}
