//! A part of APOC, the library of procedures and functions that most users of Neo4j have installed: what libraries and
//! public queries call. Names, parameters and results are APOC's; what is not here is refused by name.

mod arguments;
mod checks;
mod coll;
mod convert;
mod create;
mod date;
mod map;
mod meta;
mod refactor;
mod schema;
mod subgraph;
mod text;
#[cfg(feature = "regex")]
mod text_pattern;

use super::{Registry, table};

/// Registers the procedures and functions.
pub(super) fn register(registry: &mut Registry) {
    for functions in [
        checks::FUNCTIONS,
        coll::FUNCTIONS,
        convert::FUNCTIONS,
        date::FUNCTIONS,
        map::FUNCTIONS,
        schema::FUNCTIONS,
        text::FUNCTIONS,
    ] {
        table::register_functions(registry, functions);
    }
    #[cfg(feature = "regex")]
    table::register_functions(registry, text_pattern::FUNCTIONS);
    for procedures in [
        checks::PROCEDURES,
        create::PROCEDURES,
        meta::PROCEDURES,
        refactor::PROCEDURES,
        schema::PROCEDURES,
        subgraph::PROCEDURES,
    ] {
        table::register_procedures(registry, procedures);
    }
}

#[cfg(test)]
mod tests;
