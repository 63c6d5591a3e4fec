//! Pages of entries and state between databases: names and replicas are spelled out once a page, and referred to by
//! number.
//!
//! ```text
//! page    u8 format (3), for labels, types, properties and buckets: id number, and as many: bytes name;
//!         id number of replicas, and as many: 16 bytes, u32 epoch; items to the end
//! item    u8 tag, see [`tag`], bytes content; contents are described in `exchange`, `send` and `scrub`
//!   07 space   first in each page of a database that replicates a part of itself: see `space`
//!   08 open    first in the greeting of an empty database that adopts the space of the first member that it hears of
//! ```

use std::sync::Arc;

use isomer_data::{
    DataError, DataStore, Dot, ReplicaId, ReplicaNo, Vector,
    internals::{names, own_replica},
};
use isomer_layout::{
    catalog::names::NameKind,
    keyspace::push_id,
    replicated::codec::{push_bytes, take_byte, take_bytes, take_count, take_u32},
};
use isomer_value::{
    Interner, Names, PropId, ValueError,
    record::{decode_value, encode_value},
};
use rustc_hash::FxHashMap;

use crate::{
    ahead,
    mapping::{Mapper, bad, bad_item},
    scope,
    space::ReplicatedSpace,
};

pub(super) const FORMAT: u8 = 3;

/// The tags of items. A tag is never given another meaning.
pub(crate) mod tag {
    // Greetings and pages of entries: see `exchange`.
    /// What the sender has seen, and its name.
    pub(crate) const SENDER: u8 = 1;
    /// An entry of the log.
    pub(crate) const ENTRY: u8 = 2;
    /// Numbers that were given up.
    pub(crate) const REACHED: u8 = 3;
    /// There are more entries.
    pub(crate) const MORE: u8 = 4;
    /// The log does not reach back so far.
    pub(crate) const BEHIND: u8 = 5;
    /// What another member has seen.
    pub(crate) const MEMBER: u8 = 6;

    // Items that may precede all others.
    /// The space that the sender replicates.
    pub(crate) const SPACE: u8 = 7;
    /// The sender adopts the space of the first member that it hears of.
    pub(crate) const OPEN: u8 = 8;

    // Pages of a state: see `send`.
    /// What the state has seen.
    pub(crate) const SEEN: u8 = 10;
    pub(crate) const NODE: u8 = 11;
    pub(crate) const RELATIONSHIP: u8 = 12;
    /// A run of entries of a convergent field.
    pub(crate) const FIELD: u8 = 13;
    /// An entry of a bucket with one value per key.
    pub(crate) const ENTRY_OF_MAP: u8 = 14;
    /// A value of a bucket with several values per key.
    pub(crate) const ENTRY_OF_MULTI: u8 = 15;
    pub(crate) const SEQUENCE: u8 = 16;
    /// Where the next page begins.
    pub(crate) const NEXT: u8 = 17;
    /// The last page.
    pub(crate) const END: u8 = 18;
    pub(crate) const BUCKET: u8 = 19;
    pub(crate) const FILE: u8 = 21;
    pub(crate) const FOLDER: u8 = 22;
    /// A block of a file's content.
    pub(crate) const CHUNK: u8 = 23;

    // Comparisons: see `scrub`.
    /// What the sender has seen, and its fingerprints.
    pub(crate) const FINGERPRINTS: u8 = 20;
}

/// Most names of one kind in a page.
const MAX_NAMES: usize = 1 << 20;

