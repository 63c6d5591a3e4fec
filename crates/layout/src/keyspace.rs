//! Every key of the database, byte by byte. Nothing else makes keys.
//!
//! A key begins with one tag byte. `id` is an *ordered id*: a number in 1 to 9 bytes whose byte order is its numeric
//! order (below). `u32` is four bytes, big endian. `value` is the order-preserving encoding of a value.
//!
//! | tag | rest of the key | value | what |
//! |---|---|---|---|
//! | `01` | – | see [`FORMAT`] | format of the database |
//! | `02` | kind (1 label, 2 type, 3 property, 4 bucket), `u32` number | the name, UTF-8 | interned names |
//! | `03` | `00` | version `u64`, next index number `u32` | schema version |
//! | `03` | `01`, `u32` index number | definition | indexes |
//! | `03` | `02`, name | definition | constraints |
//! | `04` | space (0 node, 1 relationship), `u32` label or type, `id` first | length, `id` | extents of ids |
//! | `05` | space | first id never reserved, `id` | end of the reserved ids |
//! | `06` | – | see `data::counts` | counts at a version |
//! | `07` | 1 label or 2 type, `u32` number | see `data::statistics::stored` | statistics |
//! | `08` | – | see `lineage` | eras, and where the change stream begins |
//! | `09` | – | 16 bytes, a random UUID | identity of the database |
//! | `10` | `id` node | labels, properties (see `record`) | nodes |
//! | `11` | `id` relationship | type, ends, properties (see `record`) | relationships |
//! | `12` | `id` node, link, `id` other end, `id` relationship | – | adjacency, two entries a relationship |
//! | `13` | `id` label, `id` node | – | label membership |
//! | `14` | `id` label, value of `_key` | `id` node | keys of documents |
//! | `15` | `id` index, values, `id` node | one byte: length of the trailing `id` | entries of indexes over nodes |
//! | `15` | `id` index, values, `id` relationship | the same byte, `id` source, `id` target | entries of indexes over relationships |
//! | `20` | `id` bucket | kind, whether reversible (see `kv`) | buckets |
//! | `21` | `id` bucket, key | head, value (see `kv`) | entries of maps |
//! | `22` | `id` bucket, `text` key, value | – | entries of multi-value buckets |
//! | `23` | `id` bucket, `text` value, key | –, or time `u64` of expiry | keys of a value, in reversible buckets |
//! | `24` | `u64` time in ms, `id` bucket, key | – | expiry entries, some of them outdated |
//! | `25` | `id` bucket, name | last number `u64` | sequences |
//! | `28` | `id` folder (0 none, 1 the root), name | kind (1 file, 2 folder), `id` number | entries of folders |
//! | `29` | `id` file or folder | `id` bytes, `id` created, `id` modified (ms) | files and folders |
//! | `2a` | `id` file, `id` chunk | its bytes, without trailing zeros that were never written | content of files |
//! | `2b` | – | `id` first number never given | numbers of files and folders |
//! | `40` | owner (`00` node, `01` relationship), `id` of it, field, item, dot | see `convergent::place` | convergent entries |
//! | `41` | `u32` number | 16 bytes, `u32` epoch | replicas |
//! | `42` | `id` replica | `id` transactions up to this one are here, and as many `id` that are not | what was seen of each replica |
//! | `43` | `id` transaction | `id` transactions up to this one were here or given up before it | own transactions above that of `42` that are here |
//! | `44` | – | `id` replica that this is, `id` first number never reserved, `u8` whether open | own transaction numbers |
//! | `45` | `id` property | – | properties that some record holds as a convergent field |
//! | `46` | space, `id` node or relationship | see `replication::metadata` | metadata rows of records |
//! | `46` | `02`, `id` file | see `replication::files` | metadata rows of files |
//! | `47` | space (`02` files), identity | `id` node, relationship or file | names of records and files between replicas |
//! | `48` | a key of the tags `20`, `21`, `22`, `25`, `29`, `2a` | versions, see `replication::cells`, `buckets` and `files` | who wrote buckets, their entries and sequences, sizes and content of files |
//! | `49` | `00` | dot, `id` hybrid time | when the database became a replica |
//! | `49` | `01`, `id` replica | `id` transactions up to this one are not in the log | where the log begins |
//! | `49` | `02`, 16 bytes | see `replication::members` | members |
//! | `49` | `03`, name | see `replication::members` | peers |
//! | `49` | `04`, kind, see `replication::conflicts` | – | conflicts |
//! | `49` | `05` | see `replication::state_transfer::receive` | exists while the state of another replica is merged |
//! | `49` | `06`, `u32` type | the name of its constraint, or nothing for the usual one | types whose relationships keep their ends |
//! | `49` | `07` | `id` ms, 0 for ever | how long the log is kept for a member that does not acknowledge it |
//! | `49` | `08`, `id` index | – | indexes that were given up, as they cannot hold fields that other replicas made |
//! | `49` | `09` | see `replication::space` | the replicated space, if one is declared |
//! | `4a` | `id` replica, `id` transaction | see `replication::entry` | the log |
//! | `4c` | `00`, hash of a path | path, versions, see `replication::files` | folders that were made explicitly |
//! | `4c` | `01`, hash of a path, `id` file | – | files by path |
//! | `4b` | – | – | exists while a copy is made, and in the copy until it is opened |
//!
//! **Ordered id.** The number of leading one bits of the first byte is the number of bytes that follow; the number is
//! what remains, big endian: `0xxxxxxx` (below 2⁷), `10xxxxxx` + 1 byte (below 2¹⁴), … `11111110` + 7, `11111111` + 8.
//! Each number has one encoding, its shortest.
//!
//! `text` is bytes of any length in the middle of a key: `00` is written as `00 ff`, and `00 00` ends it, so that
//! encoded texts sort like the texts.
//!
//! **Link.** Direction and type in one byte for the first 63 types, so that all outgoing relationships of a node
//! precede its incoming ones and each type is contiguous: bit 7 is the direction (0 out, 1 in), bits 0–6 the type's
//! number if below 63, else 63 followed by `id` (number − 63).

