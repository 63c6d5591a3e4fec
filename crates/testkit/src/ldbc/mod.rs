//! The data and queries of LDBC's Social Network Benchmark: a generator of its schema, and an independent computation
//! of the answers.
//!
//! - [`network`]: the entities, as plain structures; [`generate`]: a network from a seed.
//! - [`tables`]: a network as tables; [`load`]: into a database; [`files`]: as CSV files with
//!   the headers of Neo4j's importer.
//! - [`cell`]: values of answers and parameters.
//! - [`published`]: the published queries, which are not part of the project; [`parameters`]: their parameters, drawn
//!   from a network so that queries have rows.
//! - [`reference`]: the answers, computed by loops over the structures. Nothing of the database is used for them.
//!
//! The results of these queries are not LDBC benchmark results: the data is another and nothing is audited.

pub mod cell;
pub mod files;
pub mod generate;
pub mod load;
pub mod network;
pub mod parameters;
pub mod published;
pub mod reference;
pub mod tables;
