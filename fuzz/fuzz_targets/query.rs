//! Arbitrary text as a query on a tiny graph with small limits: it returns or is rejected, without panic,
//! hang or overflow.
#![no_main]

use std::cell::OnceCell;

use isomer_db::Database;
use libfuzzer_sys::fuzz_target;

#[allow(dead_code)]
#[path = "../../crates/testkit/src/fuzzed.rs"]
mod fuzzed;

thread_local! {
    static DATABASE: OnceCell<Database> = const { OnceCell::new() };
}

fuzz_target!(|text: &str| DATABASE.with(|database| {
    fuzzed::execute(database.get_or_init(fuzzed::tiny_database), text);
}));
