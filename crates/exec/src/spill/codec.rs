//! Values and rows as bytes in a spill file. Exact: floats to the bit, nodes with or without their loaded content.
//!
//! ```text
//! row     u32 length of the rest, little-endian; varint number of values; values
//! value   00 null, 01 false, 02 true
//!         03 integer          zigzag varint
//!         04 float            8 bytes
//!         05 string           varint length, UTF-8
//!         06 list             varint count, values
//!         07 map              varint count, each name as a string and value
//!         08 node             varint id
//!         09 node read        varint id, labels (varint count, strings), properties as a map
//!         0a relationship     varints: id, type, source, target
//!         0b relationship read  the same, type name as a string, properties as a map
//!         0c path             varint count of relationships, nodes, relationships
//!         0d anything else    varint length, as in a record
//! ```

use std::{io, io::Read, sync::Arc};

use isomer_data::SpillReader;
use isomer_value::{
    Interner, Map, Names, Node, NodeContent, NodeId, Path, PropId, RelId, Relationship,
    RelationshipContent, TypeId, Value, ValueError,
    limits::MAX_NESTING,
    record::{decode_value, encode_value},
};

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INT: u8 = 3;
const FLOAT: u8 = 4;
const STRING: u8 = 5;
const LIST: u8 = 6;
const MAP: u8 = 7;
const NODE: u8 = 8;
const NODE_READ: u8 = 9;
const REL: u8 = 10;
const REL_READ: u8 = 11;
const PATH: u8 = 12;
const OTHER: u8 = 13;

/// The encoding of a value's inner parts goes a few levels deeper than the value.
const MAX_LEVELS: usize = MAX_NESTING + 8;

/// A larger buffer of a row is given back once the row was written or read.
const MAX_BUFFER_BYTES: usize = 64 << 10;

/// Gives the buffer of a large row back.
pub(super) fn keep_small(buffer: &mut Vec<u8>) {
    if buffer.capacity() > MAX_BUFFER_BYTES {
        *buffer = Vec::new();
    }
}

