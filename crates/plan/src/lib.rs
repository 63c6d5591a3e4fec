//! From a syntax tree to a physical plan: binder, logical plan, rules, costs.
//!
//! Invariants: this crate does no I/O and reads the database only through [`PlannerCatalog`]; a [`Plan`] is immutable,
//! refers to variables by slots only, and is deterministic for a text and catalog.

mod arena;
mod batched;
mod bind;
pub mod catalog;
mod depth;
pub mod error;
pub mod explain;
pub mod expr;
pub mod function;
mod logical;
pub mod physical;
mod point;
mod prepare;
pub mod reads;
pub mod schema;
mod solve;
pub mod walk;

pub use catalog::PlannerCatalog;
pub use error::{PlanError, PlanErrorKind};
pub use physical::Plan;
pub use prepare::{PlanningOptions, prepare, prepare_parsed};