/// Names and replicas of a page.
#[derive(Default, PartialEq, Eq)]
struct Tables {
    names: [Vec<Arc<str>>; 4],
    replicas: Vec<ReplicaId>,
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
        if let Some(space) = scope::replicated_space(self.store) {
            page.push(tag::SPACE);
            push_bytes(&mut page, &space.spell());
        }
        page.extend_from_slice(&self.items);
        debug_assert!(self.is_read_of(&page), "a page is read as it was written");
        page
    }

    /// Whether a page is read as these names, replicas and items.
    fn is_read_of(&self, page: &[u8]) -> bool {
        let mut rest = &page[1..];
        let tables = Tables::take(&mut rest);
        if !rest.ends_with(&self.items) || !tables.is_ok_and(|tables| tables == self.tables) {
            return false;
        }
        loop {
            match take_item(&mut rest) {
                Ok(Some(_)) => {}
                end => return end.is_ok(),
            }
        }
    }
}

impl Mapper for Outgoing<'_> {
    fn name(&mut self, kind: NameKind, id: u32) -> Result<u32, DataError> {
        let at = kind as usize - 1;
        if let Some(number) = self.numbers[at].get(&id) {
            return Ok(*number);
        }
        let name = names(self.store).name(kind, id).ok_or_else(|| {
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
        let name = own_replica(self.store).name(replica);
        let name = name.ok_or_else(|| DataError::corrupt("a replica has no name"))?;
        let number = self.tables.replicas.len() as u32;
        self.tables.replicas.push(name);
        self.replicas.insert(replica, number);
        Ok(ReplicaNo(number))
    }

    fn value(&mut self, value: &[u8]) -> Result<Vec<u8>, DataError> {
        let decoded = decode_value(value, names(self.store))?;
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
        let id = names(self.0.store).find(NameKind::Prop, name);
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
            scope::meet_space(store, head.space.as_ref())?;
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
        store.numbering().check_room(&tables.replicas)?;
        let space = take_head(&mut rest, tag::SPACE)?
            .map(|spelled| ReplicatedSpace::read(spelled).ok_or_else(bad_item))
            .transpose()?;
        // A database that adopts a space in its greeting sends both.
        let is_open = take_head(&mut rest, tag::OPEN)?.is_some();
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
/// [`DataError::Invalid`] if it is not a greeting, is of a replica of another space, or has this database's own
/// name;
/// [`DataError::Unsupported`] for another format; [`DataError::Limit`] if it names too many replicas.
pub(crate) fn check_greeting(store: &DataStore, page: &[u8]) -> Result<(), DataError> {
    let (head, mut items) = Head::read(store, page)?;
    if !head.is_open || head.space.is_some() {
        scope::would_meet(store, head.space.as_ref())?;
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
    while let Some((found, mut content)) = take_item(&mut items)? {
        let content = &mut content;
        // The first item names the sending replica.
        match (is_first, found) {
            (true, tag::SENDER) => {
                seen(content)?;
                if Some(member(content)?) == store.replica() {
                    return Err(DataError::invalid(
                        "received a greeting under this database's own name: a database cannot be a peer of itself, nor of a copy of its files under the same name",
                    ));
                }
            }
            (false, tag::MEMBER) => {
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
                let number = self.store.numbering().enter(self.tables.replicas[at])?;
                self.replicas[at] = Some(number);
                Ok(number)
            }
            None => Err(bad("the number of a replica")),
        }
    }

    fn time(&mut self, time: u64) -> Result<u64, DataError> {
        ahead::check_time(self.store, time)?;
        if ahead::ahead_ms(self.store, time).is_none() {
            self.latest = self.latest.max(time);
        }
        Ok(time)
    }

    fn time_of(&mut self, dot: Dot, time: u64) -> Result<u64, DataError> {
        // A stamp of this replica comes back in states of others, also after its clock was set back.
        let is_own = || own_replica(self.store).own() == Some(dot.replica);
        if ahead::ahead_ms(self.store, time).is_some() && is_own() {
            return Ok(time);
        }
        self.time(time)
    }

    fn value(&mut self, value: &[u8]) -> Result<Vec<u8>, DataError> {
        let decoded = decode_value(value, &self.tables).map_err(|_| bad("a value"))?;
        let mut out = Vec::with_capacity(value.len());
        let mut names = isomer_data::internals::store::PropNames::new(self.store);
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
