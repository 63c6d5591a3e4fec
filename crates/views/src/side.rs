//! The two ends of relationships.

/// The end from which relationships are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AdjacencySide {
    /// From the source node: outgoing relationships.
    Out,
    /// From the target node: incoming relationships.
    In,
}

impl AdjacencySide {
    /// Both sides, outgoing first, in the order of the rows.
    pub const BOTH: [Self; 2] = [Self::Out, Self::In];

    /// The opposite side.
    pub fn reversed(self) -> Self {
        match self {
            Self::Out => Self::In,
            Self::In => Self::Out,
        }
    }
}
