//! The parts of a state, in the order in which it is sent.

use isomer_layout::keyspace::{self, IdSpace};

/// The parts of a state, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Nodes,
    Ghosts,
    Relationships,
    Fields,
    Buckets,
    Entries,
    Values,
    Sequences,
    Files,
    Folders,
    Chunks,
}

pub(crate) const PARTS: [Part; 11] = [
    Part::Nodes,
    Part::Ghosts,
    Part::Relationships,
    Part::Fields,
    Part::Buckets,
    Part::Entries,
    Part::Values,
    Part::Sequences,
    Part::Files,
    Part::Folders,
    Part::Chunks,
];

impl Part {
    pub(crate) fn prefix(self) -> Vec<u8> {
        match self {
            Self::Nodes => vec![keyspace::TAG_NODE],
            Self::Ghosts => keyspace::shadows(IdSpace::Nodes),
            Self::Relationships => vec![keyspace::TAG_REL],
            Self::Fields => vec![keyspace::TAG_CONVERGENT],
            Self::Buckets => vec![keyspace::TAG_BUCKET],
            Self::Entries => vec![keyspace::TAG_BUCKET_ENTRY],
            Self::Values => vec![keyspace::TAG_BUCKET_PAIR],
            Self::Sequences => vec![keyspace::TAG_BUCKET_SEQUENCE],
            Self::Files => keyspace::shadows(IdSpace::Files),
            Self::Folders => keyspace::FOLDERS_MADE.to_vec(),
            Self::Chunks => vec![keyspace::TAG_FILE_CHUNK],
        }
    }
}
