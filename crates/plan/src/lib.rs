//! From a syntax tree to a physical plan: binder, logical plan, rules, costs.
//!
//! What this crate keeps true: it does no I/O and asks the database only through [`Catalog`]; a [`Plan`] is immutable,
//! holds no name of a variable, and is the same for the same text and catalog.

pub mod catalog;
pub mod expr;
pub mod function;
pub mod physical;
pub mod schema;

pub use catalog::Catalog;
pub use physical::Plan;
