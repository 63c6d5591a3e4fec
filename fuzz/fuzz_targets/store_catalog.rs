//! Any bytes as a catalog of backups: written back as read, no name outside the folder.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| isomer_store::fuzzed::catalog(bytes));
