//! Arbitrary bytes as a block of a table: iterating and searching terminate without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| isomer_lsm::fuzzed::block(bytes));