#![allow(missing_docs)] // the table above, and the layout at each function, say what a key holds

use isomer_value::{IndexId, LabelId, NodeId, PropId, RelId, TypeId};

use crate::{DataError, catalog::names::NameKind};

/// The key of the format record. Its value: `"isomer"`, then the format number as one byte.
pub const FORMAT: &[u8] = &[0x01];
/// The value of the format record.
pub const FORMAT_VALUE: &[u8] = b"isomer\x01";
/// The key of the schema version.
pub const SCHEMA_VERSION: &[u8] = &[0x03, 0x00];
/// The key of the counts.
pub const COUNTS: &[u8] = &[0x06];
/// The key of the eras.
pub const LINEAGE: &[u8] = &[0x08];
/// The key of the identity.
pub const IDENTITY: &[u8] = &[0x09];

/// The key of the next number of a file.
pub const FILE_NUMBERS: &[u8] = &[0x2b];

pub const TAG_NAME: u8 = 0x02;
pub const TAG_SCHEMA: u8 = 0x03;
pub const TAG_EXTENT: u8 = 0x04;
pub const TAG_RESERVED: u8 = 0x05;
pub const TAG_STATISTICS: u8 = 0x07;
/// The first byte of the keys of nodes.
pub const TAG_NODE: u8 = 0x10;
/// The first byte of the keys of relationships.
pub const TAG_REL: u8 = 0x11;
/// The first byte of the keys of adjacency.
pub const TAG_ADJACENCY: u8 = 0x12;
/// The first byte of the keys of label membership.
pub const TAG_LABEL: u8 = 0x13;
/// The first byte of the keys under which nodes are found by their `_key`.
pub const TAG_KEY: u8 = 0x14;
pub const TAG_INDEX: u8 = 0x15;

pub const TAG_BUCKET: u8 = 0x20;
pub const TAG_BUCKET_ENTRY: u8 = 0x21;
pub const TAG_BUCKET_PAIR: u8 = 0x22;
const TAG_BUCKET_REVERSE: u8 = 0x23;
pub const TAG_BUCKET_EXPIRY: u8 = 0x24;
pub const TAG_BUCKET_SEQUENCE: u8 = 0x25;
pub const TAG_FILE_ENTRY: u8 = 0x28;
pub const TAG_FILE: u8 = 0x29;
pub const TAG_FILE_CHUNK: u8 = 0x2a;

pub const TAG_CONVERGENT: u8 = 0x40;
pub const TAG_REPLICA: u8 = 0x41;
pub const TAG_SEEN: u8 = 0x42;
pub const TAG_OWN_NUMBER: u8 = 0x43;
/// The key of the reservation of own transaction numbers.
pub const NUMBERS: &[u8] = &[0x44];
pub const TAG_CONVERGENT_PROPERTY: u8 = 0x45;

