//! The chat example: its tests over four stores, and two browsers that talk to each other over each of them.
//!
//! `examples/chat/run.py` starts PostgreSQL in a folder of its own; the programs were built with all others.

use std::process::Command;

use anyhow::Result;

use crate::{
    suites::{Context, is_suite},
    tally::Tally,
    workspace,
};

/// The suite.
pub fn suite(context: &mut Context<'_>) -> Result<Tally> {
    let built = context.programs()?.and_then(|programs| {
        let program = programs.iter().find(|program| is_suite(program, "stores"));
        program.map(|program| program.path.clone())
    });
    let Some(program) = built else {
        return Ok(Tally::single("chat (does not build)", false));
    };
    // Cargo builds a package's binary for its integration tests, too.
    let binary = workspace::target_dir().join("debug/isomer-chat");
    let mut command = Command::new("python3");
    command
        .arg(workspace::root().join("examples/chat/run.py"))
        .arg("test")
        .arg("--program")
        .arg(program)
        .arg("--binary")
        .arg(binary);
    let mut tally = Tally::default();
    context.count(&mut command, 10, &mut tally, "chat")?;
    Ok(tally)
}
