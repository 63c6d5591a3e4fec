//! `isomer import`: rows of files become nodes and relationships.

pub mod columns;
pub mod delimited;
pub mod json;
pub mod record;
pub mod rejects;
pub mod source;
