//! The `isomer` binary that was built together with the tests.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};

/// A command of the binary.
pub fn isomer() -> Result<Command> {
    let test = std::env::current_exe()?;
    let folder = test
        .ancestors()
        .nth(2)
        .context("tests are built two folders below the binary")?;
    let binary = folder.join("isomer");
    ensure!(
        binary.is_file(),
        "{} is not built: cargo build",
        binary.display()
    );
    Ok(Command::new(binary))
}

/// Runs the binary; returns its standard error if it exited with code 1, `None` if with 0.
pub fn refused(command: &mut Command) -> Result<Option<String>> {
    let Output { status, stderr, .. } = command.output()?;
    let message = String::from_utf8_lossy(&stderr).into_owned();
    match status.code() {
        Some(0) => Ok(None),
        Some(1) if !message.contains("panicked") => Ok(Some(message)),
        code => anyhow::bail!("it exited with {code:?}: {message}"),
    }
}
