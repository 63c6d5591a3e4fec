//! The memory of answers until they are sent: texts and messages count in the budget that all databases share.
//!
//! A client that reads slowly, or many that read at once, hold what was made for them. What is reserved for it is
//! given back when the connection has taken the last byte. Answers of less than [`RESERVED_FROM`] are as small as the
//! buffers of a connection.

use std::{fmt, sync::Arc};

use axum::body::Bytes;
use isomer_db::{
    Map, MemoryKind, Node, Relationship, Value,
    internals::{
        LayerError as _,
        data::{DataError, Reservation},
    },
};

use crate::{Result, access::Databases};

/// Smaller answers are not reserved.
pub(crate) const RESERVED_FROM: usize = 128 << 10;
/// Values nested deeper than this are not counted: nothing nests deeper that can be sent.
const MAX_LEVELS: usize = 200;

/// What is reserved for a growing buffer of an answer: the buffer and, while it grows, the larger one that it is
/// copied to.
#[derive(Default)]
pub(crate) struct Reserved {
    /// The databases whose budget is used.
    databases: Option<Arc<Databases>>,
    held: Option<Reservation>,
    /// Continues without a reservation if the budget is exhausted.
    is_owed: bool,
}

impl Reserved {
    /// In the budget of the databases that are served.
    pub(crate) fn new(databases: &Arc<Databases>) -> Self {
        Self {
            databases: Some(databases.clone()),
            ..Self::default()
        }
    }

    /// In this budget.
    #[cfg(test)]
    pub(crate) fn of(memory: &isomer_db::internals::data::MemoryBudget) -> Self {
        Self {
            held: Some(memory.reservation(MemoryKind::Queries)),
            ..Self::default()
        }
    }

    /// For the answer to something that is done already: it is not refused any more.
    pub(crate) fn owed(databases: &Arc<Databases>) -> Self {
        Self {
            is_owed: true,
            ..Self::new(databases)
        }
    }

    /// Reserves `bytes` in all.
    ///
    /// # Errors
    /// `Limit` where the budget has no room.
    pub(crate) fn resize(&mut self, bytes: usize) -> Result<()> {
        if bytes < RESERVED_FROM && self.held.is_none() {
            return Ok(());
        }
        if self.held.is_none() {
            // None is open where there is nothing to answer from.
            let memory = self.databases.as_ref().and_then(|all| all.memory());
            self.held = memory.map(|memory| memory.reservation(MemoryKind::Queries));
        }
        let Some(held) = &mut self.held else {
            return Ok(());
        };
        match held.resize(bytes) {
            Err(over) if !self.is_owed => {
                let over = DataError::from(over);
                Err(over.lift().into())
            }
            _ => Ok(()),
        }
    }

    /// Reserves room for `more` bytes in a buffer of a length and a capacity; returns how many to make room for, none
    /// where it has it.
    fn more_room(&mut self, len: usize, capacity: usize, more: usize) -> Result<Option<usize>> {
        let needed = len.saturating_add(more);
        if needed <= capacity || needed < RESERVED_FROM {
            return Ok(None);
        }
        // As a vector grows by itself, but no further than there is memory.
        let after = needed.max(capacity + capacity / 2);
        match self.resize(capacity + after) {
            Ok(()) => Ok(Some(after - len)),
            Err(_) if needed < after => {
                self.resize(capacity + needed)?;
                Ok(Some(more))
            }
            Err(error) => Err(error),
        }
    }

    /// Makes room in a text for `more` bytes.
    ///
    /// # Errors
    /// `Limit` where the budget has no room.
    pub(crate) fn make_room(&mut self, text: &mut String, more: usize) -> Result<()> {
        if let Some(room) = self.more_room(text.len(), text.capacity(), more)? {
            text.reserve_exact(room);
            self.resize(text.capacity())?;
        }
        Ok(())
    }

    /// Makes room in a buffer for `more` bytes.
    ///
    /// # Errors
    /// `Limit` where the budget has no room.
    pub(crate) fn make_room_in(&mut self, buffer: &mut Vec<u8>, more: usize) -> Result<()> {
        if let Some(room) = self.more_room(buffer.len(), buffer.capacity(), more)? {
            buffer.reserve_exact(room);
            self.resize(buffer.capacity())?;
        }
        Ok(())
    }

    /// What is reserved, for an answer that is complete.
    pub(crate) fn into_reservation(self) -> Option<Reservation> {
        self.held
    }

    /// The same, for a part of an answer that is complete.
    pub(crate) fn take(&mut self) -> Option<Reservation> {
        self.held.take()
    }
}

impl fmt::Debug for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reserved")
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

/// Bytes of an answer and what is reserved for them.
struct Owned {
    bytes: Vec<u8>,
    _held: Option<Reservation>,
}

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes that give back what is reserved for them when the last of them is dropped.
pub(crate) fn bytes_with(bytes: Vec<u8>, held: Option<Reservation>) -> Bytes {
    match held {
        None => Bytes::from(bytes),
        held => Bytes::from_owner(Owned { bytes, _held: held }),
    }
}

