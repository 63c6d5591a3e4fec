//! Ranges of keys, cut into fixed cells: all keys that share their first bytes.
//!
//! A key lies in one cell per level, and a transaction that changes it declares all of them. A transaction that
//! observes a range declares the cells of one level that cover it. So a change inside the range meets one of its cells,
//! and a distant one does not.

/// The lengths of prefixes by which ranges are cut into cells. A few at the front, where floats and texts differ, and
/// near nine, where the last bytes of integers are.
const LEVELS: [usize; 9] = [2, 3, 4, 5, 7, 8, 9, 12, 20];
/// Most cells of the coarsest level: enough for numbers from below zero to above it.
const MAX_COARSE: usize = 160;
/// Most cells of each finer level on each side of a range.
const MAX_FINE: usize = 64;

/// A level and the bytes of a cell.
pub(super) type Cell = (u8, Vec<u8>);

/// The bytes of a key that its finest cell has, padded with zeros.
pub(super) type Head = [u8; LEVELS[LEVELS.len() - 1]];

/// The bytes of a key that determine its cells.
pub(super) fn head(key: &[u8]) -> Head {
    let mut head = [0; LEVELS[LEVELS.len() - 1]];
    let length = key.len().min(head.len());
    head[..length].copy_from_slice(&key[..length]);
    head
}

/// Calls `visit` with the level and the bytes of each cell that contains a key, except for those that contain another
/// `head` too.
pub(super) fn cells_of(key: &Head, except: Option<&Head>, mut visit: impl FnMut(u8, &[u8])) {
    let same = |other: &Head| key.iter().zip(other).take_while(|(a, b)| a == b).count();
    let common = except.map_or(0, same);
    for level in LEVELS.into_iter().filter(|level| *level > common) {
        visit(level as u8, &key[..level]);
    }
}

/// Cells that cover `start..end`: coarse ones inside, finer ones towards both ends. `None` where only the whole space
/// does.
pub(super) fn cover(start: &[u8], end: &[u8]) -> Option<Vec<Cell>> {
    let mut cells = Vec::new();
    if start >= end {
        return Some(cells); // an empty range observes nothing
    }
    let apart = (0..LEVELS.len()).find(|&at| cut(start, at) != cut(end, at));
    let Some(at) = apart else {
        cells.push(cell(LEVELS.len() - 1, cut(start, LEVELS.len() - 1)));
        return Some(cells);
    };
    // The coarsest level at which the bounds are in different cells: the range has inner cells there at the earliest.
    let (first, last) = (cut(start, at), cut(end, at));
    let most = if at == 0 { MAX_COARSE } else { MAX_FINE };
    match between(&first, &last, most) {
        Some(run) => {
            // The two outer cells reach beyond the range: they are cut at finer levels, against false conflicts.
            let inner = &run[1..run.len() - 1];
            cells.extend(inner.iter().map(|bytes| cell(at, bytes.clone())));
            refine(start, at, Side::Start, &mut cells);
            refine(end, at, Side::End, &mut cells);
        }
        None if at == 0 => return None,
        None => cells.push(cell(at - 1, cut(start, at - 1))),
    }
    Some(cells)
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Start,
    End,
}

/// Covers the part of the cell of `bound` at level `at` that is on the range's side of it.
fn refine(bound: &[u8], mut at: usize, side: Side, cells: &mut Vec<Cell>) {
    while at + 1 < LEVELS.len() {
        let coarse = cut(bound, at);
        let edge = cut(bound, at + 1);
        let mut limit = coarse.clone();
        limit.resize(LEVELS[at + 1], if side == Side::Start { 0xff } else { 0 });
        let run = match side {
            Side::Start => between(&edge, &limit, MAX_FINE),
            Side::End => between(&limit, &edge, MAX_FINE),
        };
        let Some(run) = run else { break };
        at += 1;
        cells.extend(
            run.into_iter()
                .filter(|bytes| *bytes != edge)
                .map(|bytes| cell(at, bytes)),
        );
    }
    cells.push(cell(at, cut(bound, at)));
}

fn cell(at: usize, bytes: Vec<u8>) -> Cell {
    (LEVELS[at] as u8, bytes)
}

/// The cell of `bytes` at a level.
fn cut(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut cell = bytes[..bytes.len().min(LEVELS[at])].to_vec();
    cell.resize(LEVELS[at], 0);
    cell
}

/// All cells from `first` to `last`, both included; `None` if they are more than `most`.
fn between(first: &[u8], last: &[u8], most: usize) -> Option<Vec<Vec<u8>>> {
    let mut cells = vec![first.to_vec()];
    while cells[cells.len() - 1] != last {
        if cells.len() == most {
            return None;
        }
        let mut next = cells[cells.len() - 1].clone();
        for byte in next.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
        cells.push(next);
    }
    Some(cells)
}

#[cfg(test)]
mod tests {
    use isomer_value::{Value, key};
    use proptest::prelude::*;

    use super::*;

    fn is_covered(cells: &[Cell], key: &[u8]) -> bool {
        let mut met = false;
        cells_of(&head(key), None, |level, bytes| {
            met |= cells.iter().any(|own| own.0 == level && own.1 == bytes)
        });
        met
    }

    proptest! {
        /// Every key in a range is in one of the cells that cover it.
        #[test]
        fn no_key_of_a_range_is_missed(mut keys: [Vec<u8>; 3], common in 0..12_usize) {
            keys.iter_mut().for_each(|key| drop(key.splice(0..0, vec![7; common])));
            keys.sort();
            if let Some(cells) = cover(&keys[0], &keys[2]) {
                prop_assert!(cells.len() <= MAX_COARSE + 2 * MAX_FINE * LEVELS.len());
                prop_assert!(is_covered(&cells, &keys[1]));
            }
        }

        #[test]
        fn numbers_far_from_a_range_meet_none_of_its_cells(
            low in -1000..1000_i64, width in 1..12_i64, far in 2100..100_000_i64
        ) {
            let encode = |int: i64| key::encode(&Value::Int(int)).expect("integers are storable");
            let cells = cover(&encode(low), &encode(low + width)).expect("a narrow range has few cells");
            prop_assert!(is_covered(&cells, &encode(low + width / 2)));
            prop_assert!(!is_covered(&cells, &encode(far)));
        }
    }
}
