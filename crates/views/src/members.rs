//! Label sets: which nodes have a label, or exist.

pub(crate) mod stored;

use std::sync::Arc;

use isomer_data::{GraphRead, Transaction, Version};
use isomer_value::{LabelId, NodeId};
use parking_lot::Mutex;
use roaring::RoaringBitmap;

use crate::{
    build::Effort,
    error::ViewError,
    id::small,
    slot::{Base, Generation, Pinned},
};

/// Nodes read per batch.
const BATCH: usize = 16_384;

/// The nodes of a label, or all nodes, at one version. Memory: at most 2 bytes per node, one bit in dense
/// ranges.
pub(crate) struct MemberBase {
    set: Arc<RoaringBitmap>,
    bytes: usize,
    /// The set at the version requested last.
    last: Mutex<Option<(Version, Arc<RoaringBitmap>)>>,
}

impl MemberBase {
    pub(crate) fn new(set: RoaringBitmap) -> Self {
        Self {
            bytes: set.serialized_size() + size_of::<Self>(),
            set: Arc::new(set),
            last: Mutex::default(),
        }
    }

    #[inline]
    pub(crate) fn contains(&self, node: u32) -> bool {
        self.set.contains(node)
    }
}

impl Base for MemberBase {
    /// Whether the node is a member at this version.
    type Change = bool;

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn len(&self) -> u64 {
        self.set.len()
    }

    fn id_bound(&self) -> u64 {
        self.set.max().map_or(0, |last| u64::from(last) + 1)
    }
}

/// Builds the set from the rows.
pub(crate) fn build(
    tx: &Transaction,
    label: Option<LabelId>,
    effort: &mut Effort<'_>,
) -> Result<MemberBase, ViewError> {
    let mut set = RoaringBitmap::new();
    let mut ids = Vec::with_capacity(BATCH);
    let mut after: Option<NodeId> = None;
    loop {
        effort.check()?;
        ids.clear();
        tx.scan_nodes(label, after, BATCH, &mut ids)?;
        for id in &ids {
            let id = small(id.0).ok_or(ViewError::IdTooLarge)?;
            // The ids ascend, so `append` cannot fail.
            let _ = set.try_push(id);
        }
        if ids.len() < BATCH {
            break;
        }
        after = ids.last().copied();
    }
    set.optimize();
    let base = MemberBase::new(set);
    effort.reserve(base.bytes())?;
    Ok(base)
}

/// Merges base and delta as of `version`.
pub(crate) fn merge(
    generation: &Generation<MemberBase>,
    version: Version,
    effort: &mut Effort<'_>,
) -> Result<MemberBase, ViewError> {
    // The set is one compressed bitmap that readers use as a whole, so it is copied as a whole: unlike adjacency and
    // columns, it has no parts that the two bases could share. At about a bit a node that is cheap.
    let mut set = changed(generation, version);
    set.optimize();
    let base = MemberBase::new(set);
    effort.reserve(base.bytes())?;
    Ok(base)
}

fn changed(generation: &Generation<MemberBase>, version: Version) -> RoaringBitmap {
    let mut set = (*generation.base.set).clone();
    for node in generation.delta.nodes(generation.from, version) {
        // Membership is a state, not a sum: the newest entry decides, and older ones are hidden by it.
        let mut newest = None;
        generation
            .delta
            .newest_first(node, generation.from, version, |member| {
                newest.get_or_insert(*member);
            });
        match newest {
            Some(true) => set.insert(node),
            Some(false) => set.remove(node),
            None => false,
        };
    }
    set
}

impl Pinned<MemberBase> {
    /// Whether a node is a member.
    #[inline]
    pub(crate) fn contains(&self, node: u32) -> bool {
        if self.touched(node) {
            let mut newest = None;
            self.newest_first(node, |member| {
                newest.get_or_insert(*member);
            });
            if let Some(member) = newest {
                return member;
            }
        }
        self.base().contains(node)
    }

    /// All members: the base's own set if there are no changes, else a copy, cached for the next request at
    /// the same version.
    pub(crate) fn set(&self) -> Arc<RoaringBitmap> {
        if !self.overlaid {
            return self.base().set.clone();
        }
        let mut last = self.base().last.lock();
        match &*last {
            Some((version, set)) if *version == self.version => set.clone(),
            _ => {
                let set = Arc::new(changed(&self.generation, self.version));
                *last = Some((self.version, set.clone()));
                set
            }
        }
    }
}
