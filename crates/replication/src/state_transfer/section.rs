//! The sections of a state, in the order in which they are sent.

use isomer_layout::keyspace::{self, IdSpace};

/// The parts of a state, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
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

pub(crate) const SECTIONS: [Section; 11] = [
    Section::Nodes,
    Section::Ghosts,
    Section::Relationships,
    Section::Fields,
    Section::Buckets,
    Section::Entries,
    Section::Values,
    Section::Sequences,
    Section::Files,
    Section::Folders,
    Section::Chunks,
];

impl Section {
    pub(crate) fn prefix(self) -> Vec<u8> {
        match self {
            Self::Nodes => vec![keyspace::TAG_NODE],
            Self::Ghosts => keyspace::metadata_rows(IdSpace::Nodes),
            Self::Relationships => vec![keyspace::TAG_REL],
            Self::Fields => vec![keyspace::TAG_CONVERGENT],
            Self::Buckets => vec![keyspace::TAG_BUCKET],
            Self::Entries => vec![keyspace::TAG_BUCKET_ENTRY],
            Self::Values => vec![keyspace::TAG_BUCKET_PAIR],
            Self::Sequences => vec![keyspace::TAG_BUCKET_SEQUENCE],
            Self::Files => keyspace::metadata_rows(IdSpace::Files),
            Self::Folders => keyspace::FOLDERS_MADE.to_vec(),
            Self::Chunks => vec![keyspace::TAG_FILE_CHUNK],
        }
    }
}
