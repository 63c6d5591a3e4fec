//! A whole state, page by page, for a replica that is new or too far behind.
//!
//! ```text
//! page  items:
//!   10 seen          vector: what the state of this page has seen
//!   11 node          metadata row with all values, id number of its convergent properties, and as many: id property
//!   12 relationship  id type, identity source, identity target, metadata row with all values, properties as above
//!   13 field         u8 owner, identity, id property, bytes from, bytes to (below the property; empty: to its end),
//!                    id number, and as many: bytes key below the property, bytes value
//!   14 entry         id bucket, bytes key, versions       15 value  id bucket, bytes key, bytes value, versions
//!   16 sequence      id bucket, bytes name, versions       19 bucket  id bucket, versions (see `buckets`)
//!   21 file          identity, stamp of its creation, id created (ms), versions of its path, versions of its record (see `files`)
//!   22 folder        bytes path, versions of its making        23 chunk  identity of its file, id chunk, versions
//!   17 next          bytes cursor: request the next page with it                   18 end
//! ```
//! A cursor is u128 LE number of the transfer, u8 section, key. All pages are of the version of the first one, which is
//! held (see `outgoing`): with newer versions, a record that moves from a later section to one that was sent already
//! would be in no page.

use isomer_data::{
    ConvergentKind, ConvergentOwner, DataError, DataStore, Dot, Transaction, after_prefix,
    internals::own_replica,
};
use isomer_layout::{
    catalog::names::NameKind,
    convergent::place::{Entries, entry as entry_parts},
    keyspace::{self, push_id, sole_id, take_id},
    replicated::codec::{malformed, push_bytes, take_byte},
};
use isomer_storage::{KeyRange, Order, Page, PageLimit};
use isomer_value::{NodeId, PropId, RelId};

use crate::{
    buckets, cells,
    convergent::convergent_properties_of,
    mapping::{self, Mapper, entry_versions},
    metadata::{NodeMetadata, Properties, RelMetadata},
    records, relationship_ends, scope,
    state_transfer::{
        merge_files, outgoing,
        section::{SECTIONS, Section},
    },
    versions::push_versions,
    wire::{self, Outgoing, tag},
};

/// Entries of convergent fields that are read at a time; few in tests, so that their fields span several runs.
const MAX_FIELD_ROWS: usize = if cfg!(test) { 3 } else { 1000 };
/// Rows outside the space that a page skips, at most, in each section: the requester waits while it reads them.
const MAX_SKIPPED_ROWS: usize = if cfg!(test) { 5 } else { 10_000 };

/// A page of this database's whole state, about `max_bytes` long; `cursor` is where the previous page ended, or
/// empty.
///
/// # Errors
/// [`DataError::Invalid`] for an invalid cursor; [`DataError::Storage`] (unavailable) where the version of the
/// previous page is not held any more: start with the first page again; and while this database merges another one's
/// state.
pub fn state_page(
    store: &DataStore,
    cursor: &[u8],
    max_bytes: usize,
) -> Result<Vec<u8>, DataError> {
    let (number, rest) = match cursor.split_first_chunk::<16>() {
        None if cursor.is_empty() => (None, None),
        None => return Err(mapping::bad_item()),
        Some((number, rest)) => (Some(u128::from_le_bytes(*number)), rest.split_first()),
    };
    let (mut part, mut from) = match rest {
        None if number.is_none() => (0, Vec::new()),
        Some((part, from)) if usize::from(*part) < SECTIONS.len() => {
            (usize::from(*part), from.to_vec())
        }
        _ => return Err(mapping::bad_item()),
    };
    // A state that is merged in part has seen transactions in some sections and not in
    // others: no vector describes it.
    if store.is_joining() {
        return Err(isomer_data::internals::joining_error());
    }
    let outgoing = outgoing::open_outgoing(store, number)?;
    let tx = Transaction::begin_of(store.clone(), outgoing.snapshot.clone())?;
    let mut page = Outgoing::new(store);
    let mut seen = Vec::new();
    mapping::vector(&mut page, &outgoing.seen)?.push_local(&mut seen);
    page.push(tag::SEEN, &seen);
    while let Some(kind) = SECTIONS.get(part) {
        match push_part(&tx, *kind, &from, &mut page, max_bytes)? {
            Some(next) => {
                let mut cursor = outgoing.number.to_le_bytes().to_vec();
                cursor.push(part as u8);
                cursor.extend_from_slice(&next);
                page.push(tag::NEXT, &cursor);
                // Before the page leaves: the state may contain commits that are only buffered. If a crash
                // lost them, this replica would count their numbers as given up and never fetch them,
                // while the other one has them.
                store.engine().sync()?;
                outgoing::keep_outgoing(store, outgoing, false)?;
                return Ok(page.finish());
            }
            None => (part, from) = (part + 1, Vec::new()),
        }
    }
    page.push(tag::END, &[]);
    store.engine().sync()?;
    outgoing::keep_outgoing(store, outgoing, true)?;
    Ok(page.finish())
}

