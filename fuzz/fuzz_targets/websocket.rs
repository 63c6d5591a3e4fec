//! Arbitrary bytes as frames of WebSocket: the data is the same however the bytes arrive, and reading terminates
//! without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| isomer_server::bolt::fuzzed_websocket(bytes));
