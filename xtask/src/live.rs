//! Progress: a line that a terminal rewrites in place, or a heartbeat per minute; and the status of a task that runs
//! with others.

use std::{
    io::{IsTerminal, Write},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Interval of the heartbeat when the output is not a terminal.
const HEARTBEAT: Duration = Duration::from_secs(60);
const WIDTH: usize = 110;

/// The last line that a task printed, shared with the thread that shows progress.
#[derive(Clone, Default)]
pub struct Status(Arc<Mutex<String>>);

impl Status {
    /// Replaces the line.
    pub fn set(&self, line: &str) {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        line.trim().clone_into(&mut text);
    }

    /// The line.
    pub fn get(&self) -> String {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Progress of a program.
pub enum Live {
    /// Printed.
    Screen(Screen),
    /// Kept for the thread that shows the progress of several tasks.
    Status(Status),
}

impl Live {
    /// Starts the clock of a program that runs alone.
    pub fn start(name: &str) -> Self {
        Self::Screen(Screen::new(name))
    }

    /// Shows the current activity.
    pub fn tick(&mut self, last_line: &str) {
        match self {
            Self::Screen(screen) => screen.tick(last_line),
            Self::Status(status) => status.set(last_line),
        }
    }

    /// Replaces the progress line by the result.
    pub fn finish(&self, text: &str) {
        if let Self::Screen(screen) = self {
            screen.finish(text);
        }
    }
}

/// A named clock and its line on standard output.
pub struct Screen {
    name: String,
    started: Instant,
    terminal: bool,
    printed: Instant,
}

impl Screen {
    /// Starts the clock.
    pub fn new(name: &str) -> Self {
        let now = Instant::now();
        Self {
            name: name.to_owned(),
            started: now,
            terminal: std::io::stdout().is_terminal(),
            printed: now,
        }
    }

    /// Shows the current activity.
    pub fn tick(&mut self, activity: &str) {
        let seconds = self.started.elapsed().as_secs();
        if self.terminal {
            let mut text = format!("{:<10} {seconds:>5} s  {}", self.name, activity.trim());
            text.truncate(
                text.char_indices()
                    .nth(WIDTH)
                    .map_or(text.len(), |(at, _)| at),
            );
            print!("\r\x1b[K{text}");
        } else if self.printed.elapsed() >= HEARTBEAT {
            self.printed = Instant::now();
            println!("{:<10} {seconds:>5} s  … {}", self.name, activity.trim());
        }
        std::io::stdout().flush().ok();
    }

    /// Prints a line above the progress line.
    pub fn print(&self, text: &str) {
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        println!("{clear}{text}");
        std::io::stdout().flush().ok();
    }

    fn finish(&self, text: &str) {
        self.print(&format!(
            "{:<10} {:>7.1} s  {text}",
            self.name,
            self.started.elapsed().as_secs_f64()
        ));
    }
}
