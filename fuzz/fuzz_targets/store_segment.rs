//! Any bytes as a segment of the log: refused, or what it holds can be read.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| isomer_store::fuzzed::segment(bytes));