const TAG_METADATA: u8 = 0x46;
const TAG_IDENTITY: u8 = 0x47;
const TAG_CELL: u8 = 0x48;
const TAG_REPLICATION: u8 = 0x49;
const TAG_LOG: u8 = 0x4a;
const TAG_PATH: u8 = 0x4c;
/// The prefix of all folders that were made explicitly, in a replica.
pub const FOLDERS_MADE: &[u8] = &[TAG_PATH, 0x00];
/// The key of the mark of a copy.
pub const COPY: &[u8] = &[0x4b];
/// The first tags of a database's content: nodes, buckets, entries of folders, convergent entries.
pub const CONTENT: &[u8] = &[TAG_NODE, TAG_BUCKET, TAG_FILE_ENTRY, TAG_CONVERGENT];
/// When the database became a replica.
pub const REPLICATION: &[u8] = &[TAG_REPLICATION, 0x00];
/// The prefix of all log starts, members, peers and conflicts.
pub const FLOORS: &[u8] = &[TAG_REPLICATION, 0x01];
pub const MEMBERS: &[u8] = &[TAG_REPLICATION, 0x02];
pub const PEERS: &[u8] = &[TAG_REPLICATION, 0x03];
pub const CONFLICTS: &[u8] = &[TAG_REPLICATION, 0x04];
/// The prefix of the whole log.
pub const LOG: &[u8] = &[TAG_LOG];
/// The snapshot that is being joined.
pub const JOINING: &[u8] = &[TAG_REPLICATION, 0x05];

/// How long the log is kept for a member that does not acknowledge it.
pub const LOG_KEPT: &[u8] = &[TAG_REPLICATION, 0x07];

/// The prefix of all indexes that were given up.
pub const GIVEN_UP: &[u8] = &[TAG_REPLICATION, 0x08];

/// The time up to which stamps ahead of the clock are accepted.
pub const CLOCK_ACCEPTED: &[u8] = &[TAG_REPLICATION, 0x0a];

/// The replicated space.
pub const SPACE: &[u8] = &[TAG_REPLICATION, 0x09];

/// The prefix of all types whose relationships keep their ends.
pub const KEEPERS: &[u8] = &[TAG_REPLICATION, 0x06];

/// The byte after [`TAG_STATISTICS`] for the statistics of a label, or those of a type.
pub const STATISTICS_OF_LABEL: u8 = 1;
pub const STATISTICS_OF_TYPE: u8 = 2;

/// The spaces of ids of records and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdSpace {
    /// The ids of nodes.
    Nodes = 0,
    /// The ids of relationships.
    Relationships = 1,
    /// The numbers of files: only in keys of replication.
    Files = 2,
}

/// The two ends of a relationship, as adjacency sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    Out = 0,
    In = 1,
}

/// Appends an ordered id.
pub fn push_id(key: &mut Vec<u8>, id: u64) {
    let bits = 64 - id.leading_zeros() as usize;
    // n following bytes hold 7 * (n + 1) bits for n up to 7, and 64 for n = 8.
    let following = if bits > 56 {
        8
    } else {
        bits.saturating_sub(1) / 7
    };
    if following == 8 {
        key.push(0xff);
        key.extend_from_slice(&id.to_be_bytes());
    } else {
        // As many ones as bytes follow, above the id's bits.
        let marker = !(0xff_u8 >> following);
        let marked = id | u64::from(marker) << (8 * following);
        // All eight bytes and then truncated: copying a constant length is cheapest.
        let end = key.len() + following + 1;
        key.extend_from_slice(&(marked << (8 * (7 - following))).to_be_bytes());
        key.truncate(end);
    }
}

/// Decodes an ordered id from the front of `bytes`.
pub fn take_id(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    let following = first.leading_ones() as usize;
    if rest.len() < following {
        return None;
    }
    let mut id = if following >= 7 {
        0
    } else {
        u64::from(first & (0x7f >> following))
    };
    for &byte in &rest[..following] {
        id = id << 8 | u64::from(byte);
    }
    *bytes = &rest[following..];
    Some(id)
}

/// Bytes of an ordered id.
pub fn id_len(id: u64) -> usize {
    let bits = 64 - id.leading_zeros() as usize;
    if bits > 56 {
        9
    } else {
        bits.saturating_sub(1) / 7 + 1
    }
}

/// The first key after all keys that begin with `prefix`; `None` if there is none.
pub fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

fn tagged(tag: u8, id: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(24);
    push_tagged(&mut key, tag, id);
    key
}

fn push_tagged(key: &mut Vec<u8>, tag: u8, id: u64) {
    key.push(tag);
    push_id(key, id);
}

pub fn name(kind: NameKind, id: u32) -> Vec<u8> {
    let mut key = vec![TAG_NAME, kind as u8];
    key.extend_from_slice(&id.to_be_bytes());
    key
}

/// The record that an index was given up.
pub fn given_up(id: IndexId) -> Vec<u8> {
    let mut key = GIVEN_UP.to_vec();
    push_id(&mut key, id.0.into());
    key
}

