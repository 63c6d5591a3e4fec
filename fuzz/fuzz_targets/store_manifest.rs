//! Any bytes as a manifest of tables: what is read comes back from what is written of it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| isomer_store::fuzzed::manifest(bytes));