/// Where a state transfer continues after a page; none after the last one.
///
/// # Errors
/// [`DataError::Invalid`] for bytes that are not a page.
pub fn next_cursor(page: &[u8]) -> Result<Option<Vec<u8>>, DataError> {
    let mut items = wire::items(page)?;
    while let Some((found, content)) = wire::take_item(&mut items)? {
        if found == tag::NEXT {
            return Ok(Some(content.to_vec()));
        }
    }
    Ok(None)
}

/// Puts a part into the page, from a key on; returns where to continue when the page is full.
fn push_part(
    tx: &Transaction,
    part: Section,
    from: &[u8],
    page: &mut Outgoing<'_>,
    max_bytes: usize,
) -> Result<Option<Vec<u8>>, DataError> {
    let prefix = part.prefix();
    let end = after_prefix(&prefix);
    let mut start = match from.is_empty() {
        true => prefix,
        false if from.starts_with(&prefix) => from.to_vec(),
        false => return Err(mapping::bad_item()),
    };
    let mut rows = Page::new();
    // Most rows outside the space that one page skips, as the requester waits.
    let mut skipped = 0;
    loop {
        if page.items.len() >= max_bytes || skipped >= MAX_SKIPPED_ROWS {
            return Ok(Some(start));
        }
        let range = KeyRange {
            start: &start,
            end: end.as_deref(),
        };
        let limit = PageLimit {
            keys: MAX_FIELD_ROWS,
            bytes: 1 << 20,
        };
        tx.read().scan(range, Order::Ascending, limit, &mut rows)?;
        if part == Section::Fields {
            if let Some((first, _)) = rows.iter().next()
                && !scope::holds(tx, part, first)?
            {
                // An owner outside the space, with possibly millions of entries: the
                // scan seeks behind all of them.
                let owner = &first[..keyspace::convergent_owner_len(first)?];
                skipped += rows.len().max(1);
                match after_prefix(owner) {
                    Some(next) => start = next,
                    None => return Ok(None),
                }
                continue;
            }
            match push_fields(tx, &start, &rows, page)? {
                Some(next) => start = next,
                None => return Ok(None),
            }
            continue;
        }
        for (key, value) in rows.iter() {
            if page.items.len() >= max_bytes || skipped >= MAX_SKIPPED_ROWS {
                return Ok(Some(key.to_vec()));
            }
            if !scope::holds(tx, part, key)? {
                skipped += 1;
                continue;
            }
            push_row(tx, part, key, value, page)?;
        }
        match rows.next() {
            Some(rest) => start = rest.start.to_vec(),
            None => return Ok(None),
        }
    }
}

