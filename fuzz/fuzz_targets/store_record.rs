//! Any bytes as the body of a record of the log: what decodes can be walked.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| isomer_store::fuzzed::record(bytes));
