//! The `isomer` binary.
#![allow(dead_code)]

mod import;

fn main() {}
