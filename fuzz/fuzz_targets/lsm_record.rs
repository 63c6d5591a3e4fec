//! Arbitrary bytes as the body of a log record: a decoded record can be iterated.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| isomer_lsm::fuzzed::record(bytes));
