//! Nodes and relationships, as they are stored and as they change.

pub mod key;
pub mod rows;
pub mod state;