pub fn index_definition(id: IndexId) -> Vec<u8> {
    let mut key = vec![TAG_SCHEMA, 0x01];
    key.extend_from_slice(&id.0.to_be_bytes());
    key
}

pub fn constraint_definition(name: &str) -> Vec<u8> {
    let mut key = vec![TAG_SCHEMA, 0x02];
    key.extend_from_slice(name.as_bytes());
    key
}

pub fn extent(space: IdSpace, owner: u32, first: u64) -> Vec<u8> {
    let mut key = vec![TAG_EXTENT, space as u8];
    key.extend_from_slice(&owner.to_be_bytes());
    push_id(&mut key, first);
    key
}

pub fn statistics(of: u8, id: u32) -> Vec<u8> {
    let mut key = vec![TAG_STATISTICS, of];
    key.extend_from_slice(&id.to_be_bytes());
    key
}

/// The end of the reserved ids of a space.
pub fn reserved(space: IdSpace) -> Vec<u8> {
    vec![TAG_RESERVED, space as u8]
}

/// The record of a node.
pub fn node(id: NodeId) -> Vec<u8> {
    tagged(TAG_NODE, id.0)
}

pub fn push_node(key: &mut Vec<u8>, id: NodeId) {
    push_tagged(key, TAG_NODE, id.0);
}

/// The record of a relationship.
pub fn relationship(id: RelId) -> Vec<u8> {
    tagged(TAG_REL, id.0)
}

pub fn push_relationship(key: &mut Vec<u8>, id: RelId) {
    push_tagged(key, TAG_REL, id.0);
}

/// The prefix of the adjacency of a node.
pub fn adjacency_of(node: NodeId) -> Vec<u8> {
    tagged(TAG_ADJACENCY, node.0)
}

/// Appends direction and type; for all types of a direction, the caller makes a range.
pub fn push_link(key: &mut Vec<u8>, side: Side, type_id: TypeId) {
    let bit = (side as u8) << 7;
    if type_id.0 < 63 {
        key.push(bit | type_id.0 as u8);
    } else {
        key.push(bit | 63);
        push_id(key, u64::from(type_id.0 - 63));
    }
}

pub fn take_link(bytes: &mut &[u8]) -> Option<(Side, TypeId)> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    let side = if first & 0x80 == 0 {
        Side::Out
    } else {
        Side::In
    };
    let type_id = match first & 0x7f {
        63 => u32::try_from(take_id(bytes)?).ok()?.checked_add(63)?,
        low @ 0..63 => u32::from(low),
        _ => return None,
    };
    Some((side, TypeId(type_id)))
}

/// One entry of a node's adjacency.
pub fn adjacency(node: NodeId, side: Side, type_id: TypeId, other: NodeId, rel: RelId) -> Vec<u8> {
    let mut key = Vec::with_capacity(24);
    push_adjacency(&mut key, node, side, type_id, other, rel);
    key
}

pub fn push_adjacency(
    key: &mut Vec<u8>,
    node: NodeId,
    side: Side,
    type_id: TypeId,
    other: NodeId,
    rel: RelId,
) {
    push_tagged(key, TAG_ADJACENCY, node.0);
    push_link(key, side, type_id);
    push_id(key, other.0);
    push_id(key, rel.0);
}

/// The part of an entry after [`adjacency_of`]: side, type, other end, relationship.
pub fn take_adjacency(rest: &[u8]) -> Result<(Side, TypeId, NodeId, RelId), DataError> {
    let mut bytes = rest;
    let parsed = (|| {
        let (side, type_id) = take_link(&mut bytes)?;
        Some((
            side,
            type_id,
            NodeId(take_id(&mut bytes)?),
            RelId(take_id(&mut bytes)?),
        ))
    })();
    match parsed {
        Some(entry) if bytes.is_empty() => Ok(entry),
        _ => Err(DataError::corrupt("an adjacency entry is malformed")),
    }
}

/// The prefix of all members of a label.
pub fn members_of(label: LabelId) -> Vec<u8> {
    tagged(TAG_LABEL, u64::from(label.0))
}

/// One member of a label.
pub fn member(label: LabelId, node: NodeId) -> Vec<u8> {
    let mut key = Vec::with_capacity(24);
    push_member(&mut key, label, node);
    key
}

pub fn push_member(key: &mut Vec<u8>, label: LabelId, node: NodeId) {
    push_tagged(key, TAG_LABEL, u64::from(label.0));
    push_id(key, node.0);
}

/// The prefix of all keys of a label; the encoded `_key` follows.
pub fn keys_of(label: LabelId) -> Vec<u8> {
    tagged(TAG_KEY, u64::from(label.0))
}

