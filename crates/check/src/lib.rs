//! Consistency check of a database: everything derived is compared with its source.
//!
//! It reads stored pairs through [`isomer_data::stored_pairs`] and writes nothing.

mod consistency;
#[cfg(test)]
mod tests;

pub use consistency::check;
