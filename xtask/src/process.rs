//! Runs a program with its output in a log, a timeout, and a progress line.

use std::{
    collections::VecDeque,
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::{host, live::Live, usage};

/// Lines of a failed program that are shown.
const TAIL_LINES: usize = 60;
/// How long to wait for output after a program ended (a child process may hold the pipe open).
const DRAIN: Duration = Duration::from_secs(5);
/// Interval of progress and of checks whether a program ended.
const POLL: Duration = Duration::from_millis(250);
/// The same after a program closed its output, which it mostly does by ending.
const POLL_AT_END: Duration = Duration::from_millis(2);

/// Where a line was printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// The log of a suite: everything goes to the file, the last lines are kept in memory.
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
        writeln!(self.file, "{line}").ok(); // the log is best effort: a full disk shows in the suite itself
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

/// From here on Ctrl-C ends the running program and its children instead of this process alone.
pub fn handle_interrupts() -> Result<()> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst))
        .context("cannot install a handler for Ctrl-C")
}

/// Whether Ctrl-C was pressed.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// How a program ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// It exited with success, within its limit.
    pub succeeded: bool,
    /// Its processor time, with that of the children it waited for; `None` if the system does not say.
    pub busy: Option<Duration>,
}

/// Runs `command` to its end, or kills it and its children after `limit`. Every line goes to `on_line`; lines
/// for which it returns true go to the log too.
pub fn run(
    command: &mut Command,
    limit: Duration,
    log: &mut Log,
    live: &mut Live,
    on_line: &mut dyn FnMut(Stream, &str) -> bool,
) -> Result<Ended> {
    let program = command.get_program().to_string_lossy().into_owned();
    log.line(&format!("$ {}", shown(command)));
    let mut child = host::in_own_group(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{program} does not start"))?;
    let lines = pump(&mut child);
    let started = Instant::now();
    let mut last = String::new();
    let mut checked = started;
    let mut ended_at = None;
    let mut busy = None;
    let mut are_pipes_open = true;
    let mut killed = false;
    loop {
        let received = match are_pipes_open {
            true => lines.recv_timeout(POLL),
            false => {
                std::thread::sleep(POLL_AT_END);
                Err(RecvTimeoutError::Timeout)
            }
        };
        match received {
            Ok((stream, line)) => {
                if on_line(stream, &line) {
                    log.line(&line);
                    last = line;
                }
                if checked.elapsed() < POLL {
                    continue;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => are_pipes_open = false,
        }
        checked = Instant::now();
        live.tick(&last);
        if ended_at.is_none()
            && let Some(time) = end(&mut child)?
        {
            (ended_at, busy) = (Some(Instant::now()), time);
        }
        let is_drained = |at: Instant| !are_pipes_open || at.elapsed() > DRAIN;
        if ended_at.is_some_and(is_drained) {
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
    Ok(Ended {
        succeeded: status.success() && !killed,
        busy,
    })
}

/// Whether a child ended, and then its processor time: read before `wait`, which discards it.
fn end(child: &mut Child) -> Result<Option<Option<Duration>>> {
    match usage::of_process(child.id()) {
        Some(usage) => Ok(usage.has_ended.then_some(Some(usage.busy))),
        None => Ok(child.try_wait()?.map(|_| None)),
    }
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