pub fn push_key(key: &mut Vec<u8>, label: LabelId, encoded: &[u8]) {
    push_tagged(key, TAG_KEY, u64::from(label.0));
    key.extend_from_slice(encoded);
}

/// The prefix of all entries of an index; the encoded values and the record's id follow.
pub fn entries_of(index: IndexId) -> Vec<u8> {
    tagged(TAG_INDEX, u64::from(index.0))
}

/// The id of the record at the end of an index entry, whose value begins with its length.
pub fn entry_record(key: &[u8], value: &[u8]) -> Result<u64, DataError> {
    let record = (|| {
        let length = usize::from(*value.first()?);
        let mut id = key.get(key.len().checked_sub(length)?..)?;
        let record = take_id(&mut id)?;
        id.is_empty().then_some(record)
    })();
    record.ok_or_else(|| DataError::corrupt("an index entry is malformed"))
}

/// The relationship of an entry of an index over relationships, with its source and target.
pub fn entry_relationship(key: &[u8], value: &[u8]) -> Result<(RelId, NodeId, NodeId), DataError> {
    let id = RelId(entry_record(key, value)?);
    let mut ends = &value[1..];
    match (take_id(&mut ends), take_id(&mut ends)) {
        (Some(source), Some(target)) if ends.is_empty() => Ok((id, NodeId(source), NodeId(target))),
        _ => Err(DataError::corrupt("an index entry is malformed")),
    }
}

/// Appends bytes with a terminator, so that others can follow.
pub fn push_terminated(key: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        key.push(byte);
        if byte == 0 {
            key.push(0xff);
        }
    }
    key.extend_from_slice(&[0, 0]);
}

/// Decodes what [`push_terminated`] wrote from the front of `bytes`.
pub fn take_terminated(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let mut taken = Vec::with_capacity(bytes.len());
    let mut at = 0;
    loop {
        match (*bytes.get(at)?, bytes.get(at + 1)) {
            (0, Some(0)) => {
                *bytes = &bytes[at + 2..];
                return Some(taken);
            }
            (0, Some(0xff)) => {
                taken.push(0);
                at += 2;
            }
            (0, _) => return None,
            (byte, _) => {
                taken.push(byte);
                at += 1;
            }
        }
    }
}

/// The definition of a bucket.
pub fn bucket(id: u32) -> Vec<u8> {
    tagged(TAG_BUCKET, id.into())
}

/// The prefixes of everything in a bucket, its definition included, except expiry entries.
pub fn bucket_prefixes(id: u32) -> [Vec<u8>; 5] {
    [
        TAG_BUCKET,
        TAG_BUCKET_ENTRY,
        TAG_BUCKET_PAIR,
        TAG_BUCKET_REVERSE,
        TAG_BUCKET_SEQUENCE,
    ]
    .map(|tag| tagged(tag, id.into()))
}

/// One entry of a map.
pub fn bucket_entry(id: u32, key: &[u8]) -> Vec<u8> {
    bucket_entry_with_room(id, key, 0)
}

/// As [`bucket_entry`], with spare capacity for as many bytes.
pub fn bucket_entry_with_room(id: u32, key: &[u8], room: usize) -> Vec<u8> {
    let mut stored = Vec::with_capacity(key.len() + 6 + room);
    push_bucket_entry(&mut stored, id, key);
    stored
}

/// Appends [`bucket_entry`].
pub fn push_bucket_entry(stored: &mut Vec<u8>, id: u32, key: &[u8]) {
    stored.push(TAG_BUCKET_ENTRY);
    push_id(stored, id.into());
    stored.extend_from_slice(key);
}

/// The prefix of all entries of a multi-value bucket.
pub fn bucket_pairs(id: u32) -> Vec<u8> {
    tagged(TAG_BUCKET_PAIR, id.into())
}

/// One entry of a multi-value bucket.
pub fn bucket_pair(id: u32, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut stored = bucket_pairs(id);
    push_terminated(&mut stored, key);
    stored.extend_from_slice(value);
    stored
}

/// The prefix of all reverse entries of a bucket.
pub fn bucket_reverses(id: u32) -> Vec<u8> {
    tagged(TAG_BUCKET_REVERSE, id.into())
}

/// One reverse entry.
pub fn bucket_reverse(id: u32, value: &[u8], key: &[u8]) -> Vec<u8> {
    let mut stored = bucket_reverses(id);
    push_terminated(&mut stored, value);
    stored.extend_from_slice(key);
    stored
}

