//! Any bytes as a block of a table: walking and searching end, and nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| isomer_store::fuzzed::block(bytes));
