//! Operations and their effects on rows. The same function runs for a local operation and for a received one.
//!
//! An operation removes entries that its transaction has *seen*, and puts one with its own dot. As the vector is stored
//! with the transaction, and a transaction is applied only where everything that it has seen was applied, every replica
//! removes the same entries, in whatever order concurrent transactions arrive.

#![allow(missing_docs)] // the fields are what the table above says

use crate::{
    DataError,
    convergent::{
        clock::{Dot, Vector},
        counter,
        place::{entry, malformed},
        rows::RowsMut,
    },
    keyspace::{push_id, take_id},
};

/// One operation, on the field or item at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Adds to a counter.
    Count(i64),
    /// Adds an element: its key, and its exact value where the key does not determine it.
    Insert { element: Vec<u8>, exact: Vec<u8> },
    /// Removes an element: what was seen of it, or what `context` covers.
    Remove {
        element: Vec<u8>,
        context: Option<Vector>,
    },
    /// Sets a register.
    Assign(Vec<u8>),
    /// Switches a flag on.
    Enable,
    /// Switches a flag off.
    Disable { context: Option<Vector> },
    /// Records a rank at a place of a sketch.
    Sketch { place: u16, rank: u8 },
    /// Removes everything with this prefix: a field, or everything of a name in a map.
    Clear { context: Option<Vector> },
}

/// The dot and the time of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub dot: Dot,
    /// Hybrid time.
    pub time: u64,
}

impl Action {
    /// Appends a tag byte and:
    ///
    /// ```text
    /// 01 count     id zigzag        02 insert    bytes element, bytes exact     03 remove    bytes element, context
    /// 04 assign    bytes value      05 enable                                   06 disable   context
    /// 07 sketch    u16 place, u8 rank                                           08 clear     context
    /// ```
    /// `context` is 00 (what the transaction has seen) or 01 and a vector.
    pub fn push(&self, out: &mut Vec<u8>) {
        match self {
            Self::Count(by) => {
                out.push(1);
                push_id(out, zigzag(*by));
            }
            Self::Insert { element, exact } => {
                out.push(2);
                push_bytes(out, element);
                push_bytes(out, exact);
            }
            Self::Remove { element, context } => {
                out.push(3);
                push_bytes(out, element);
                push_context(out, context.as_ref());
            }
            Self::Assign(value) => {
                out.push(4);
                push_bytes(out, value);
            }
            Self::Enable => out.push(5),
            Self::Disable { context } => {
                out.push(6);
                push_context(out, context.as_ref());
            }
            Self::Sketch { place, rank } => {
                out.push(7);
                out.extend_from_slice(&place.to_be_bytes());
                out.push(*rank);
            }
            Self::Clear { context } => {
                out.push(8);
                push_context(out, context.as_ref());
            }
        }
    }

