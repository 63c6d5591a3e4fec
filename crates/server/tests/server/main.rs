//! The server as its clients see it: real connections, real bytes.

mod abuse;
mod bolt;
mod bolt_abuse;
mod data;
mod driver;
mod fields;
mod files;
mod limits;
mod queries;
mod rights;
mod support;
