//! Arbitrary text as a statement: parsing never panics, and the printed form of a parsed statement parses to
//! the same tree.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code)]
#[path = "../../crates/testkit/src/fuzzed.rs"]
mod fuzzed;

fuzz_target!(|text: &str| fuzzed::parse_and_print(text));