/// Appends a row. Fails for values that are nested deeper than allowed.
pub(super) fn put_row<'v>(
    out: &mut Vec<u8>,
    values: impl ExactSizeIterator<Item = &'v Value>,
) -> Result<(), ValueError> {
    let start = out.len();
    out.extend([0; 4]);
    put_varint(out, values.len() as u64);
    for value in values {
        put(out, value, MAX_LEVELS)?;
    }
    let length = u32::try_from(out.len() - start - 4).map_err(|_| ValueError::TooLarge {
        what: "a row",
        size: out.len() - start,
        max: u32::MAX as usize,
    })?;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// Reads the next row into `values`; false at the end of the run. `buffer` is scratch.
pub(super) fn read_row(
    input: &mut SpillReader,
    buffer: &mut Vec<u8>,
    values: &mut Vec<Value>,
) -> io::Result<bool> {
    values.clear();
    if input.is_at_end() {
        return Ok(false);
    }
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    buffer.clear();
    let length = u64::from(u32::from_le_bytes(length));
    // Read in pieces: a corrupt length must not allocate more than the file holds.
    if input.take(length).read_to_end(buffer)? as u64 != length {
        return Err(damaged());
    }
    let mut bytes = Bytes(buffer);
    for _ in 0..bytes.varint()? {
        values.push(bytes.value(MAX_LEVELS)?);
    }
    if bytes.0.is_empty() {
        Ok(true)
    } else {
        Err(damaged())
    }
}

fn damaged() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_str(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn put(out: &mut Vec<u8>, value: &Value, levels: usize) -> Result<(), ValueError> {
    let inner = || {
        levels
            .checked_sub(1)
            .ok_or(ValueError::TooDeep { max: MAX_NESTING })
    };
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(false) => out.push(FALSE),
        Value::Bool(true) => out.push(TRUE),
        Value::Int(int) => {
            out.push(INT);
            put_varint(out, ((int << 1) ^ (int >> 63)) as u64);
        }
        Value::Float(float) => {
            out.push(FLOAT);
            out.extend(float.to_bits().to_le_bytes());
        }
        Value::String(text) => {
            out.push(STRING);
            put_str(out, text);
        }
        Value::List(items) => {
            let levels = inner()?;
            out.push(LIST);
            put_varint(out, items.len() as u64);
            for item in items.iter() {
                put(out, item, levels)?;
            }
        }
        Value::Map(map) => {
            out.push(MAP);
            put_map(out, map, inner()?)?;
        }
        Value::Node(node) => put_node(out, node, inner()?)?,
        Value::Relationship(rel) => put_rel(out, rel, inner()?)?,
        Value::Path(path) => {
            let levels = inner()?;
            out.push(PATH);
            put_varint(out, path.relationships.len() as u64);
            for node in &path.nodes {
                put_node(out, node, levels)?;
            }
            for rel in &path.relationships {
                put_rel(out, rel, levels)?;
            }
        }
        other => {
            let mut bytes = Vec::new();
            encode_value(other, &mut NoNames, &mut bytes)?;
            out.push(OTHER);
            put_varint(out, bytes.len() as u64);
            out.extend(bytes);
        }
    }
    Ok(())
}

fn put_map(out: &mut Vec<u8>, map: &Map, levels: usize) -> Result<(), ValueError> {
    put_varint(out, map.len() as u64);
    for (name, value) in map.iter() {
        put_str(out, name);
        put(out, value, levels)?;
    }
    Ok(())
}

fn put_node(out: &mut Vec<u8>, node: &Node, levels: usize) -> Result<(), ValueError> {
    out.push(if node.content.is_some() {
        NODE_READ
    } else {
        NODE
    });
    put_varint(out, node.id.0);
    if let Some(content) = &node.content {
        put_varint(out, content.labels.len() as u64);
        for label in content.labels.iter() {
            put_str(out, label);
        }
        put_map(out, &content.properties, levels)?;
    }
    Ok(())
}

fn put_rel(out: &mut Vec<u8>, rel: &Relationship, levels: usize) -> Result<(), ValueError> {
    out.push(if rel.content.is_some() { REL_READ } else { REL });
    for number in [
        rel.id.0,
        u64::from(rel.type_id.0),
        rel.source.0,
        rel.target.0,
    ] {
        put_varint(out, number);
    }
    if let Some(content) = &rel.content {
        put_str(out, &content.type_name);
        put_map(out, &content.properties, levels)?;
    }
    Ok(())
}

/// The scalars that go through the record codec have no names in them.
struct NoNames;

impl Interner for NoNames {
    fn intern(&mut self, _name: &str) -> Result<PropId, ValueError> {
        Err(ValueError::TooDeep { max: 0 })
    }
}

impl Names for NoNames {
    fn name(&self, _id: PropId) -> Option<Arc<str>> {
        None
    }
}

/// The remaining bytes of a row.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn take(&mut self, length: u64) -> io::Result<&'b [u8]> {
        let length = usize::try_from(length).map_err(|_| damaged())?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> io::Result<u8> {
        let (first, rest) = self.0.split_first().ok_or_else(damaged)?;
        self.0 = rest;
        Ok(*first)
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(damaged())
    }

    /// A count of items that take at least one byte each.
    fn count(&mut self) -> io::Result<usize> {
        let count = self.varint()?;
        usize::try_from(count)
            .ok()
            .filter(|count| *count <= self.0.len())
            .ok_or_else(damaged)
    }

    fn text(&mut self) -> io::Result<&'b str> {
        let length = self.varint()?;
        str::from_utf8(self.take(length)?).map_err(|_| damaged())
    }

    fn value(&mut self, levels: usize) -> io::Result<Value> {
        let inner = || levels.checked_sub(1).ok_or_else(damaged);
        Ok(match self.byte()? {
            NULL => Value::Null,
            FALSE => Value::Bool(false),
            TRUE => Value::Bool(true),
            INT => {
                let zigzag = self.varint()?;
                Value::Int((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
            }
            FLOAT => {
                let bytes = self.take(8)?.try_into().map_err(|_| damaged())?;
                Value::Float(f64::from_bits(u64::from_le_bytes(bytes)))
            }
            STRING => Value::String(self.text()?.into()),
            LIST => {
                let levels = inner()?;
                let count = self.count()?;
                let mut items = Vec::with_capacity(count);
                for _ in 0..count {
                    items.push(self.value(levels)?);
                }
                Value::from(items)
            }
            MAP => Value::Map(Arc::new(self.map(inner()?)?)),
            tag @ (NODE | NODE_READ) => Value::Node(Arc::new(self.node(tag, inner()?)?)),
            tag @ (REL | REL_READ) => Value::Relationship(Arc::new(self.rel(tag, inner()?)?)),
            PATH => {
                let levels = inner()?;
                let count = self.count()?;
                let mut path = Path {
                    nodes: Vec::with_capacity(count + 1),
                    relationships: Vec::with_capacity(count),
                };
                for _ in 0..=count {
                    let tag = self.byte()?;
                    path.nodes.push(self.node(tag, levels)?);
                }
                for _ in 0..count {
                    let tag = self.byte()?;
                    path.relationships.push(self.rel(tag, levels)?);
                }
                Value::Path(Arc::new(path))
            }
            OTHER => {
                let length = self.varint()?;
                decode_value(self.take(length)?, &NoNames).map_err(|_| damaged())?
            }
            _ => return Err(damaged()),
        })
    }

    fn map(&mut self, levels: usize) -> io::Result<Map> {
        let count = self.count()?;
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let name: Arc<str> = self.text()?.into();
            entries.push((name, self.value(levels)?));
        }
        if entries.windows(2).all(|pair| pair[0].0 < pair[1].0) {
            Ok(Map::from_sorted(entries))
        } else {
            Err(damaged())
        }
    }

    fn node(&mut self, tag: u8, levels: usize) -> io::Result<Node> {
        let id = NodeId(self.varint()?);
        let content = match tag {
            NODE => None,
            NODE_READ => {
                let count = self.count()?;
                let mut labels = Vec::with_capacity(count);
                for _ in 0..count {
                    labels.push(self.text()?.into());
                }
                let properties = self.map(levels)?;
                Some(Arc::new(NodeContent {
                    labels: labels.into(),
                    properties,
                }))
            }
            _ => return Err(damaged()),
        };
        Ok(Node { id, content })
    }

    fn rel(&mut self, tag: u8, levels: usize) -> io::Result<Relationship> {
        let mut rel = Relationship {
            id: RelId(self.varint()?),
            type_id: TypeId(u32::try_from(self.varint()?).map_err(|_| damaged())?),
            source: NodeId(self.varint()?),
            target: NodeId(self.varint()?),
            content: None,
        };
        match tag {
            REL => {}
            REL_READ => {
                let type_name = self.text()?.into();
                let properties = self.map(levels)?;
                rel.content = Some(Arc::new(RelationshipContent {
                    type_name,
                    properties,
                }));
            }
            _ => return Err(damaged()),
        }
        Ok(rel)
    }
}
