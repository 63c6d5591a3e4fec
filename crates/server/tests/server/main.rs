//! The server as its clients see it: real connections, real bytes.

mod abuse;
mod data;
mod limits;
mod queries;
mod rights;
mod support;
