//! The part of FlatBuffers that Arrow's metadata needs: tables, strings, vectors of tables and of plain structs.
//!
//! A buffer is written from front to back: an offset points forward, to what is written after the table that contains
//! it. A table is the distance back to its *vtable* (4 bytes), then its fields; the vtable holds its own size, the
//! table's, and the position of each field in it (2 bytes each, 0 for an absent field).

/// The value of a table's field.
pub enum Slot {
    /// Absent: the default.
    Absent,
    /// 8 bits: booleans, and the type of a union.
    Byte(u8),
    /// 16 bits: enumerations.
    Short(i16),
    /// 32 bits.
    Int(i32),
    /// 64 bits.
    Long(i64),
    /// An offset to a node.
    At(Node),
}

/// A value that offsets point to.
pub enum Node {
    /// A table of these fields, in the order of its schema.
    Table(Vec<Slot>),
    /// A string.
    Text(String),
    /// A vector of tables.
    Tables(Vec<Node>),
    /// A vector of structs of two 64-bit numbers.
    Pairs(Vec<(i64, i64)>),
}

impl Slot {
    fn size(&self) -> usize {
        match self {
            Self::Absent => 0,
            Self::Byte(_) => 1,
            Self::Short(_) => 2,
            Self::Int(_) | Self::At(_) => 4,
            Self::Long(_) => 8,
        }
    }
}

/// A buffer with this table as its root.
pub fn buffer(root: Node) -> Vec<u8> {
    let mut out = vec![0; 4];
    let at = put(root, &mut out);
    out[..4].copy_from_slice(&offset(0, at));
    out
}

fn offset(from: usize, to: usize) -> [u8; 4] {
    u32::try_from(to - from)
        .expect(
            "metadata takes far less than 4 GiB: names of columns are bounded by the query's text",
        )
        .to_le_bytes()
}

/// Pads with zeros until `place` more bytes would end at a multiple of `size`.
fn align(out: &mut Vec<u8>, place: usize, size: usize) {
    while !(out.len() + place).is_multiple_of(size) {
        out.push(0);
    }
}

/// Writes a node and returns its position. Recursion is as deep as the columns' types.
fn put(node: Node, out: &mut Vec<u8>) -> usize {
    match node {
        Node::Table(slots) => put_table(slots, out),
        Node::Text(text) => {
            align(out, 0, 4);
            let at = out.len();
            out.extend((text.len() as u32).to_le_bytes());
            out.extend(text.as_bytes());
            out.push(0);
            at
        }
        Node::Tables(nodes) => {
            align(out, 0, 4);
            let at = out.len();
            out.extend((nodes.len() as u32).to_le_bytes());
            let first = out.len();
            out.resize(first + 4 * nodes.len(), 0);
            for (number, node) in nodes.into_iter().enumerate() {
                let place = first + 4 * number;
                let there = put(node, out);
                out[place..place + 4].copy_from_slice(&offset(place, there));
            }
            at
        }
        Node::Pairs(pairs) => {
            align(out, 4, 8);
            let at = out.len();
            out.extend((pairs.len() as u32).to_le_bytes());
            for (first, second) in pairs {
                out.extend(first.to_le_bytes());
                out.extend(second.to_le_bytes());
            }
            at
        }
    }
}

fn put_table(slots: Vec<Slot>, out: &mut Vec<u8>) -> usize {
    // Largest fields first, after the 4 bytes of the distance, which end at a multiple of 8: so each field is
    // aligned.
    let mut order: Vec<usize> = (0..slots.len())
        .filter(|at| slots[*at].size() > 0)
        .collect();
    order.sort_by_key(|at| std::cmp::Reverse(slots[*at].size()));
    let mut places = vec![0_u16; slots.len()];
    let mut end = 4;
    for at in &order {
        places[*at] = end;
        end += slots[*at].size() as u16;
    }
    let vtable_bytes = 4 + 2 * slots.len();
    align(out, vtable_bytes + 4, 8);
    let vtable = out.len();
    out.extend((vtable_bytes as u16).to_le_bytes());
    out.extend(end.to_le_bytes());
    for place in &places {
        out.extend(place.to_le_bytes());
    }
    let table = out.len();
    out.extend(((table - vtable) as i32).to_le_bytes());
    out.resize(table + usize::from(end), 0);
    for (at, slot) in slots.into_iter().enumerate() {
        let place = table + usize::from(places[at]);
        match slot {
            Slot::Absent => {}
            Slot::Byte(byte) => out[place] = byte,
            Slot::Short(short) => out[place..place + 2].copy_from_slice(&short.to_le_bytes()),
            Slot::Int(int) => out[place..place + 4].copy_from_slice(&int.to_le_bytes()),
            Slot::Long(long) => out[place..place + 8].copy_from_slice(&long.to_le_bytes()),
            Slot::At(node) => {
                let there = put(node, out);
                out[place..place + 4].copy_from_slice(&offset(place, there));
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
        bytes[at..at + N].try_into().unwrap()
    }

    /// Position of a field of a table.
    fn field(bytes: &[u8], table: usize, slot: usize) -> usize {
        let vtable = table - i32::from_le_bytes(read(bytes, table)) as usize;
        table + usize::from(u16::from_le_bytes(read(bytes, vtable + 4 + 2 * slot)))
    }

    fn follow(bytes: &[u8], at: usize) -> usize {
        at + u32::from_le_bytes(read(bytes, at)) as usize
    }

    #[test]
    fn fields_are_found_at_aligned_positions() {
        let bytes = buffer(Node::Table(vec![
            Slot::Short(4),
            Slot::Byte(9),
            Slot::At(Node::Tables(vec![
                Node::Table(vec![Slot::At(Node::Text("ä".into())), Slot::Int(-7)]),
                Node::Table(vec![Slot::Absent, Slot::Int(8)]),
            ])),
            Slot::Long(-1),
            Slot::At(Node::Pairs(vec![(1, 2), (3, 4)])),
        ]));
        let root = follow(&bytes, 0);
        assert_eq!(read(&bytes, field(&bytes, root, 0)), 4_i16.to_le_bytes());
        assert_eq!(bytes[field(&bytes, root, 1)], 9);
        let long = field(&bytes, root, 3);
        assert_eq!((read(&bytes, long), long % 8), ((-1_i64).to_le_bytes(), 0));
        let tables = follow(&bytes, field(&bytes, root, 2));
        assert_eq!(read(&bytes, tables), 2_u32.to_le_bytes());
        let first = follow(&bytes, tables + 4);
        let text = follow(&bytes, field(&bytes, first, 0));
        assert_eq!(read(&bytes, text), 2_u32.to_le_bytes());
        assert_eq!(&bytes[text + 4..text + 7], "ä\0".as_bytes());
        assert_eq!(
            read(&bytes, field(&bytes, first, 1)),
            (-7_i32).to_le_bytes()
        );
        let second = follow(&bytes, tables + 8);
        assert_eq!(field(&bytes, second, 0), second, "left out");
        let pairs = follow(&bytes, field(&bytes, root, 4));
        assert_eq!((pairs + 4) % 8, 0);
        assert_eq!(read(&bytes, pairs + 4 + 16), 3_i64.to_le_bytes());
    }
}