pub(crate) fn push_row(
    tx: &Transaction,
    part: Section,
    key: &[u8],
    value: &[u8],
    page: &mut Outgoing<'_>,
) -> Result<(), DataError> {
    let mut content = Vec::new();
    match part {
        Section::Nodes | Section::Ghosts => {
            let skipped = part.prefix().len();
            let id = NodeId(sole_id(&key[skipped..], "the key of a record")?);
            let is_ghost = tx.read().get(&keyspace::node(id))?.is_none();
            // Nodes with a record were sent with the section before.
            if part == Section::Ghosts && !is_ghost {
                return Ok(());
            }
            let metadata = records::node_metadata(tx, id)?;
            let metadata = metadata.ok_or_else(|| malformed("the metadata of a node"))?;
            let spelled = node(page, &metadata)?;
            push_bytes(
                &mut content,
                &spelled.encode(false, own_replica(tx.store())),
            );
            push_fields_of(tx, ConvergentOwner::Node(id), page, &mut content)?;
            page.push(tag::NODE, &content);
        }
        Section::Relationships => {
            let id = RelId(sole_id(&key[1..], "the key of a record")?);
            let metadata = records::rel_metadata(tx, id)?;
            let metadata = metadata.ok_or_else(|| malformed("the metadata of a relationship"))?;
            let ends = relationship_ends::ends_of(tx, id)?;
            let ends = ends.ok_or_else(|| malformed("the ends of a relationship"))?;
            push_id(&mut content, mapping::type_id(page, ends.type_id)?.0.into());
            for end in [ends.source, ends.target] {
                mapping::identity(page, &records::node_identity(tx, end)?)?.push(&mut content);
            }
            let spelled = relationship(page, &metadata)?;
            push_bytes(
                &mut content,
                &spelled.encode(false, own_replica(tx.store())),
            );
            push_fields_of(tx, ConvergentOwner::Relationship(id), page, &mut content)?;
            page.push(tag::RELATIONSHIP, &content);
        }
        Section::Entries | Section::Values => {
            let mut rest = &key[1..];
            let bucket = bucket_of(&mut rest)?;
            push_id(&mut content, page.name(NameKind::Bucket, bucket)?.into());
            let cell = tx.read().get(&keyspace::cell(key))?;
            let versions = cells::versions_in(tx, cell.as_deref(), Some(value))?;
            if part == Section::Entries {
                push_bytes(&mut content, rest);
            } else {
                let key = keyspace::take_terminated(&mut rest)
                    .ok_or_else(|| malformed("an entry of a bucket"))?;
                push_bytes(&mut content, &key);
                push_bytes(&mut content, rest);
            }
            push_versions(&mut content, &entry_versions(page, &versions)?, None);
            let tag = match part {
                Section::Entries => tag::ENTRY_OF_MAP,
                _ => tag::ENTRY_OF_MULTI,
            };
            page.push(tag, &content);
        }
        Section::Buckets | Section::Sequences => {
            let mut rest = &key[1..];
            let bucket = bucket_of(&mut rest)?;
            push_id(&mut content, page.name(NameKind::Bucket, bucket)?.into());
            if part == Section::Sequences {
                push_bytes(&mut content, rest);
            }
            let creations = mapping::versions(page, &buckets::creations(tx, key)?, |_, value| {
                Ok(value.to_vec())
            })?;
            push_versions(&mut content, &creations, None);
            let tag = match part {
                Section::Sequences => tag::SEQUENCE,
                _ => tag::BUCKET,
            };
            page.push(tag, &content);
        }
        Section::Files => merge_files::push_file(tx, key, page)?,
        Section::Folders => merge_files::push_folder(value, page)?,
        Section::Chunks => merge_files::push_chunk(tx, key, page)?,
        Section::Fields => {}
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
    let props = convergent_properties_of(tx, owner)?;
    push_id(content, props.len() as u64);
    for prop in props {
        push_id(content, mapping::prop(page, prop)?.0.into());
    }
    Ok(())
}

/// One run of entries of one property: from `start`, where the previous run ended, up to the end of an item, or of a
/// counter. Returns where to continue. The position is never a dot, as dots are ordered by replica numbers, which
/// differ between databases.
fn push_fields(
    tx: &Transaction,
    start: &[u8],
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
    let mut run = FieldEntries {
        skipped: base - owner_end,
        rows: Vec::with_capacity(rows.len() * 32),
        count: 0,
        row: Vec::new(),
        entries: Entries::default(),
    };
    let mut last = first;
    for (key, value) in rows.iter().take_while(|(key, _)| key.starts_with(head)) {
        run.push(page, &key[owner_end..], value)?;
        last = key;
    }
    let mut end = after_prefix(head);
    let mut is_whole = run.count < rows.len() as u64 || rows.next().is_none();
    if !is_whole {
        let parts = entry_parts(&last[owner_end..])?;
        // A folded counter is described by all of its entries together.
        let together = match parts.kind {
            ConvergentKind::Counter => parts.field,
            _ => parts.item,
        };
        let item_end = after_prefix(&last[..owner_end + together]);
        for key in tx
            .raw()
            .keys_between(&[last, &[0]].concat(), item_end.as_deref())?
        {
            let value = tx.read().get(&key)?.unwrap_or_default();
            run.push(page, &key[owner_end..], &value)?;
        }
        is_whole = match &item_end {
            Some(after) => tx.raw().first_key(after, end.as_deref())?.is_none(),
            None => true,
        };
        if !is_whole {
            end = item_end;
        }
    }
    let id = sole_id(&first[2..owner_end], "the owner of a field")?;
    let mut content = vec![first[1]];
    let identity = match first[1] {
        0 => records::node_identity(tx, NodeId(id))?,
        _ => records::rel_identity(tx, RelId(id))?,
    };
    mapping::identity(page, &identity)?.push(&mut content);
    push_id(&mut content, mapping::prop(page, prop)?.0.into());
    push_bytes(&mut content, start.strip_prefix(head).unwrap_or_default());
    // The receiver compares exactly this range with its own entries: one that the run lacks, and
    // whose dot the vector covers, was removed.
    let to = match (is_whole, &end) {
        (false, Some(end)) => &end[base..],
        _ => &[],
    };
    push_bytes(&mut content, to);
    push_id(&mut content, run.count);
    content.extend_from_slice(&run.rows);
    page.push(tag::FIELD, &content);
    Ok(end)
}

/// Entries of one property, as in a page.
struct FieldEntries {
    /// Bytes of the property after the owner.
    skipped: usize,
    rows: Vec<u8>,
    count: u64,
    /// A row's key, reused as a buffer.
    row: Vec<u8>,
    entries: Entries,
}

impl FieldEntries {
    fn push(&mut self, page: &mut impl Mapper, full: &[u8], value: &[u8]) -> Result<(), DataError> {
        self.row.clear();
        map_row(page, &mut self.entries, full, &mut self.row)?;
        push_bytes(&mut self.rows, &self.row[self.skipped..]);
        push_bytes(&mut self.rows, value);
        self.count += 1;
        Ok(())
    }
}

/// Appends the part of an entry's key after the owner, with the replica of its dot in other numbers. Returns the
/// field's kind and the dot.
pub(crate) fn map_row(
    map: &mut impl Mapper,
    entries: &mut Entries,
    full: &[u8],
    out: &mut Vec<u8>,
) -> Result<(ConvergentKind, Dot), DataError> {
    let parts = entries.entry(full)?;
    let dot = mapping::dot(map, parts.dot)?;
    out.extend_from_slice(&full[..parts.item]);
    dot.push(out);
    Ok((parts.kind, dot))
}

fn properties(map: &mut impl Mapper, own: &Properties) -> Result<Properties, DataError> {
    own.iter()
        .map(|(prop, versions)| {
            let value = |value: &mut mapping::MapValue<'_>, bytes: &[u8]| value(bytes);
            Ok((
                mapping::prop(map, *prop)?,
                mapping::versions(map, versions, value)?,
            ))
        })
        .collect()
}

/// A node's metadata row in other numbers.
pub(crate) fn node(
    map: &mut impl Mapper,
    metadata: &NodeMetadata,
) -> Result<NodeMetadata, DataError> {
    let mut labels = std::collections::BTreeMap::new();
    for (label, stamps) in &metadata.labels {
        let label = mapping::labels(map, &[*label])?;
        labels.insert(label[0], mapping::stamps(map, stamps)?);
    }
    Ok(NodeMetadata {
        identity: mapping::identity(map, &metadata.identity)?,
        creations: mapping::stamps(map, &metadata.creations)?,
        labels,
        properties: properties(map, &metadata.properties)?,
    })
}

/// A relationship's metadata row in other numbers.
pub(crate) fn relationship(
    map: &mut impl Mapper,
    metadata: &RelMetadata,
) -> Result<RelMetadata, DataError> {
    Ok(RelMetadata {
        identity: mapping::identity(map, &metadata.identity)?,
        creation: mapping::stamp(map, metadata.creation)?,
        source_creations: mapping::dots(map, &metadata.source_creations)?,
        target_creations: mapping::dots(map, &metadata.target_creations)?,
        properties: properties(map, &metadata.properties)?,
    })
}

/// The convergent fields of one owner.
pub(crate) fn push_owner_fields(
    tx: &Transaction,
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
            keys: MAX_FIELD_ROWS,
            bytes: 1 << 20,
        };
        tx.read().scan(range, Order::Ascending, limit, &mut rows)?;
        match push_fields(tx, &start, &rows, page)? {
            Some(next) if next.starts_with(&prefix) => start = next,
            _ => return Ok(()),
        }
    }
}

/// Whether a field is a relationship's.
pub(crate) fn take_of_relationship(rest: &mut &[u8]) -> Result<bool, DataError> {
    match take_byte(rest) {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        _ => Err(mapping::bad_item()),
    }
}
