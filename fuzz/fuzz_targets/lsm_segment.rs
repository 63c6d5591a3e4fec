//! Arbitrary bytes as a segment of the log: rejected, or its content can be read.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| isomer_lsm::fuzzed::segment(bytes));
