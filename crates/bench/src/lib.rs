//! Workloads: the data for demonstrations, tests and benchmarks, and the benchmarks themselves.
//!
//! - [`network`]: a social network shaped like soc-Pokec, deterministic by its seed; [`profile`]: the
//!   documents of its people; [`files`]: both as files; [`shape`]: its measured metrics; [`load`]: both into
//!   a database.
//! - [`mod@core`], [`language`], [`pokec`], [`guanciale`], [`uuid`], [`convergent`], [`server`],
//!   [`processes`]: the benchmarks of these names; [`measure`]: clocks and gauges; [`report`]: the sink for metrics.
//!
//! All data is generated in memory from a seed and streamed from there: nothing is downloaded.

mod bolt;
pub mod convergent;
pub mod core;
pub mod files;
pub mod guanciale;
pub mod language;
pub mod load;
pub mod measure;
pub mod network;
pub mod pokec;
pub mod processes;
pub mod profile;
pub mod random;
pub mod report;
pub mod server;
pub mod shape;
pub mod uuid;

pub use network::Network;
