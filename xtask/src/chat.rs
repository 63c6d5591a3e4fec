//! The chat example: its tests over four stores, and two browsers that chat over each of them.
//!
//! `examples/chat/run.py` starts PostgreSQL in a temporary folder; the programs are built with all others.

use std::process::Command;

use anyhow::Result;

use crate::{context::Context, tally::Tally, test_program::is_suite, workspace};

/// The suite.
pub fn suite(context: &mut Context<'_>) -> Result<Tally> {
    let program = context
        .tests
        .iter()
        .find(|program| is_suite(program, "stores"));
    let Some(program) = program else {
        return Ok(Tally::single("chat (no such test target)", false));
    };
    // Cargo builds a package's binary for its integration tests.
    let binary = workspace::target_dir().join("debug/isomer-chat");
    let mut command = Command::new("python3");
    command
        .arg(workspace::root().join("examples/chat/run.py"))
        .arg("test")
        .arg("--program")
        .arg(&program.path)
        .arg("--binary")
        .arg(binary);
    context.count(&mut command, 10, "chat")
}
