//! Evaluation of expressions: row by row ([`value`]) and for whole chunks ([`column`]).
//!
//! One semantics, two drivers. [`strict::apply`] implements the operations that evaluate all their operands; the row
//! driver passes it values, the chunk driver columns with batched property reads. Operations that must not evaluate an
//! operand (`AND`, `OR`, `CASE`, `coalesce`) are in both drivers; comprehensions, quantifiers and sub-plans run row by
//! row.
//!
//! Recursion follows the expression, whose depth the parser bounds.

mod arith;
mod comprehension;
mod last_list;
mod membership;
mod node_cache;
mod remembered;
mod row;
mod strict;
mod truth;
mod vector;

pub(crate) use arith::arithmetic;
pub(crate) use last_list::LastList;
pub(crate) use node_cache::Remembered;
pub(crate) use row::{Row, holds, value};
pub(crate) use strict::{is_of, properties_of};
pub(crate) use truth::truth;
pub(crate) use vector::{Selection, column, truths};
