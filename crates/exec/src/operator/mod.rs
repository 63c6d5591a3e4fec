//! The operators of the physical plan, pulled chunk by chunk.
//!
//! The plan is shared and immutable; an execution builds a tree of states over it ([`Child`]): one for each operator,
//! of the type that the operator names. An operator that cannot run passes on the rows of its fallback in the plan.
//! [`Child::pull`] returns the next chunk, or none at the end; [`Child::open`] restarts the tree with other outer rows,
//! so that the right side of an apply is built once and run many times.

mod aggregate;
mod apply;
mod batch;
mod blocking;
mod build;
mod calls;
mod converge;
mod count;
mod count_by_column;
mod count_by_node;
mod count_paths;
mod csv;
mod delete;
mod distinct_ends;
mod exchange;
mod expand;
mod expand_into;
mod fallback;
mod group_by_key;
mod input;
mod join;
mod listing;
mod merge;
mod morsels;
mod pieces;
mod position;
mod row;
mod scan;
mod seek;
mod shortest;
mod shortest_cycle;
mod source;
mod tree;
mod varlength;
mod walk;
mod write;

pub(crate) use delete::check_owed_relationships;
pub(crate) use morsels::Morsels;
pub(crate) use pieces::Pieces;
pub(crate) use scan::node_by_key;
pub(crate) use tree::{Argument, Batch, Child, FULL_BATCH, Operate, OperatorRef};
