//! A whole state, page by page, for a replica that is new or too far behind.
//!
//! ```text
//! page  items:
//!   10 seen          vector: what the state of this page has seen
//!   11 node          shadow with all values, id number of its convergent properties, and as many: id property
//!   12 relationship  id type, identity source, identity target, shadow with all values, properties as above
//!   13 field         u8 owner, identity, id property, bytes from, bytes to (below the property; empty: to its end),
//!                    id number, and as many: bytes key below the property, bytes value
//!   14 entry         id bucket, u8 options, bytes key, versions       15 value  id bucket, bytes key, bytes value, versions
//!   16 sequence      id bucket, bytes name, id last
//!   17 next          bytes place: ask again with it                   18 end
//! ```
//! Each page is of the newest state when it is asked for: nothing is held for a slow reader. What the pages tell of transactions
//! that the first one had not seen is told again by the log, and doing it again changes nothing; until then nobody reads.

use isomer_storage::{KeyRange, Order, Page, PageLimit};
use isomer_value::{NodeId, PropId, RelId};

use super::{
    codec::{malformed, push_bytes, take_byte},
    identity::Identity,
    shadow::{NodeShadow, Properties, RelShadow},
    versions::{Version, push_versions},
    wire::{self, Mapper, Outgoing},
};
use crate::{
    Access, ConvergentOwner, DataError, Store, Transaction,
    catalog::NameKind,
    convergent::{ConvergentKind, entry_parts},
    keyspace::{self, IdSpace, after_prefix, push_id, sole_id, take_id},
};

/// Entries of convergent fields that are read at once.
const FIELD_ROWS: usize = 1000;

/// The parts of a state, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Nodes,
    Ghosts,
    Relationships,
    Fields,
    Entries,
    Values,
    Sequences,
}

const PARTS: [Part; 7] = [
    Part::Nodes,
    Part::Ghosts,
    Part::Relationships,
    Part::Fields,
    Part::Entries,
    Part::Values,
    Part::Sequences,
];

impl Part {
    pub(super) fn prefix(self) -> Vec<u8> {
        match self {
            Self::Nodes => vec![keyspace::TAG_NODE],
            Self::Ghosts => keyspace::shadows(IdSpace::Nodes),
            Self::Relationships => vec![keyspace::TAG_REL],
            Self::Fields => vec![keyspace::TAG_CONVERGENT],
            Self::Entries => vec![keyspace::TAG_BUCKET_ENTRY],
            Self::Values => vec![keyspace::TAG_BUCKET_PAIR],
            Self::Sequences => vec![keyspace::TAG_BUCKET_SEQUENCE],
        }
    }
}

impl Store {
    /// A page of this database's whole state, about `max_bytes` long; `place` is where the page before said to go on, or empty.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for a place that is none.
    pub fn snapshot_page(&self, place: &[u8], max_bytes: usize) -> Result<Vec<u8>, DataError> {
        let tx = self.begin(Access::Read)?;
        let mut page = Outgoing::new(self);
        let mut seen = Vec::new();
        wire::vector(&mut page, &self.shippable(tx.read())?)?.push_local(&mut seen);
        page.push(10, &seen);
        let (mut part, mut from) = match place.split_first() {
            None => (0, Vec::new()),
            Some((part, from)) if usize::from(*part) < PARTS.len() => {
                (usize::from(*part), from.to_vec())
            }
            Some(_) => return Err(wire::bad_item()),
        };
        while let Some(kind) = PARTS.get(part) {
            match push_part(&tx, *kind, &from, &mut page, max_bytes)? {
                Some(next) => {
                    let mut place = vec![part as u8];
                    place.extend_from_slice(&next);
                    page.push(17, &place);
                    self.engine().sync()?;
                    return Ok(page.finish());
                }
                None => (part, from) = (part + 1, Vec::new()),
            }
        }
        page.push(18, &[]);
        self.engine().sync()?;
        Ok(page.finish())
    }
}

/// Where a page of a snapshot says to go on; none after the last one.
///
/// # Errors
/// [`DataError::Invalid`] for what is no page.
pub fn next_place(page: &[u8]) -> Result<Option<Vec<u8>>, DataError> {
    let mut items = wire::items(page)?;
    while let Some((tag, content)) = wire::take_item(&mut items)? {
        if tag == 17 {
            return Ok(Some(content.to_vec()));
        }
    }
    Ok(None)
}

