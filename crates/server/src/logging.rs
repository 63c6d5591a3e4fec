//! The log: lines of text or JSON on standard error.

use crate::config::{Config, LogFormat};

/// Starts logging as configured. Once per process; further calls have no effect.
pub fn start(config: &Config) {
    let lines = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(config.log_level)
        .with_target(false);
    // An error means that a logger is already installed.
    let _ = match config.log_format {
        LogFormat::Text => {
            use std::io::IsTerminal;
            tracing::subscriber::set_global_default(
                lines.with_ansi(std::io::stderr().is_terminal()).finish(),
            )
        }
        LogFormat::Json => {
            tracing::subscriber::set_global_default(lines.json().flatten_event(true).finish())
        }
    };
}
