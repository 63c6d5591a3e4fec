//! The line a person watches while a suite runs.

use std::{
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

/// How often a run that is not watched on a terminal says that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(60);
const WIDTH: usize = 110;

/// Progress of one suite: rewritten in place on a terminal, a heartbeat a minute elsewhere.
pub struct Live {
    name: String,
    started: Instant,
    terminal: bool,
    said: Instant,
}

impl Live {
    /// Starts the clock.
    pub fn start(name: &str) -> Self {
        let now = Instant::now();
        Self {
            name: name.to_owned(),
            started: now,
            terminal: std::io::stdout().is_terminal(),
            said: now,
        }
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Shows what is going on.
    pub fn tick(&mut self, last_line: &str) {
        let seconds = self.elapsed().as_secs();
        if self.terminal {
            let mut text = format!("{:<10} {seconds:>5} s  {}", self.name, last_line.trim());
            text.truncate(
                text.char_indices()
                    .nth(WIDTH)
                    .map_or(text.len(), |(at, _)| at),
            );
            print!("\r\x1b[K{text}");
        } else if self.said.elapsed() >= HEARTBEAT {
            self.said = Instant::now();
            println!("{:<10} {seconds:>5} s  … {}", self.name, last_line.trim());
        }
        std::io::stdout().flush().ok();
    }

    /// Replaces the moving line by the result.
    pub fn finish(&self, text: &str) {
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        println!(
            "{clear}{:<10} {:>7.1} s  {text}",
            self.name,
            self.elapsed().as_secs_f64()
        );
        std::io::stdout().flush().ok();
    }
}
