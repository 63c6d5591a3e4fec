//! The catalog: names and their numbers, indexes, constraints.
//!
//! Names (labels, relationship types, property names, buckets) are interned once per database and never removed: an
//! unused name is harmless. They are allocated in small separate transactions, so that two transactions that use new
//! names never conflict. The schema (indexes and constraints) is immutable per version; a change makes a new version
//! and is a separate granule, which every writing transaction has read.

pub mod keepers;
pub mod names;
pub mod rules;
pub mod schema;
pub mod stored;

use std::sync::Arc;

use isomer_value::{IndexId, LabelId, PropId, TypeId};

use crate::{
    catalog::{
        names::{NameKind, NameTables},
        schema::{Constraint, IndexDef, IndexState, RecordScope, Schema},
    },
    keyspace::{TAG_BUCKET_ENTRY, TAG_NODE, TAG_REL, take_id},
};

/// The names and the schema as a transaction sees them. Cheap to share: behind an `Arc` everywhere.
#[derive(Debug)]
pub struct Catalog {
    /// The interned names, shared by all versions.
    #[doc(hidden)]
    pub names: Arc<NameTables>,
    /// The indexes and constraints of the version.
    #[doc(hidden)]
    pub schema: Arc<Schema>,
}

impl isomer_value::Names for Catalog {
    fn name(&self, prop: PropId) -> Option<Arc<str>> {
        self.prop_name(prop)
    }

    fn named_below(&self) -> u32 {
        isomer_value::Names::named_below(&*self.names)
    }
}

impl Catalog {
    /// The label's number, where the name was ever used.
    pub fn label_id(&self, name: &str) -> Option<LabelId> {
        self.names.find(NameKind::Label, name).map(LabelId)
    }

    /// The label's name.
    pub fn label_name(&self, id: LabelId) -> Option<Arc<str>> {
        self.names.name(NameKind::Label, id.0)
    }

    /// The relationship type's number, where the name was ever used.
    pub fn type_id(&self, name: &str) -> Option<TypeId> {
        self.names.find(NameKind::Type, name).map(TypeId)
    }

    /// The relationship type's name.
    pub fn type_name(&self, id: TypeId) -> Option<Arc<str>> {
        self.names.name(NameKind::Type, id.0)
    }

    /// The property name's number, where the name was ever used.
    pub fn prop_id(&self, name: &str) -> Option<PropId> {
        self.names.find(NameKind::Prop, name).map(PropId)
    }

    /// The property's name.
    pub fn prop_name(&self, id: PropId) -> Option<Arc<str>> {
        self.names.name(NameKind::Prop, id.0)
    }

    /// All labels ever used, by number.
    pub fn labels(&self) -> Vec<(LabelId, Arc<str>)> {
        self.names
            .all(NameKind::Label)
            .into_iter()
            .map(|(id, name)| (LabelId(id), name))
            .collect()
    }

    /// All relationship types ever used, by number.
    pub fn types(&self) -> Vec<(TypeId, Arc<str>)> {
        self.names
            .all(NameKind::Type)
            .into_iter()
            .map(|(id, name)| (TypeId(id), name))
            .collect()
    }

    /// All property names ever used, by number.
    pub fn props(&self) -> Vec<(PropId, Arc<str>)> {
        self.names
            .all(NameKind::Prop)
            .into_iter()
            .map(|(id, name)| (PropId(id), name))
            .collect()
    }

    /// The bucket's number, where it was ever used.
    pub fn bucket_id(&self, name: &str) -> Option<u32> {
        self.names.find(NameKind::Bucket, name)
    }

    /// The bucket's name.
    pub fn bucket_name(&self, id: u32) -> Option<Arc<str>> {
        self.names.name(NameKind::Bucket, id)
    }

    /// All buckets ever used, by number.
    pub fn buckets(&self) -> Vec<(u32, Arc<str>)> {
        self.names.all(NameKind::Bucket)
    }

    /// All indexes, by number, including those that are being built.
    pub fn indexes(&self) -> &[IndexDef] {
        self.schema.indexes()
    }

    /// An index.
    pub fn index(&self, id: IndexId) -> Option<&IndexDef> {
        self.schema.index(id)
    }

    /// The index of that name.
    pub fn index_named(&self, name: &str) -> Option<&IndexDef> {
        self.schema
            .indexes()
            .iter()
            .find(|index| index.name.as_ref() == name)
    }

    /// The indexes over a label or type that a query may use.
    pub fn usable_indexes(&self, scope: impl Into<RecordScope>) -> impl Iterator<Item = &IndexDef> {
        let scope = scope.into();
        self.schema
            .indexes()
            .iter()
            .filter(move |index| index.scope == scope && index.state == IndexState::Ready)
    }

    /// The name of the label or type.
    pub fn scope_name(&self, scope: RecordScope) -> Option<Arc<str>> {
        match scope {
            RecordScope::Label(label) => self.label_name(label),
            RecordScope::Type(type_id) => self.type_name(type_id),
        }
    }

    /// All constraints.
    pub fn constraints(&self) -> &[Constraint] {
        self.schema.constraints()
    }

    /// Number of the schema's version: it grows with every change of an index or constraint.
    pub fn schema_version(&self) -> u64 {
        self.schema.version()
    }

    /// Describes the content under a key, for messages.
    pub fn describe_key(&self, key: &[u8]) -> String {
        let mut rest = key.get(1..).unwrap_or_default();
        let id = take_id(&mut rest).unwrap_or_default();
        match key.first() {
            Some(&TAG_NODE) => format!("node {id}"),
            Some(&TAG_REL) => format!("relationship {id}"),
            Some(&TAG_BUCKET_ENTRY) => {
                let bucket = u32::try_from(id)
                    .ok()
                    .and_then(|id| self.bucket_name(id))
                    .unwrap_or_default();
                let key = rest[..rest.len().min(40)].escape_ascii();
                format!("the key `{key}` of bucket `{bucket}`")
            }
            _ => format!("the stored key {}", key[..key.len().min(60)].escape_ascii()),
        }
    }
}
