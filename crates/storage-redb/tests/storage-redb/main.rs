//! The redb engine: conformance, files, faults and power cuts.

mod conformance;
mod faults;
mod files;
mod power;
