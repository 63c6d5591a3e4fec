//! The messages of a stream: a schema, batches, an end.
//!
//! A message is `ff ff ff ff`, the size of its metadata (4 bytes), these (a FlatBuffer, filled up to a multiple of 8),
//! and its body.

use super::{
    Column,
    flat::{Node, Slot, buffer},
    kind::Kind,
};

/// End of the stream.
pub const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Metadata version 5, since Arrow 1.0.
const VERSION: i16 = 4;
const SCHEMA: u8 = 1;
const RECORD_BATCH: u8 = 3;

/// The schema message: the columns of a stream with their names. Columns of JSON texts have the metadata
/// `isomer.type` = `json`.
pub fn schema<'c>(columns: impl IntoIterator<Item = (&'c str, &'c Kind)>) -> Vec<u8> {
    let fields = columns
        .into_iter()
        .map(|(name, kind)| field(name, kind))
        .collect();
    let schema = Node::Table(vec![Slot::Short(0), Slot::At(Node::Tables(fields))]);
    message(SCHEMA, schema, &[])
}

/// A record batch: rows of all columns, in the order of the schema.
pub fn batch(rows: usize, columns: &[Column]) -> Vec<u8> {
    let (mut nodes, mut buffers, mut body) = (Vec::new(), Vec::new(), Vec::new());
    for column in columns {
        column.write(&mut nodes, &mut buffers, &mut body);
    }
    let batch = Node::Table(vec![
        Slot::Long(rows as i64),
        Slot::At(Node::Pairs(nodes)),
        Slot::At(Node::Pairs(buffers)),
    ]);
    message(RECORD_BATCH, batch, &body)
}

fn message(kind: u8, header: Node, body: &[u8]) -> Vec<u8> {
    let metadata = buffer(Node::Table(vec![
        Slot::Short(VERSION),
        Slot::Byte(kind),
        Slot::At(header),
        Slot::Long(body.len() as i64),
    ]));
    let size = metadata.len().next_multiple_of(8);
    let mut out = Vec::with_capacity(8 + size + body.len());
    out.extend([0xff; 4]);
    out.extend((size as u32).to_le_bytes());
    out.extend(metadata);
    out.resize(8 + size, 0);
    out.extend(body);
    out
}

/// A field of a schema: name, nullable, type, (no dictionary,) child fields, metadata.
fn field(name: &str, kind: &Kind) -> Node {
    let (number, about) = type_of(kind);
    let within = match kind {
        Kind::List(kind) => vec![field("item", kind)],
        _ => Vec::new(),
    };
    let metadata = match kind {
        Kind::Json => Slot::At(Node::Tables(vec![Node::Table(vec![
            Slot::At(Node::Text("isomer.type".into())),
            Slot::At(Node::Text("json".into())),
        ])])),
        _ => Slot::Absent,
    };
    Node::Table(vec![
        Slot::At(Node::Text(name.to_owned())),
        Slot::Byte(1),
        Slot::Byte(number),
        Slot::At(Node::Table(about)),
        Slot::Absent,
        Slot::At(Node::Tables(within)),
        metadata,
    ])
}

/// The index of a type in the union of all types, and its parameters.
fn type_of(kind: &Kind) -> (u8, Vec<Slot>) {
    const MICRO: i16 = 2;
    const NANO: i16 = 3;
    match kind {
        Kind::Null => (1, vec![]),
        Kind::Int { .. } => (2, vec![Slot::Int(64), Slot::Byte(1)]),
        Kind::Float => (3, vec![Slot::Short(2)]),
        Kind::Bytes => (4, vec![]),
        Kind::Text | Kind::Json => (5, vec![]),
        Kind::Bool => (6, vec![]),
        Kind::Date => (8, vec![Slot::Short(0)]),
        Kind::Time => (9, vec![Slot::Short(NANO), Slot::Int(64)]),
        Kind::Instant { micros, zone, .. } => {
            let zone = zone
                .as_deref()
                .map(|zone| Slot::At(Node::Text(zone.to_owned())));
            let unit = if *micros { MICRO } else { NANO };
            (10, vec![Slot::Short(unit), zone.unwrap_or(Slot::Absent)])
        }
        Kind::Amount => (11, vec![Slot::Short(2)]),
        Kind::List(_) => (12, vec![]),
    }
}