/// The expiry entry of a key.
pub fn bucket_expiry(time: u64, id: u32, key: &[u8]) -> Vec<u8> {
    let mut stored = vec![TAG_BUCKET_EXPIRY];
    stored.extend_from_slice(&time.to_be_bytes());
    push_id(&mut stored, id.into());
    stored.extend_from_slice(key);
    stored
}

/// The first expiry entry after `now`.
pub fn bucket_expiry_after(now: u64) -> Vec<u8> {
    match now.checked_add(1) {
        Some(after) => [&[TAG_BUCKET_EXPIRY][..], &after.to_be_bytes()].concat(),
        None => vec![TAG_BUCKET_EXPIRY + 1],
    }
}

/// Time, bucket and key of an expiry entry.
pub fn take_bucket_expiry(note: &[u8]) -> Result<(u64, u32, &[u8]), DataError> {
    let parsed = (|| {
        let (time, mut rest) = note.get(1..)?.split_first_chunk::<8>()?;
        let id = u32::try_from(take_id(&mut rest)?).ok()?;
        Some((u64::from_be_bytes(*time), id, rest))
    })();
    parsed.ok_or_else(|| DataError::corrupt("an expiry entry is malformed"))
}

/// The last number of a sequence.
pub fn bucket_sequence(id: u32, name: &str) -> Vec<u8> {
    let mut stored = tagged(TAG_BUCKET_SEQUENCE, id.into());
    stored.extend_from_slice(name.as_bytes());
    stored
}

/// The kind of an entry of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    File = 1,
    Folder = 2,
}

/// The prefix of all entries of a folder.
pub fn file_entries(folder: u64) -> Vec<u8> {
    tagged(TAG_FILE_ENTRY, folder)
}

/// One entry of a folder.
pub fn file_entry(folder: u64, name: &str) -> Vec<u8> {
    let mut key = file_entries(folder);
    key.extend_from_slice(name.as_bytes());
    key
}

/// The value of an entry of a folder.
pub fn file_entry_value(kind: FileKind, number: u64) -> Vec<u8> {
    tagged(kind as u8, number)
}

/// Kind and number in the value of an entry of a folder.
pub fn take_file_entry(value: &[u8]) -> Result<(FileKind, u64), DataError> {
    let kind = match value.first() {
        Some(1) => FileKind::File,
        Some(2) => FileKind::Folder,
        _ => return Err(DataError::corrupt("an entry of a folder is malformed")),
    };
    Ok((kind, sole_id(&value[1..], "an entry of a folder")?))
}

/// The record of a file or folder.
pub fn file(number: u64) -> Vec<u8> {
    tagged(TAG_FILE, number)
}

/// The prefix of all chunks of a file.
pub fn file_chunks(number: u64) -> Vec<u8> {
    tagged(TAG_FILE_CHUNK, number)
}

/// One chunk of a file.
pub fn file_chunk(number: u64, chunk: u64) -> Vec<u8> {
    let mut key = file_chunks(number);
    push_id(&mut key, chunk);
    key
}

/// The prefix of all convergent entries of a node or relationship.
pub fn convergent_owner(space: IdSpace, id: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(40);
    key.extend_from_slice(&[TAG_CONVERGENT, space as u8]);
    push_id(&mut key, id);
    key
}

/// The length of [`convergent_owner`] at the front of `place`.
pub fn convergent_owner_len(place: &[u8]) -> Result<usize, DataError> {
    let mut rest = place.get(2..).unwrap_or_default();
    match take_id(&mut rest) {
        Some(_) if place[0] == TAG_CONVERGENT => Ok(place.len() - rest.len()),
        _ => Err(DataError::corrupt(
            "the place of a convergent operation is malformed",
        )),
    }
}

