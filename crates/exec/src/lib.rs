//! Vectorised operators over transactions and read views.
//!
//! [`Execution`] runs a plan of `isomer-plan` in a transaction of `isomer-data`: it is started once and pulled for
//! rows, and can pause between pulls. It runs on the caller's thread, except that several threads read many records of
//! a result, and compute the rows below an aggregation, a sort or a `DISTINCT` over a large scan. Invariants:
//! - a failed statement leaves no trace in its transaction;
//! - a query stays within its [`Limits`] or fails with an error that names the limit, and stops within about a thousand
//!   rows of being cancelled;
//! - a result is correct or an error: integer overflow, division by zero, wrong types and deleted entities are errors
//!   of the language's own classes ([`ErrorClass`]), never a silent null.

mod accumulate;
mod builtin;
mod chunk;
mod column;
mod context;
mod csv;
mod dense;
mod describe;
mod download;
mod error;
mod eval;
mod exact;
mod execution;
mod files;
mod function;
mod host;
mod hydrate;
mod limits;
mod names;
mod operator;
mod pattern;
mod point;
mod procedure;
mod profiler;
#[cfg(feature = "algorithms")]
mod projection;
mod result;
mod schema;
mod spill;
#[cfg(test)]
mod tests;
mod value_size;

pub use download::{CsvUrls, UrlAnswer, UrlClient};
pub use error::{ErrorClass, ExecError, Result};
pub use execution::{Execution, ExecutionOptions};
pub use function::is_component;
pub use host::{Administration, Host, HostError};
pub use limits::{CancelHandle, Limits, Stop};
pub use procedure::{CallContext, Procedure, Registry, ScalarFunction};
#[cfg(feature = "algorithms")]
pub use projection::{GraphCatalog, StatementPlanner};
pub use result::{Counters, OperatorProfile, ResultRows, RunningQueries};
