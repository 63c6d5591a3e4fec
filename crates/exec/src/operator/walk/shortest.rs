//! The shortest walks between two nodes, in order of their length (A*, Hart, Nilsson and Raphael 1968).
//!
//! Partial walks are kept in one bucket per lower bound of their total length. The estimate of the remaining length is
//! admissible (never too high), so a complete walk that is taken out is no longer than any that remains, and the first
//! `k` are the `k` shortest. Among equal bounds the partial walk that got furthest comes first, which finds one
//! shortest walk without expanding all of them.

use std::collections::BTreeMap;

use isomer_plan::walk::{Selector, Walk};

use super::{
    ahead::{Ahead, Distance},
    machine::{Machine, STEP_BYTES, SearchStep, WalkHop, chain},
};
use crate::{context::Cx, error::Result, eval::Row};

/// Whether only complete walks are wanted.
pub(super) type Fits<'f> = &'f dyn Fn(&[WalkHop], &mut Cx<'_>) -> Result<bool>;

/// The walks that a selector keeps, the shortest first.
pub(super) fn select(
    machine: &Machine,
    walk: &Walk,
    selector: Selector,
    fits: Fits<'_>,
    row: Row<'_>,
    cx: &mut Cx<'_>,
) -> Result<Vec<Vec<WalkHop>>> {
    let mut found: Vec<Vec<WalkHop>> = Vec::new();
    let Some(end) = machine.into else {
        return Ok(found);
    };
    let mut ahead = Ahead::new(machine, walk, end, row, cx)?;
    let mut entries = vec![SearchStep::start(machine.from)];
    let mut drawers: BTreeMap<u32, Vec<u32>> = BTreeMap::from([(0, vec![0])]);
    let (mut groups, mut found_bytes) = (0_u64, 0_usize);
    while let Some(mut drawer) = drawers.first_entry() {
        let length = *drawer.key();
        // Last in, first out within a bucket: the walk that got furthest.
        let Some(at) = drawer.get_mut().pop() else {
            drawer.remove();
            continue;
        };
        cx.tick(1)?;
        let entry = entries[at as usize];
        match least(&mut ahead, machine, walk, &entry, length, row, cx)? {
            None => continue,
            // The bound has risen since the step was queued: it is queued again where it belongs.
            Some(least) if least > length => {
                drawers.entry(least).or_default().push(at);
                continue;
            }
            Some(_) => {}
        }
        // Checked with the length of the next bucket: whole groups of equal length are complete only then.
        let full = match selector {
            Selector::Paths(count) => found.len() as u64 >= count,
            Selector::Groups(count) => {
                groups >= count
                    && found
                        .last()
                        .is_some_and(|last| (last.len() as u32) < length)
            }
        };
        if full {
            break;
        }
        let (accepts, open) = machine.openings(walk, &entry, row, cx)?;
        if accepts {
            let steps = chain(&entries, at);
            if fits(&steps, cx)? {
                let longer = found.last().is_none_or(|last| last.len() < steps.len());
                groups += u64::from(longer);
                found_bytes += steps.len() * size_of::<WalkHop>() + 32;
                found.push(steps);
                if matches!(selector, Selector::Paths(count) if found.len() as u64 >= count) {
                    break;
                }
            }
        }
        for place in open {
            for next in machine.follow(walk, &entries, at, place, row, cx)? {
                let further = match ahead.distance(walk, &next) {
                    Distance::Known(steps) | Distance::AtLeast(steps) => steps,
                    Distance::Never => continue,
                };
                let least = next.depth.saturating_add(further);
                drawers.entry(least).or_default().push(entries.len() as u32);
                entries.push(next);
            }
        }
        cx.run
            .watch
            .allow(entries.len() * (STEP_BYTES + 8) + ahead.bytes() + found_bytes)?;
    }
    Ok(found)
}

/// Lower bound of the total length of a walk that continues from a search step, exact up to `length`; none if the end
/// cannot be reached.
fn least(
    ahead: &mut Ahead,
    machine: &Machine,
    walk: &Walk,
    entry: &SearchStep,
    length: u32,
    row: Row<'_>,
    cx: &mut Cx<'_>,
) -> Result<Option<u32>> {
    loop {
        match ahead.distance(walk, entry) {
            Distance::Never => return Ok(None),
            Distance::Known(steps) => return Ok(Some(entry.depth.saturating_add(steps))),
            Distance::AtLeast(steps) => {
                let least = entry.depth.saturating_add(steps);
                if least > length {
                    return Ok(Some(least));
                }
                // Only as far as needed to order this step: most of the graph is never searched backwards.
                ahead.grow(machine, walk, row, cx)?;
            }
        }
    }
}