/// A replica's name.
pub fn replica(number: u32) -> Vec<u8> {
    let mut key = vec![TAG_REPLICA];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The stored vector's part for a replica.
pub fn seen(replica: u32) -> Vec<u8> {
    tagged(TAG_SEEN, replica.into())
}

/// The record that a transaction of this replica was committed.
pub fn own_number(number: u64) -> Vec<u8> {
    tagged(TAG_OWN_NUMBER, number)
}

/// A property that some record holds as a convergent field.
pub fn convergent_property(prop: u32) -> Vec<u8> {
    tagged(TAG_CONVERGENT_PROPERTY, prop.into())
}

/// The metadata row of a record.
pub fn metadata_row(space: IdSpace, id: u64) -> Vec<u8> {
    let mut key = vec![TAG_METADATA, space as u8];
    push_id(&mut key, id);
    key
}

/// The prefix of all metadata rows of a space.
pub fn metadata_rows(space: IdSpace) -> Vec<u8> {
    vec![TAG_METADATA, space as u8]
}

/// The record id under an identity.
pub fn identity(space: IdSpace, identity: &[u8]) -> Vec<u8> {
    [&[TAG_IDENTITY, space as u8], identity].concat()
}

/// The metadata of the row under a key.
pub fn cell(stored: &[u8]) -> Vec<u8> {
    [&[TAG_CELL], stored].concat()
}

/// A folder that was made explicitly, by the hash of its path.
pub fn folder_made(path: u128) -> Vec<u8> {
    [FOLDERS_MADE, &path.to_be_bytes()].concat()
}

/// The prefix of all files with this path.
pub fn files_called(path: u128) -> Vec<u8> {
    [&[TAG_PATH, 0x01][..], &path.to_be_bytes()].concat()
}

/// A file by its path.
pub fn file_called(path: u128, number: u64) -> Vec<u8> {
    let mut key = files_called(path);
    push_id(&mut key, number);
    key
}

/// Where the log of a replica's transactions begins.
pub fn floor(replica: u32) -> Vec<u8> {
    let mut key = FLOORS.to_vec();
    push_id(&mut key, replica.into());
    key
}

/// Whether a key is of a row that replication merges itself: of its metadata, or of a value that has versions and is in
/// no index (sequences, chunks of files, convergent fields).
pub fn is_replica_row(key: &[u8]) -> bool {
    let Some(&tag) = key.first() else {
        return false;
    };
    let merged = [TAG_BUCKET_SEQUENCE, TAG_FILE_CHUNK, TAG_CONVERGENT];
    let metadata = [
        TAG_SEEN,
        TAG_METADATA,
        TAG_IDENTITY,
        TAG_CELL,
        TAG_REPLICATION,
        TAG_LOG,
        TAG_PATH,
    ];
    merged.contains(&tag) || metadata.contains(&tag)
}

/// A member of the replication.
pub fn replica_member(id: &[u8; 16]) -> Vec<u8> {
    [MEMBERS, id].concat()
}

/// A type whose relationships keep their ends.
pub fn keeper(type_id: TypeId) -> Vec<u8> {
    [KEEPERS, &type_id.0.to_be_bytes()].concat()
}

/// A peer to exchange transactions with.
pub fn peer(name: &str) -> Vec<u8> {
    [PEERS, name.as_bytes()].concat()
}

fn conflict(kind: u8, ids: &[u64]) -> Vec<u8> {
    let mut key = CONFLICTS.to_vec();
    key.push(kind);
    ids.iter().for_each(|&id| push_id(&mut key, id));
    key
}

/// The prefix of conflicts in properties of one record.
pub fn conflicts_of(space: IdSpace, id: u64) -> Vec<u8> {
    conflict(space as u8, &[id])
}

/// Several versions of a node's property.
pub fn conflict_in_node(id: NodeId, prop: PropId) -> Vec<u8> {
    conflict(0, &[id.0, prop.0.into()])
}

/// Several versions of a relationship's property.
pub fn conflict_in_relationship(id: RelId, prop: PropId) -> Vec<u8> {
    conflict(1, &[id.0, prop.0.into()])
}

/// A node or relationship with a value that another one has in a unique index.
pub fn conflict_in_index(index: IndexId, record: u64) -> Vec<u8> {
    conflict(2, &[index.0.into(), record])
}

/// The prefix of the nodes that have one key in one label.
pub fn conflict_of_key(label: LabelId, key: &[u8]) -> Vec<u8> {
    let mut stored = conflict(3, &[label.0.into()]);
    push_terminated(&mut stored, key);
    stored
}

/// A node that breaks a constraint.
pub fn conflict_in_schema(id: NodeId) -> Vec<u8> {
    conflict(4, &[id.0])
}

/// A relationship that breaks a constraint.
pub fn conflict_in_schema_of_relationship(id: RelId) -> Vec<u8> {
    conflict(8, &[id.0])
}

/// Several versions of the row under a key.
pub fn conflict_in_cell(stored: &[u8]) -> Vec<u8> {
    let mut key = conflict(5, &[]);
    key.extend_from_slice(stored);
    key
}

/// A bucket that was created with different options.
pub fn conflict_in_bucket(id: u32) -> Vec<u8> {
    conflict(6, &[id.into()])
}

/// The prefix of all files that are shown under a substitute name.
pub fn conflicts_in_names() -> Vec<u8> {
    conflict(7, &[])
}

/// A file that is shown under a substitute name.
pub fn conflict_in_name(number: u64) -> Vec<u8> {
    conflict(7, &[number])
}

/// A transaction in the log.
pub fn log_entry(replica: u32, number: u64) -> Vec<u8> {
    let mut key = log_of(replica);
    push_id(&mut key, number);
    key
}

/// The prefix of the log of one replica's transactions.
pub fn log_of(replica: u32) -> Vec<u8> {
    tagged(TAG_LOG, replica.into())
}

/// An id that is all of the rest of a key or a value.
pub fn sole_id(bytes: &[u8], what: &str) -> Result<u64, DataError> {
    let mut rest = bytes;
    match take_id(&mut rest) {
        Some(id) if rest.is_empty() => Ok(id),
        _ => Err(DataError::corrupt(format!("{what} is malformed"))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(number: u64) -> Vec<u8> {
        let mut key = Vec::new();
        push_id(&mut key, number);
        key
    }

    /// Every border between two lengths, both sides.
    #[test]
    fn ordered_ids_take_the_shortest_spelling() {
        for (number, length) in [
            (0, 1),
            (127, 1),
            (128, 2),
            ((1 << 14) - 1, 2),
            (1 << 14, 3),
            ((1 << 28) - 1, 4),
            (1 << 28, 5),
            ((1 << 49) - 1, 7),
            (1 << 49, 8),
            ((1 << 56) - 1, 8),
            (1 << 56, 9),
            (u64::MAX, 9),
        ] {
            let bytes = id(number);
            assert_eq!(bytes.len(), length, "{number}");
            assert_eq!(id_len(number), length, "{number}");
            assert_eq!(take_id(&mut bytes.as_slice()), Some(number));
        }
    }

    proptest! {
        #[test]
        fn ordered_ids_sort_as_numbers(a: u64, b: u64, shift in 0..64_u32) {
            let (a, b) = (a >> shift, b >> shift);
            prop_assert_eq!(id(a).cmp(&id(b)), a.cmp(&b));
            let mut both = id(a);
            both.extend(id(b));
            let mut rest = both.as_slice();
            prop_assert_eq!(take_id(&mut rest), Some(a));
            prop_assert_eq!(take_id(&mut rest), Some(b));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn adjacency_sorts_by_side_type_and_end(a: (bool, u32, u64, u64), b: (bool, u32, u64, u64), low: bool) {
            let narrow = |(side, ty, other, rel): (bool, u32, u64, u64)| {
                let ty = if low { ty % 70 } else { ty };
                (if side { Side::In } else { Side::Out }, TypeId(ty), NodeId(other), RelId(rel))
            };
            let (a, b) = (narrow(a), narrow(b));
            let key = |e: (Side, TypeId, NodeId, RelId)| adjacency(NodeId(300), e.0, e.1, e.2, e.3);
            prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
            let prefix = adjacency_of(NodeId(300)).len();
            prop_assert_eq!(take_adjacency(&key(a)[prefix..]).unwrap(), a);
        }

        #[test]
        fn terminated_bytes_sort_as_they_are(
            a in prop::collection::vec(0..4_u8, 0..6),
            b in prop::collection::vec(0..4_u8, 0..6),
            rest: (Vec<u8>, Vec<u8>)
        ) {
            let widen = |bytes: &[u8]| bytes.iter().map(|&byte| [0, 1, 0xfe, 0xff][byte as usize]).collect::<Vec<u8>>();
            let (a, b) = (widen(&a), widen(&b));
            let (one, two) = (bucket_pair(7, &a, &rest.0), bucket_pair(7, &b, &rest.1));
            prop_assert_eq!(one.cmp(&two), a.cmp(&b).then(rest.0.cmp(&rest.1)));
            let mut read = &one[bucket_pairs(7).len()..];
            prop_assert_eq!(take_terminated(&mut read), Some(a.clone()));
            prop_assert_eq!(read, rest.0.as_slice());
            let note = bucket_expiry(u64::MAX - 1, 300, &a);
            prop_assert_eq!(take_bucket_expiry(&note).unwrap(), (u64::MAX - 1, 300, a.as_slice()));
            prop_assert!(note < bucket_expiry_after(u64::MAX - 1) && note >= bucket_expiry_after(u64::MAX - 2));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = take_adjacency(&bytes);
            let _ = take_id(&mut bytes.as_slice());
            let _ = take_terminated(&mut bytes.as_slice());
            let _ = take_bucket_expiry(&bytes);
            let _ = entry_record(&bytes, &bytes);
            let _ = entry_relationship(&bytes, &bytes);
        }
    }

    #[test]
    fn the_end_of_a_prefix() {
        assert_eq!(after_prefix(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(after_prefix(&[1, 0xff, 0xff]), Some(vec![2]));
        assert_eq!(after_prefix(&[0xff]), None);
    }
}