    /// Reads what [`Action::push`] wrote, which must be all of `bytes`.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&tag, mut rest) = bytes.split_first()?;
        let rest = &mut rest;
        let action = match tag {
            1 => Self::Count(unzigzag(take_id(rest)?)),
            2 => Self::Insert {
                element: take_bytes(rest)?,
                exact: take_bytes(rest)?,
            },
            3 => Self::Remove {
                element: take_bytes(rest)?,
                context: take_context(rest)?,
            },
            4 => Self::Assign(take_bytes(rest)?),
            5 => Self::Enable,
            6 => Self::Disable {
                context: take_context(rest)?,
            },
            7 => {
                let (place, after) = rest.split_first_chunk::<2>()?;
                let (&rank, after) = after.split_first()?;
                *rest = after;
                Self::Sketch {
                    place: u16::from_be_bytes(*place),
                    rank,
                }
            }
            8 => Self::Clear {
                context: take_context(rest)?,
            },
            _ => return None,
        };
        rest.is_empty().then_some(action)
    }

    /// Applies the operation. `owner` is the number of bytes before the field in `place`; `seen` says which dots its
    /// transaction had seen, including those of its own earlier operations.
    pub fn apply(
        &self,
        rows: &mut (impl RowsMut + ?Sized),
        owner: usize,
        place: &[u8],
        stamp: Stamp,
        seen: &dyn Fn(Dot) -> bool,
    ) -> Result<(), DataError> {
        // A context is what the client had seen; without one, what the transaction has seen counts.
        // Every replica has applied all of it before this operation: `converge` refuses a context that
        // the transaction's state does not include.
        let within = |context: &Option<Vector>, dot: Dot| match context {
            Some(context) => context.covers(dot),
            None => seen(dot),
        };
        match self {
            // An increment replaces no earlier one. A replica that had seen only some of several increments
            // could otherwise not remove exactly these.
            Self::Count(by) => rows.put_row(&keyed(place, &[], stamp.dot), &counter::plain(*by)),
            Self::Insert { element, exact } => {
                // The new dot replaces the seen ones, so that an element has one entry and not one per
                // insertion. It must be a new dot even if the element exists: a concurrent removal that has
                // seen only the old ones must not remove this insertion (add-wins).
                remove_entries(rows, place, element, &|dot| seen(dot))?;
                rows.put_row(&keyed(place, element, stamp.dot), exact)
            }
            Self::Remove { element, context } => {
                remove_entries(rows, place, element, &|dot| within(context, dot))
            }
            Self::Assign(value) => {
                remove_entries(rows, place, &[], &|dot| seen(dot))?;
                let mut stored = stamp.time.to_be_bytes().to_vec();
                // Only values that this transaction has not seen are left, that is, concurrent ones. The hybrid
                // time decides among these alone, so a wrong clock cannot lose a later write.
                stored.extend_from_slice(value);
                rows.put_row(&keyed(place, &[], stamp.dot), &stored)
            }
            Self::Enable => {
                remove_entries(rows, place, &[], &|dot| seen(dot))?;
                rows.put_row(&keyed(place, &[], stamp.dot), &[])
            }
            Self::Disable { context } => {
                remove_entries(rows, place, &[], &|dot| within(context, dot))
            }
            // The key contains the rank, so the scan meets ranks in ascending order and ends
            // at the first that is greater.
            Self::Sketch { place: at, rank } => {
                let mut prefix = place.to_vec();
                prefix.extend_from_slice(&at.to_be_bytes());
                let mut doomed = Vec::new();
                let lower = prefix.len();
                rows.scan(&prefix, &[], 4, &mut |key, _| {
                    let (&other, dot) = key[lower..].split_first().ok_or_else(malformed)?;
                    let dot = Dot::sole(dot).ok_or_else(malformed)?;
                    if other <= *rank && seen(dot) {
                        doomed.push(key.to_vec());
                    }
                    Ok(other <= *rank)
                })?;
                delete_all(rows, &doomed)?;
                // Also below a greater rank, which a concurrent removal may remove without having seen this
                // one. A register has one entry per rank, apart from concurrent operations: an operation
                // replaces the entries that it has seen and that are not greater.
                rows.put_row(&keyed(&prefix, &[*rank], stamp.dot), &[])
            }
            Self::Clear { context } => {
                let mut doomed = Vec::new();
                rows.scan(place, &[], 64, &mut |key, _| {
                    // The scan passes fields of several kinds below a map, so the dot's position has to be
                    // parsed from each key. Keys with dots that are not covered stay, and with them the
                    // enclosing maps, which have no entries themselves.
                    let dot = entry(&key[owner..])?.dot;
                    if within(context, dot) {
                        doomed.push(key.to_vec());
                    }
                    Ok(true)
                })?;
                delete_all(rows, &doomed)
            }
        }
    }
}

/// Removes the entries of one item for which `is_removed` holds.
fn remove_entries(
    rows: &mut (impl RowsMut + ?Sized),
    place: &[u8],
    item: &[u8],
    is_removed: &dyn Fn(Dot) -> bool,
) -> Result<(), DataError> {
    let prefix = [place, item].concat();
    let mut doomed = Vec::new();
    rows.scan(&prefix, &[], 4, &mut |key, _| {
        // No item is a prefix of another one (see `place`), so what follows the
        // prefix is a dot and nothing else.
        let dot = Dot::sole(&key[prefix.len()..]).ok_or_else(malformed)?;
        if is_removed(dot) {
            doomed.push(key.to_vec());
        }
        Ok(true)
    })?;
    delete_all(rows, &doomed)
}

fn delete_all(rows: &mut (impl RowsMut + ?Sized), doomed: &[Vec<u8>]) -> Result<(), DataError> {
    doomed.iter().try_for_each(|key| rows.delete_row(key))
}

/// The key of an entry.
pub fn keyed(place: &[u8], item: &[u8], dot: Dot) -> Vec<u8> {
    let mut key = Vec::with_capacity(place.len() + item.len() + 8);
    key.extend_from_slice(place);
    key.extend_from_slice(item);
    dot.push(&mut key);
    key
}

pub(crate) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_id(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_bytes(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let length = usize::try_from(take_id(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken.to_vec())
}

fn push_context(out: &mut Vec<u8>, context: Option<&Vector>) {
    out.push(u8::from(context.is_some()));
    if let Some(context) = context {
        context.push_local(out);
    }
}

fn take_context(bytes: &mut &[u8]) -> Option<Option<Vector>> {
    let (&there, rest) = bytes.split_first()?;
    *bytes = rest;
    match there {
        0 => Some(None),
        1 => Some(Some(Vector::take_local(bytes)?)),
        _ => None,
    }
}
