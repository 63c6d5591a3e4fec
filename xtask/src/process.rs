//! Running a program with its output in a log, a limit on its time, and a live line.

use std::{
    collections::VecDeque,
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::live::Live;

/// Lines of a failed program that are shown.
const TAIL_LINES: usize = 60;
/// How long output is awaited after a program ended (a child of its own may hold the pipe open).
const DRAIN: Duration = Duration::from_secs(5);

/// Where a line was printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// The log of a suite: everything goes to the file, the last lines stay at hand.
pub struct Log {
    file: File,
    tail: VecDeque<String>,
}

impl Log {
    /// An empty log in `file`.
    pub fn new(file: File) -> Self {
        Self {
            file,
            tail: VecDeque::new(),
        }
    }

    /// Adds a line.
    pub fn line(&mut self, line: &str) {
        writeln!(self.file, "{line}").ok(); // the log is a courtesy: a full disk shows in the suite itself
        self.tail.push_back(line.to_owned());
        if self.tail.len() > TAIL_LINES {
            self.tail.pop_front();
        }
    }

    /// The last lines, oldest first.
    pub fn tail(&self) -> impl Iterator<Item = &str> {
        self.tail.iter().map(String::as_str)
    }
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From here on Ctrl-C ends what runs, with all that it started, instead of this process alone.
pub fn heed_interrupts() -> Result<()> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst))
        .context("Ctrl-C cannot be heeded")
}

/// Whether somebody pressed Ctrl-C.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Runs `command` to its end, or kills it and what it started after `limit`. Every line goes to `on_line`; what that
/// returns true for goes to the log too. Returns whether the program ended with success.
pub fn run(
    command: &mut Command,
    limit: Duration,
    log: &mut Log,
    live: &mut Live,
    on_line: &mut dyn FnMut(Stream, &str) -> bool,
) -> Result<bool> {
    let program = command.get_program().to_string_lossy().into_owned();
    log.line(&format!("$ {}", shown(command)));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("{program} does not start"))?;
    let lines = pump(&mut child);
    let started = Instant::now();
    let mut last = String::new();
    let mut ended_at = None;
    let mut killed = false;
    loop {
        match lines.recv_timeout(Duration::from_millis(250)) {
            Ok((stream, line)) => {
                if on_line(stream, &line) {
                    log.line(&line);
                    last = line;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        live.tick(&last);
        if ended_at.is_none() && child.try_wait()?.is_some() {
            ended_at = Some(Instant::now());
        }
        if ended_at.is_some_and(|at| at.elapsed() > DRAIN) {
            break;
        }
        if !killed && is_interrupted() {
            killed = true;
            log.line("killed by Ctrl-C");
            kill_group(&child);
        }
        if !killed && started.elapsed() > limit {
            killed = true;
            log.line(&format!(
                "killed after {} s, the limit of this suite",
                limit.as_secs()
            ));
            kill_group(&child);
        }
    }
    let status = child.wait()?;
    if !status.success() {
        log.line(&format!("{program}: {status}"));
    }
    Ok(status.success() && !killed)
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

fn pump(child: &mut Child) -> Receiver<(Stream, String)> {
    let (sender, receiver) = channel();
    if let Some(out) = child.stdout.take() {
        forward(out, Stream::Out, sender.clone());
    }
    if let Some(err) = child.stderr.take() {
        forward(err, Stream::Err, sender);
    }
    receiver
}

fn forward(pipe: impl Read + Send + 'static, stream: Stream, sender: Sender<(Stream, String)>) {
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while matches!(pipe.read_until(b'\n', &mut bytes), Ok(count) if count > 0) {
            let line = String::from_utf8_lossy(&bytes)
                .trim_end_matches(['\n', '\r'])
                .to_owned();
            bytes.clear();
            if sender.send((stream, line)).is_err() {
                return;
            }
        }
    });
}

fn kill_group(child: &Child) {
    let group = format!("-{}", child.id());
    Command::new("kill")
        .args(["-KILL", "--", &group])
        .status()
        .ok();
}