/// Puts a part into the page, from a key on; answers where to go on when the page is full.
fn push_part(
    tx: &Transaction,
    part: Part,
    from: &[u8],
    page: &mut Outgoing<'_>,
    max_bytes: usize,
) -> Result<Option<Vec<u8>>, DataError> {
    let prefix = part.prefix();
    let end = after_prefix(&prefix);
    let mut start = match from.is_empty() {
        true => prefix,
        false if from.starts_with(&prefix) => from.to_vec(),
        false => return Err(wire::bad_item()),
    };
    let mut rows = Page::new();
    loop {
        if page.items.len() >= max_bytes {
            return Ok(Some(start));
        }
        let range = KeyRange {
            start: &start,
            end: end.as_deref(),
        };
        let limit = PageLimit {
            keys: FIELD_ROWS,
            bytes: 1 << 20,
        };
        tx.read().scan(range, Order::Ascending, limit, &mut rows)?;
        if part == Part::Fields {
            match push_fields(tx, &rows, page)? {
                Some(next) => start = next,
                None => return Ok(None),
            }
            continue;
        }
        for (key, value) in rows.iter() {
            if page.items.len() >= max_bytes {
                return Ok(Some(key.to_vec()));
            }
            push_row(tx, part, key, value, page)?;
        }
        match rows.next() {
            Some(rest) => start = rest.start.to_vec(),
            None => return Ok(None),
        }
    }
}

pub(super) fn push_row(
    tx: &Transaction,
    part: Part,
    key: &[u8],
    value: &[u8],
    page: &mut Outgoing<'_>,
) -> Result<(), DataError> {
    let mut content = Vec::new();
    match part {
        Part::Nodes | Part::Ghosts => {
            let skipped = part.prefix().len();
            let id = NodeId(sole_id(&key[skipped..], "the key of a record")?);
            let is_ghost = tx.read().get(&keyspace::node(id))?.is_none();
            if part == Part::Ghosts && !is_ghost {
                return Ok(());
            }
            let shadow = tx.node_shadow(id)?;
            let shadow = shadow.ok_or_else(|| malformed("what is known of a node"))?;
            let spelled = node(page, &shadow)?;
            push_bytes(
                &mut content,
                &spelled.encode(false, &tx.shared().own_replica),
            );
            push_fields_of(tx, ConvergentOwner::Node(id), page, &mut content)?;
            page.push(11, &content);
        }
        Part::Relationships => {
            let id = RelId(sole_id(&key[1..], "the key of a record")?);
            let shadow = tx.rel_shadow(id)?;
            let shadow = shadow.ok_or_else(|| malformed("what is known of a relationship"))?;
            let ends = tx.ends_of(id)?;
            let ends = ends.ok_or_else(|| malformed("the ends of a relationship"))?;
            push_id(&mut content, wire::type_id(page, ends.type_id)?.0.into());
            for end in [ends.source, ends.target] {
                wire::identity(page, &tx.node_identity(end)?)?.push(&mut content);
            }
            let spelled = relationship(page, &shadow)?;
            push_bytes(
                &mut content,
                &spelled.encode(false, &tx.shared().own_replica),
            );
            push_fields_of(tx, ConvergentOwner::Relationship(id), page, &mut content)?;
            page.push(12, &content);
        }
        Part::Entries | Part::Values => {
            let mut rest = &key[1..];
            let bucket = bucket_of(&mut rest)?;
            push_id(&mut content, page.name(NameKind::Bucket, bucket)?.into());
            let cell = tx.read().get(&keyspace::cell(key))?;
            let versions = tx.versions_in(cell.as_deref(), Some(value))?;
            if part == Part::Entries {
                content.push(tx.bucket_shape(bucket)?);
                push_bytes(&mut content, rest);
            } else {
                let key = keyspace::take_terminated(&mut rest)
                    .ok_or_else(|| malformed("an entry of a bucket"))?;
                push_bytes(&mut content, &key);
                push_bytes(&mut content, rest);
            }
            push_versions(&mut content, &entry_versions(page, &versions)?, None);
            page.push(if part == Part::Entries { 14 } else { 15 }, &content);
        }
        Part::Sequences => {
            let mut rest = &key[1..];
            let bucket = bucket_of(&mut rest)?;
            let last = value.try_into().map(u64::from_be_bytes);
            push_id(&mut content, page.name(NameKind::Bucket, bucket)?.into());
            push_bytes(&mut content, rest);
            push_id(&mut content, last.map_err(|_| malformed("a sequence"))?);
            page.push(16, &content);
        }
        Part::Fields => {}
    }
    Ok(())
}

fn bucket_of(rest: &mut &[u8]) -> Result<u32, DataError> {
    let bucket = take_id(rest).and_then(|id| u32::try_from(id).ok());
    bucket.ok_or_else(|| malformed("the key of a bucket"))
}

