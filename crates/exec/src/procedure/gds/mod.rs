//! A subset of Neo4j's Graph Data Science library: named graphs in memory, and algorithms on them, `gds.*`.
//!
//! A projection copies a part of the database as the transaction sees it. Algorithms read the copy: later commits do
//! not change it, and its reads are not part of a transaction's footprint.

mod arguments;
mod columns;
mod cypher;
mod graph;
mod listing;
mod native;
mod properties;
mod results;
mod rows;
mod run;

use super::{
    Registry,
    table::{register_functions, register_procedures},
};

/// Registers the procedures and functions.
pub(super) fn register(registry: &mut Registry) {
    register_procedures(registry, native::PROCEDURES);
    register_procedures(registry, cypher::PROCEDURES);
    register_procedures(registry, listing::PROCEDURES);
    register_procedures(registry, properties::PROCEDURES);
    run::register(registry);
    register_functions(registry, results::FUNCTIONS);
    registry.graph_maker = Some(rows::project_rows);
}