/// At least as many bytes as a value takes as JSON text or in a message of Bolt, within a small factor.
pub(crate) fn most_text_bytes(value: &Value) -> usize {
    most_bytes(value, 0)
}

fn most_bytes(value: &Value, level: usize) -> usize {
    if level > MAX_LEVELS {
        return 0;
    }
    match value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 32,
        Value::String(text) => most_string_bytes(text),
        Value::Bytes(bytes) => 32 + bytes.len() / 3 * 4,
        Value::List(items) => {
            let items = items.iter().map(|item| 1 + most_bytes(item, level + 1));
            8 + items.sum::<usize>()
        }
        Value::Map(map) => most_map_bytes(map, level),
        Value::Node(node) => most_node_bytes(node, level),
        Value::Relationship(one) => most_relationship_bytes(one, level),
        Value::Path(path) => {
            let nodes = path.nodes.iter().map(|node| most_node_bytes(node, level));
            let relationships = path.relationships.iter();
            let relationships = relationships.map(|one| most_relationship_bytes(one, level));
            32 + nodes.sum::<usize>() + relationships.sum::<usize>()
        }
        _ => 192,
    }
}

/// Control characters take six bytes, quotes and backslashes two.
fn most_string_bytes(text: &str) -> usize {
    let escaped = |byte: &&u8| **byte < 0x20 || **byte == b'"' || **byte == b'\\';
    8 + text.len() + 5 * text.as_bytes().iter().filter(escaped).count()
}

fn most_map_bytes(map: &Map, level: usize) -> usize {
    let entries = map
        .iter()
        .map(|(name, value)| 2 + most_string_bytes(name) + most_bytes(value, level + 1));
    8 + entries.sum::<usize>()
}

fn most_node_bytes(node: &Node, level: usize) -> usize {
    let content = node.content.as_ref();
    128 + content.map_or(0, |content| {
        let labels = content.labels.iter().map(|label| most_string_bytes(label));
        labels.sum::<usize>() + most_map_bytes(&content.properties, level)
    })
}

fn most_relationship_bytes(one: &Relationship, level: usize) -> usize {
    let content = one.content.as_ref();
    256 + content.map_or(0, |content| {
        most_string_bytes(&content.type_name) + most_map_bytes(&content.properties, level)
    })
}

#[cfg(test)]
mod tests {
    use isomer_db::internals::data::MemoryBudget;

    use super::*;

    /// The bound is one, for every kind of value and character.
    #[test]
    fn no_text_is_longer_than_its_bound() {
        let db = isomer_db::Database::open_in_memory().unwrap();
        for query in [
            "RETURN '\\u0000\\u0001\"\\\\ä€𝄞' AS v",
            "RETURN [1, -9223372036854775808, 1.7976931348623157e308, 4.9e-324, true, null] AS v",
            "RETURN {`\\n`: {a: [[], [{}]]}, b: 'x'} AS v",
            "CREATE p = (:A {x: '\"'})-[:T {y: [1, 2]}]->(:B:C) RETURN p AS v",
            "RETURN [date(), localtime(), time(), localdatetime(), datetime(), duration({months: 1, nanoseconds: 7}), point({x: 1.25, y: 2.5, z: 3})] AS v",
            "RETURN [datetime({year: 2026, timezone: 'America/Argentina/ComodRivadavia'})] AS v",
            "RETURN range(-100, 100) AS v",
        ] {
            let result = db.query(query).unwrap();
            let value = result.single().unwrap().value("v").unwrap();
            let text = isomer_db::json::to_string(value).unwrap();
            let most = most_text_bytes(value);
            assert!(text.len() <= most, "{query}: {} of {most}", text.len());
            assert!(
                most < 64 * text.len() + 256,
                "{query}: {most} for {}",
                text.len()
            );
        }
    }

    #[test]
    fn a_text_is_reserved_as_it_grows_and_given_back_when_it_is_sent() {
        let memory = MemoryBudget::new(1 << 20);
        let mut room = Reserved::of(&memory);
        let mut text = Vec::new();
        room.make_room_in(&mut text, 1000).unwrap();
        assert_eq!(memory.used_bytes(), 0);
        while text.len() < 400 << 10 {
            room.make_room_in(&mut text, 10 << 10).unwrap();
            text.resize(text.len() + (10 << 10), b'x');
            assert!(text.len() < 2 * RESERVED_FROM || memory.used_bytes() >= text.capacity());
        }
        assert!(room.make_room_in(&mut text, 800 << 10).is_err());
        let sent = bytes_with(text, room.into_reservation());
        let rest = sent.slice(1000..);
        drop(sent);
        assert!(memory.used_bytes() >= 400 << 10);
        drop(rest);
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn a_text_grows_by_little_where_the_budget_is_nearly_full() {
        let memory = MemoryBudget::new(450 << 10);
        let mut room = Reserved::of(&memory);
        let mut text = Vec::new();
        room.make_room_in(&mut text, 200 << 10).unwrap();
        text.resize(200 << 10, b'x');
        room.make_room_in(&mut text, 10 << 10).unwrap();
        assert!(text.capacity() < 300 << 10);
    }
}