/// The convergent properties of an owner.
fn push_fields_of(
    tx: &Transaction,
    owner: ConvergentOwner,
    page: &mut Outgoing<'_>,
    content: &mut Vec<u8>,
) -> Result<(), DataError> {
    let props = tx.convergent_properties_of(owner)?;
    push_id(content, props.len() as u64);
    for prop in props {
        push_id(content, wire::prop(page, prop)?.0.into());
    }
    Ok(())
}

/// One run of entries of one property, whole counters only. Answers where to go on.
fn push_fields(
    tx: &Transaction,
    rows: &Page,
    page: &mut Outgoing<'_>,
) -> Result<Option<Vec<u8>>, DataError> {
    let Some((first, _)) = rows.iter().next() else {
        return Ok(None);
    };
    let owner_end = keyspace::convergent_owner_len(first)?;
    let mut rest = &first[owner_end..];
    let prop = take_id(&mut rest).and_then(|prop| u32::try_from(prop).ok());
    let prop = PropId(prop.ok_or_else(|| malformed("the place of a field"))?);
    let base = first.len() - rest.len();
    let head = &first[..base];
    let mut own: Vec<(Vec<u8>, Vec<u8>)> = rows
        .iter()
        .take_while(|(key, _)| key.starts_with(head))
        .map(|(key, value)| (key[base..].to_vec(), value.to_vec()))
        .collect();
    let mut is_whole = own.len() < rows.len() || rows.next().is_none();
    // A counter's entries stay together: what is summed up is told by all of them.
    if let (false, Some((key, _))) = (is_whole, own.last()) {
        let full = [&first[owner_end..base], key].concat();
        let parts = entry_parts(&full)?;
        if parts.kind == ConvergentKind::Counter {
            let field = [&first[..owner_end], &full[..parts.field]].concat();
            let start = [head, key, &[0]].concat();
            let end = after_prefix(&field);
            for key in tx.keys_between(&start, end.as_deref())? {
                let value = tx.read().get(&key)?.unwrap_or_default();
                own.push((key[base..].to_vec(), value));
            }
            let last = [head, &own[own.len() - 1].0].concat();
            let after = tx.first_key(&[&last[..], &[0]].concat(), after_prefix(head).as_deref())?;
            is_whole = after.is_none();
        }
    }
    let id = sole_id(&first[2..owner_end], "the owner of a field")?;
    let mut content = vec![first[1]];
    let identity = match first[1] {
        0 => tx.node_identity(NodeId(id))?,
        _ => tx.rel_identity(RelId(id))?,
    };
    wire::identity(page, &identity)?.push(&mut content);
    push_id(&mut content, wire::prop(page, prop)?.0.into());
    // From where the run before ended, or the beginning.
    let is_first = !tx.has_key(head, first)?;
    let from = if is_first { &[][..] } else { &first[base..] };
    push_bytes(&mut content, from);
    let to = match (is_whole, own.last()) {
        (false, Some((key, _))) => [&key[..], &[0]].concat(),
        _ => Vec::new(),
    };
    push_bytes(&mut content, &to);
    push_id(&mut content, own.len() as u64);
    for (key, value) in &own {
        let spelled = spell_row(page, &[&first[owner_end..base], key].concat(), key)?;
        push_bytes(&mut content, &spelled);
        push_bytes(&mut content, value);
    }
    page.push(13, &content);
    Ok(Some(match is_whole {
        true => match after_prefix(head) {
            Some(next) => next,
            None => return Ok(None),
        },
        false => [head, &to].concat(),
    }))
}

/// The key of a row below its property, with the replica of its dot spelled.
fn spell_row(page: &mut impl Mapper, full: &[u8], below: &[u8]) -> Result<Vec<u8>, DataError> {
    let parts = entry_parts(full)?;
    let mut out = below[..below.len() - (full.len() - parts.item)].to_vec();
    wire::dot(page, parts.dot)?.push(&mut out);
    Ok(out)
}

pub(super) fn map_row(
    page: &mut impl Mapper,
    full: &[u8],
    below: &[u8],
) -> Result<Vec<u8>, DataError> {
    spell_row(page, full, below)
}

fn properties(map: &mut impl Mapper, own: &Properties) -> Result<Properties, DataError> {
    own.iter()
        .map(|(prop, versions)| {
            let value = |value: &mut wire::MapValue<'_>, bytes: &[u8]| value(bytes);
            Ok((
                wire::prop(map, *prop)?,
                wire::versions(map, versions, value)?,
            ))
        })
        .collect()
}

