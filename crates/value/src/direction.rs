//! The direction of relationships, for patterns, plans and reads.

/// Direction of a relationship, seen from the left node of a pattern or from the node whose relationships are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// `-->`: the relationships that start at the node.
    Outgoing,
    /// `<--`: the relationships that end at the node.
    Incoming,
    /// `--` or `<-->`: both; a self loop appears once.
    Both,
}

impl Direction {
    /// The direction as seen from the other end.
    pub fn reversed(self) -> Self {
        match self {
            Self::Outgoing => Self::Incoming,
            Self::Incoming => Self::Outgoing,
            Self::Both => Self::Both,
        }
    }
}
