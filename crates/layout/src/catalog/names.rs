//! Interned names: append-only tables shared by all transactions.

#![allow(missing_docs)] // an interface for `replication` alone

use std::sync::Arc;

use isomer_value::PropId;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;

/// Which table a name is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NameKind {
    Label = 1,
    Type = 2,
    Prop = 3,
    Bucket = 4,
}

impl NameKind {
    pub const ALL: [Self; 4] = [Self::Label, Self::Type, Self::Prop, Self::Bucket];

    /// Its name in messages.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Type => "relationship type",
            Self::Prop => "property name",
            Self::Bucket => "bucket",
        }
    }
}

/// The tables. A number, once given, means the same name for ever, so that readers of any version share them.
#[derive(Debug, Default)]
pub struct NameTables {
    tables: [RwLock<Table>; 4],
}

#[derive(Debug, Default)]
struct Table {
    ids: FxHashMap<Arc<str>, u32>,
    names: Vec<Option<Arc<str>>>,
    /// All numbers below have a name.
    named_below: u32,
}

impl NameTables {
    pub fn find(&self, kind: NameKind, name: &str) -> Option<u32> {
        self.table(kind).read().ids.get(name).copied()
    }

    pub fn name(&self, kind: NameKind, id: u32) -> Option<Arc<str>> {
        self.table(kind).read().names.get(id as usize)?.clone()
    }

    pub fn all(&self, kind: NameKind) -> Vec<(u32, Arc<str>)> {
        let table = self.table(kind).read();
        table
            .names
            .iter()
            .enumerate()
            .filter_map(|(id, name)| Some((id as u32, name.clone()?)))
            .collect()
    }

    /// The number that the next new name gets.
    pub fn next_id(&self, kind: NameKind) -> u32 {
        self.table(kind).read().names.len() as u32
    }

    /// Adds a name that is stored under `id`.
    pub fn enter(&self, kind: NameKind, id: u32, name: &str) {
        let mut table = self.table(kind).write();
        let name: Arc<str> = name.into();
        if table.names.len() <= id as usize {
            table.names.resize(id as usize + 1, None);
        }
        table.names[id as usize] = Some(name.clone());
        table.ids.insert(name, id);
        while let Some(Some(_)) = table.names.get(table.named_below as usize) {
            table.named_below += 1;
        }
    }

    fn table(&self, kind: NameKind) -> &RwLock<Table> {
        &self.tables[kind as usize - 1]
    }
}

impl isomer_value::Names for NameTables {
    fn name(&self, prop: PropId) -> Option<Arc<str>> {
        NameTables::name(self, NameKind::Prop, prop.0)
    }

    fn named_below(&self) -> u32 {
        self.table(NameKind::Prop).read().named_below
    }
}