/// A node's shadow in other numbers.
pub(super) fn node(map: &mut impl Mapper, shadow: &NodeShadow) -> Result<NodeShadow, DataError> {
    let mut labels = std::collections::BTreeMap::new();
    for (label, stamps) in &shadow.labels {
        let label = wire::labels(map, &[*label])?;
        labels.insert(label[0], wire::stamps(map, stamps)?);
    }
    Ok(NodeShadow {
        identity: wire::identity(map, &shadow.identity)?,
        lives: wire::stamps(map, &shadow.lives)?,
        labels,
        properties: properties(map, &shadow.properties)?,
    })
}

/// A relationship's shadow in other numbers.
pub(super) fn relationship(
    map: &mut impl Mapper,
    shadow: &RelShadow,
) -> Result<RelShadow, DataError> {
    Ok(RelShadow {
        identity: wire::identity(map, &shadow.identity)?,
        life: wire::stamp(map, shadow.life)?,
        source_lives: wire::dots(map, &shadow.source_lives)?,
        target_lives: wire::dots(map, &shadow.target_lives)?,
        properties: properties(map, &shadow.properties)?,
    })
}

/// Versions of an entry of a bucket in other numbers; values of multi-value buckets have none.
pub(super) fn entry_versions(
    map: &mut impl Mapper,
    versions: &[Version],
) -> Result<Vec<Version>, DataError> {
    wire::versions(map, versions, |value, stored| match stored.is_empty() {
        true => Ok(Vec::new()),
        false => wire::bucket_entry(value, stored),
    })
}

impl Transaction {
    /// The convergent properties of an owner, one look each.
    pub(super) fn convergent_properties_of(
        &self,
        owner: ConvergentOwner,
    ) -> Result<Vec<PropId>, DataError> {
        let mut props = Vec::new();
        if !self.shared().own_replica.has_any() {
            return Ok(props);
        }
        let prefix = owner.prefix();
        let end = after_prefix(&prefix);
        let mut start = prefix.clone();
        while let Some(key) = self.first_key(&start, end.as_deref())? {
            let mut rest = &key[prefix.len()..];
            let prop = take_id(&mut rest).and_then(|prop| u32::try_from(prop).ok());
            props.push(PropId(
                prop.ok_or_else(|| malformed("the place of a field"))?,
            ));
            match after_prefix(&key[..key.len() - rest.len()]) {
                Some(next) => start = next,
                None => break,
            }
        }
        Ok(props)
    }

    /// The first key from `start` on.
    pub(super) fn first_key(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, DataError> {
        let mut page = Page::new();
        let limit = PageLimit { keys: 1, bytes: 1 };
        let range = KeyRange { start, end };
        self.read()
            .scan(range, Order::Ascending, limit, &mut page)?;
        Ok(page.iter().next().map(|(key, _)| key.to_vec()))
    }

    /// The convergent fields of one owner.
    pub(super) fn push_owner_fields(
        &self,
        owner: ConvergentOwner,
        page: &mut Outgoing<'_>,
    ) -> Result<(), DataError> {
        let prefix = owner.prefix();
        let end = after_prefix(&prefix);
        let mut start = prefix.clone();
        let mut rows = Page::new();
        loop {
            let range = KeyRange {
                start: &start,
                end: end.as_deref(),
            };
            let limit = PageLimit {
                keys: FIELD_ROWS,
                bytes: 1 << 20,
            };
            self.read()
                .scan(range, Order::Ascending, limit, &mut rows)?;
            match push_fields(self, &rows, page)? {
                Some(next) if next.starts_with(&prefix) => start = next,
                _ => return Ok(()),
            }
        }
    }

    fn has_key(&self, start: &[u8], end: &[u8]) -> Result<bool, DataError> {
        Ok(self.first_key(start, Some(end))?.is_some())
    }
}

/// The name at the front of a snapshot's item, in the numbers of this database.
pub(super) fn take_identity(
    map: &mut impl Mapper,
    rest: &mut &[u8],
) -> Result<Identity, DataError> {
    let identity = Identity::take(rest).ok_or_else(wire::bad_item)?;
    wire::identity(map, &identity)
}

/// Which owner a field has.
pub(super) fn take_space(rest: &mut &[u8]) -> Result<IdSpace, DataError> {
    match take_byte(rest) {
        Some(0) => Ok(IdSpace::Nodes),
        Some(1) => Ok(IdSpace::Relationships),
        _ => Err(wire::bad_item()),
    }
}
