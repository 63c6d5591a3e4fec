//! The progress of a state transfer at the receiver: what has arrived, and the merge of two values with what each side
//! has seen.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use isomer_data::{SpillFile, SpillRun, Vector};
use isomer_value::PropId;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    metadata::{NodeMetadata, Properties},
    versions::{merge, merge_stamps},
};

/// The receiving side of a state transfer: merges the pages in their order. At most one exists per database.
pub struct StateTransfer {
    pub(crate) _guard: StateTransferGuard,
    /// What the first page had seen.
    pub(crate) theirs: Option<Vector>,
    pub(crate) cursor: Vec<u8>,
    pub(crate) pages: u64,
    pub(crate) nodes: Ids,
    pub(crate) relationships: Ids,
    pub(crate) entries: FxHashSet<u128>,
}

/// Held by the only state transfer in progress.
pub(crate) struct StateTransferGuard(pub(crate) Arc<AtomicBool>);

impl Drop for StateTransferGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The pages received so far.
pub(crate) struct PushedPages {
    pub(crate) session: u128,
    pub(crate) from: [u8; 16],
    pub(crate) file: SpillFile,
    pub(crate) pages: Vec<SpillRun>,
    /// The positions of the last received page and of the next one.
    pub(crate) last: Vec<u8>,
    pub(crate) next: Vec<u8>,
    pub(crate) last_page_ms: u64,
}

/// The state that a peer pushes, and the one that was merged last.
#[derive(Default)]
pub(crate) struct PushState {
    pub(crate) collected: Option<PushedPages>,
    pub(crate) merged: Option<EndedPush>,
}

/// A push that ended with its last page, whose sender may not have received the response.
pub(crate) struct EndedPush {
    pub(crate) session: u128,
    pub(crate) from: [u8; 16],
    pub(crate) cursor: Vec<u8>,
}

impl EndedPush {
    pub(crate) fn ended_with(&self, pushed: &PushedPage<'_>) -> bool {
        (self.session, self.from, self.cursor.as_slice())
            == (pushed.session, pushed.from, pushed.cursor)
    }
}

/// The vectors of both sides.
pub(crate) struct Sides<'v> {
    pub(crate) here: &'v Vector,
    pub(crate) theirs: &'v Vector,
}

impl Sides<'_> {
    pub(crate) fn properties(&self, ours: &Properties, theirs: &Properties) -> Properties {
        let props: FxHashSet<PropId> = ours.keys().chain(theirs.keys()).copied().collect();
        let none = Vec::new();
        props
            .into_iter()
            .map(|prop| {
                let (one, other) = (
                    ours.get(&prop).unwrap_or(&none),
                    theirs.get(&prop).unwrap_or(&none),
                );
                (prop, merge(one, self.here, other, self.theirs))
            })
            .filter(|(_, versions)| !versions.is_empty())
            .collect()
    }

    pub(crate) fn node(&self, ours: &NodeMetadata, theirs: &NodeMetadata) -> NodeMetadata {
        let mut merged = NodeMetadata::new(ours.identity.clone());
        merged.creations = merge_stamps(&ours.creations, self.here, &theirs.creations, self.theirs);
        let none = Vec::new();
        for label in ours.labels.keys().chain(theirs.labels.keys()) {
            let (one, other) = (
                ours.labels.get(label).unwrap_or(&none),
                theirs.labels.get(label).unwrap_or(&none),
            );
            let stamps = merge_stamps(one, self.here, other, self.theirs);
            if !stamps.is_empty() {
                merged.labels.insert(*label, stamps);
            }
        }
        merged.properties = self.properties(&ours.properties, &theirs.properties);
        merged
    }
}

/// A set of ids: a bit each.
#[derive(Default)]
pub(crate) struct Ids(FxHashMap<u64, u64>);

impl Ids {
    pub(crate) fn insert(&mut self, id: u64) {
        *self.0.entry(id >> 6).or_default() |= 1 << (id & 63);
    }

    pub(crate) fn contains(&self, id: u64) -> bool {
        self.0
            .get(&(id >> 6))
            .is_some_and(|bits| bits >> (id & 63) & 1 == 1)
    }
}

/// A page of a state that is pushed.
#[derive(Clone, Copy, Debug)]
pub struct PushedPage<'p> {
    /// The session number that the response to the first page returned; 0 in the first one.
    pub session: u128,
    /// The replica whose state it is.
    pub from: [u8; 16],
    /// Where the previous page ended; empty in the first one.
    pub cursor: &'p [u8],
    /// The page, as [`state_page`](crate::state_page) produces it.
    pub page: &'p [u8],
}
