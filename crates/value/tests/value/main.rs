//! Values: codecs, JSON and temporal types.

mod codecs;
mod corpus;
mod json;
mod support;
mod temporal;
mod temporal_tck;
