//! Arbitrary bytes as a manifest of tables: a decoded manifest round-trips.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| isomer_lsm::fuzzed::manifest(bytes));
