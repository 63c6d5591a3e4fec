//! The server as its clients see it: real connections, real bytes.

mod abuse;
mod backups;
mod bolt;
mod bolt_abuse;
mod bolt_websocket;
mod compat_statements;
mod conditions;
mod data;
mod driver;
mod early;
mod fields;
mod files;
mod limits;
mod pages;
mod peers;
mod queries;
mod results;
mod rights;
mod silence;
mod streams;
mod support;
mod timeouts;
#[cfg(feature = "otel")]
mod traces;
mod transaction_api;
