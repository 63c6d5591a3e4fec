//! Arbitrary bytes as a catalog of backups: it round-trips, and no file name leaves the folder.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| isomer_lsm::fuzzed::catalog(bytes));
