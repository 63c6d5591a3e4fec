//! Immutable sorted tables.
pub(crate) mod block;
pub(crate) mod filter;
