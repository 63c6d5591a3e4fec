//! Element ids: identifiers of nodes and relationships for clients, in the form that Neo4j 5 uses.
//!
//! ```text
//! 4:<uuid of the database>:<number>    a node
//! 5:<uuid of the database>:<number>    a relationship
//! ```
//!
//! The UUID is written in lower case with dashes, the number without leading zeros. Comparisons with an element id
//! accept the plain number as well, the form of element ids before they contained the database.

use std::fmt;

use uuid::Uuid;

/// The identity of a database, a random UUID: stable across restarts, and kept by its copies and backups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DatabaseId(pub [u8; 16]);

/// The kind of entity of an element id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// A node.
    Node,
    /// A relationship.
    Relationship,
}

impl Element {
    fn digit(self) -> u8 {
        match self {
            Self::Node => b'4',
            Self::Relationship => b'5',
        }
    }
}

/// Bytes before the number: the digit, a colon, the UUID, a colon.
const PREFIX: usize = 2 + 36 + 1;
/// Maximum number of digits of a 64-bit number.
const NUMBER: usize = 20;

/// The text of an element id, at most 59 bytes, without an allocation.
#[derive(Clone, Copy)]
pub struct ElementId {
    bytes: [u8; PREFIX + NUMBER],
    len: u8,
}

impl ElementId {
    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len.into()]).expect("written as ASCII")
    }
}

impl fmt::Display for ElementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl DatabaseId {
    /// A new random identity.
    pub fn random() -> Self {
        Self(*Uuid::new_v4().as_bytes())
    }

    /// The element id of the node or relationship `number` of this database.
    pub fn element_id(self, element: Element, number: u64) -> ElementId {
        let mut bytes = [b':'; PREFIX + NUMBER];
        bytes[0] = element.digit();
        let uuid = Uuid::from_bytes(self.0).hyphenated();
        uuid.encode_lower(&mut bytes[2..PREFIX - 1]);
        let mut digits = [0; NUMBER];
        let (mut at, mut rest) = (NUMBER, number);
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let len = PREFIX + NUMBER - at;
        bytes[PREFIX..len].copy_from_slice(&digits[at..]);
        ElementId {
            bytes,
            len: len as u8,
        }
    }

    /// The number of the node or relationship of this database in `text`, which has the form of [`Self::element_id`] or
    /// is a plain number. `None` for another kind, another database, or an invalid text.
    pub fn number_of(self, element: Element, text: &str) -> Option<u64> {
        if text.len() <= NUMBER {
            return number(text);
        }
        let (prefix, digits) = text.as_bytes().split_at_checked(PREFIX)?;
        let own = self.element_id(element, 0);
        if prefix != &own.bytes[..PREFIX] {
            return None;
        }
        number(std::str::from_utf8(digits).ok()?)
    }
}

/// Parses a number in its canonical form.
fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit())
        && (text.len() == 1 || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_element_id_names_its_number_in_its_database_and_kind_only(
            own: [u8; 16], other: [u8; 16], number: u64,
        ) {
            let own = DatabaseId(own);
            for (element, wrong) in [
                (Element::Node, Element::Relationship),
                (Element::Relationship, Element::Node),
            ] {
                let id = own.element_id(element, number);
                prop_assert_eq!(own.number_of(element, id.as_str()), Some(number));
                prop_assert_eq!(own.number_of(element, &number.to_string()), Some(number));
                prop_assert_eq!(own.number_of(wrong, id.as_str()), None);
                if other != own.0 {
                    prop_assert_eq!(DatabaseId(other).number_of(element, id.as_str()), None);
                }
            }
        }

        #[test]
        fn any_text_is_a_number_or_nothing(text in "\\PC{0,70}") {
            DatabaseId::default().number_of(Element::Node, &text);
        }
    }

    #[test]
    fn the_form_is_that_of_neo4j() {
        let id = DatabaseId(*b"0123456789abcdef").element_id(Element::Relationship, u64::MAX);
        assert_eq!(
            id.as_str(),
            "5:30313233-3435-3637-3839-616263646566:18446744073709551615"
        );
    }

    #[test]
    fn a_number_has_one_spelling() {
        let id = DatabaseId::default();
        let of = |text: &str| id.number_of(Element::Node, text);
        assert_eq!((of("0"), of("17")), (Some(0), Some(17)));
        let wrong = [
            "",
            "00",
            "017",
            "+17",
            "-1",
            " 17",
            "1.0",
            "x",
            "4:",
            "4:17",
            "99999999999999999999",
            "4:00000000-0000-0000-0000-000000000000:",
            "4:00000000-0000-0000-0000-000000000000:017",
            "4:00000000-0000-0000-0000-000000000000:+17",
            "4:00000000-0000-0000-0000-00000000000A:17",
            "4:00000000-0000-0000-0000-00000000000é:17",
        ];
        for text in wrong {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
