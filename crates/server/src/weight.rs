//! Estimates of the memory that kept rows take.

use isomer_db::{Map, Node, Relationship, Row, Value};

/// Deeper values are not counted: they cannot be sent.
const MAX_LEVELS: usize = 200;
/// The counts of an `Arc` and the header of a `Vec`, as allocated.
const HEAD_BYTES: usize = 40;

/// Memory of a row with its values. Shared values count for each row.
pub fn of_row(row: &Row) -> usize {
    // A queue may have twice the capacity that it needs.
    2 * size_of::<Row>() + row.values().iter().map(|value| of(value, 0)).sum::<usize>()
}

/// Minimum allocation of an `Arc` of a string.
const TEXT_BYTES: usize = 32;
/// Minimum allocation of a list or an object: its header, and capacity for four entries.
const BEGUN_BYTES: usize = 160;

/// Upper estimate of the memory of the values of a JSON text, computed before they are parsed. Short values take much
/// more than their text.
pub fn of_json(text: &[u8]) -> usize {
    let mut bytes = text.len();
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        bytes += match byte {
            b'"' => {
                skip_string(&mut rest);
                TEXT_BYTES
            }
            b'{' | b'[' => BEGUN_BYTES,
            // Lists and objects may have twice the capacity that they need.
            b',' => 2 * size_of::<Value>(),
            b':' => 2 * (size_of::<Value>() + 16),
            _ => 0,
        };
    }
    bytes
}

fn skip_string(rest: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(rest.next()),
            _ => {}
        }
    }
}

fn of(value: &Value, level: usize) -> usize {
    if level > MAX_LEVELS {
        return 0;
    }
    let behind = match value {
        Value::String(text) => 16 + text.len(),
        Value::Bytes(bytes) => 16 + bytes.len(),
        Value::List(items) => {
            HEAD_BYTES + items.iter().map(|item| of(item, level + 1)).sum::<usize>()
        }
        Value::Map(map) => of_map(map, level),
        Value::Node(node) => of_node(node, level),
        Value::Relationship(relationship) => of_relationship(relationship, level),
        Value::Path(path) => {
            let nodes = path.nodes.iter().map(|node| of_node(node, level));
            let relationships = path.relationships.iter();
            let relationships = relationships.map(|one| of_relationship(one, level));
            HEAD_BYTES + nodes.sum::<usize>() + relationships.sum::<usize>()
        }
        Value::ZonedDateTime(_) | Value::Duration(_) | Value::Point(_) => 64,
        _ => 0,
    };
    size_of::<Value>() + behind
}

fn of_map(map: &Map, level: usize) -> usize {
    let entries = map.iter().map(|(_, value)| 16 + of(value, level + 1));
    HEAD_BYTES + entries.sum::<usize>()
}

fn of_node(node: &Node, level: usize) -> usize {
    let content = node.content.as_ref();
    HEAD_BYTES
        + content.map_or(0, |content| {
            content.labels.len() * 16 + of_map(&content.properties, level)
        })
}

fn of_relationship(relationship: &Relationship, level: usize) -> usize {
    let content = relationship.content.as_ref();
    2 * HEAD_BYTES + content.map_or(0, |content| of_map(&content.properties, level))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(query: &str) -> usize {
        let db = isomer_db::Database::open_in_memory().unwrap();
        of_row(db.query(query).unwrap().single().unwrap())
    }

    #[test]
    fn json_counts_like_the_parsed_value() {
        for one in [
            "{\"a\":0}",
            "[]",
            "0",
            "\"\"",
            "\"a \\\" text, with {[marks]}\"",
            "{\"name\":\"Ada Lovelace\",\"born\":1815,\"tags\":[\"a\",\"b\"]}",
            "[[[[1,2],[3]]]]",
        ] {
            let text = format!("[{}]", vec![one; 1_000].join(","));
            let (estimate, actual) = (
                of_json(text.as_bytes()),
                isomer_db::json::parse(&text).unwrap(),
            );
            let actual = of(&actual, 0);
            assert!(
                (actual..8 * actual).contains(&estimate),
                "{one}: {estimate}, {actual}"
            );
        }
    }

    #[test]
    fn values_that_are_short_on_the_wire_count_by_their_memory() {
        assert!(weight("RETURN 1 AS one") >= size_of::<Row>() + size_of::<Value>());
        let list = weight("RETURN range(1, 1000) AS list");
        assert!((24_000..30_000).contains(&list), "{list}");
        let nested = weight("RETURN [x IN range(1, 100) | [x, {x: 'some text'}]] AS nested");
        assert!((15_000..30_000).contains(&nested), "{nested}");
        assert!(weight("CREATE (n:A {text: 'a long text, a long text'}) RETURN n") > 150);
        let path = weight("CREATE p = (:A {x: 1})-[:T {x: 2}]->(:B {x: 3}) RETURN p");
        assert!((300..2_000).contains(&path), "{path}");
    }
}
