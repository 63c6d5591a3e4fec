//! A test harness for named cases that run sequentially, may be skipped with a reason, and print in the
//! format of `cargo test`, so that tools parse one format.

use std::{
    any::Any,
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    time::{Duration, Instant},
};

/// Outcome of a case that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It ran and passed.
    Passed,
    /// It could not run here, with the reason.
    Skipped(String),
    /// It needs data that is not part of the project, with what is missing; `cargo xtask test --strict` accepts it.
    NeedsData(String),
    /// It needs what the machine's kernel or the user's rights do not allow, with the reason; `--strict` accepts it.
    NotOnThisMachine(String),
}

impl Verdict {
    /// As the line of a skipped test gives it; `None` if it passed. `cargo xtask test` reads it.
    fn reason(&self) -> Option<String> {
        match self {
            Self::Passed => None,
            Self::Skipped(reason) => Some(reason.clone()),
            Self::NeedsData(missing) => Some(format!("needs data: {missing}")),
            Self::NotOnThisMachine(reason) => Some(format!("not on this machine: {reason}")),
        }
    }

    /// Reports that the current test of a program of `cargo test` does not run. Such a test can only pass, so its
    /// program counts it so; `cargo xtask test` reads this line, which is not captured with the test's output, and
    /// counts a skip.
    pub fn report(&self) {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        if let Some(reason) = self.reason() {
            // With one thread the name of the test is on the line already.
            let line = format!("\nskipped test {name}: {reason}\n");
            std::io::stderr().write_all(line.as_bytes()).ok();
        }
    }
}

/// Result of a case: an error is a failure, and so is a panic.
pub type Outcome = anyhow::Result<Verdict>;

type Body = Box<dyn FnOnce() -> Outcome>;

/// The cases of one program.
#[derive(Default)]
pub struct Harness {
    cases: Vec<(String, Body)>,
}

impl Harness {
    /// An empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a case.
    pub fn case(&mut self, name: impl Into<String>, body: impl FnOnce() -> Outcome + 'static) {
        self.cases.push((name.into(), Box::new(body)));
    }

    /// Adds cases whose names begin with `module::`, so that `cargo xtask test` can run the module as one task.
    pub fn module(&mut self, module: &str, add_cases: impl FnOnce(&mut Self)) {
        let first = self.cases.len();
        add_cases(self);
        for (name, _) in &mut self.cases[first..] {
            *name = format!("{module}::{name}");
        }
    }

    /// Runs the cases selected on the command line (substrings of their names; `--exact`, `--list` and
    /// `--skip WORD` as in `cargo test`; other flags are accepted and ignored).
    pub fn run(self) -> ExitCode {
        let choice = Choice::from_arguments(std::env::args().skip(1));
        if choice.list {
            self.cases
                .iter()
                .filter(|(name, _)| choice.takes(name))
                .for_each(|(name, _)| println!("{name}: test"));
            return ExitCode::SUCCESS;
        }
        let started = Instant::now();
        let all = self.cases.len();
        let chosen: Vec<(String, Body)> = self
            .cases
            .into_iter()
            .filter(|(name, _)| choice.takes(name))
            .collect();
        let filtered = all - chosen.len();
        println!("\nrunning {} tests", chosen.len());
        let (mut passed, mut failed, mut skipped) = (0, Vec::<(String, String)>::new(), 0);
        for (name, body) in chosen {
            let begun = Instant::now();
            let outcome = catch_unwind(AssertUnwindSafe(body));
            let time = seconds(begun.elapsed());
            match outcome {
                Ok(Ok(verdict)) => match verdict.reason() {
                    None => {
                        passed += 1;
                        println!("test {name} ... ok{time}");
                    }
                    Some(reason) => {
                        skipped += 1;
                        println!("test {name} ... ignored, {reason}");
                    }
                },
                Ok(Err(error)) => {
                    println!("{name}: {error:#}");
                    println!("test {name} ... FAILED{time}");
                    failed.push((name, format!("{error:#}")));
                }
                Err(panic) => {
                    println!("test {name} ... FAILED{time}"); // the panic's own message is on standard error
                    failed.push((name, panic_message(&*panic)));
                }
            }
            std::io::stdout().flush().ok();
        }
        if !failed.is_empty() {
            // As `cargo test` does: `cargo xtask test` repeats these sections at its end.
            println!("\nfailures:\n");
            for (name, message) in &failed {
                println!("---- {name} stdout ----\n{message}\n");
            }
            println!("failures:");
            failed.iter().for_each(|(name, _)| println!("    {name}"));
        }
        let word = if failed.is_empty() { "ok" } else { "FAILED" };
        println!(
            "\ntest result: {word}. {passed} passed; {} failed; {skipped} ignored; 0 measured; {filtered} filtered out; finished in {:.2}s\n",
            failed.len(),
            started.elapsed().as_secs_f64()
        );
        if failed.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

/// What a panic said.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("without a message"))
}

/// Whether to reduce randomised and repeated work (`cargo xtask test --quick`).
pub fn is_quick() -> bool {
    std::env::var_os("ISOMER_TEST_QUICK").is_some_and(|value| value != "0" && !value.is_empty())
}

/// The seed of this run: `ISOMER_TEST_SEED`, or a fixed one.
pub fn seed() -> u64 {
    std::env::var("ISOMER_TEST_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1)
}

/// Durations of one second and more are printed.
fn seconds(time: Duration) -> String {
    if time >= Duration::from_secs(1) {
        format!(" ({:.1} s)", time.as_secs_f64())
    } else {
        String::new()
    }
}

#[derive(Default)]
struct Choice {
    words: Vec<String>,
    skips: Vec<String>,
    exact: bool,
    list: bool,
}

impl Choice {
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Self {
        let mut choice = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--exact" => choice.exact = true,
                "--list" => choice.list = true,
                "--skip" => choice.skips.extend(arguments.next()),
                "--test-threads" | "--format" | "--color" | "-Z" => drop(arguments.next()),
                flag if flag.starts_with('-') => {}
                _ => choice.words.push(argument),
            }
        }
        choice
    }

    fn takes(&self, name: &str) -> bool {
        let matches = |word: &String| {
            if self.exact {
                name == word
            } else {
                name.contains(word.as_str())
            }
        };
        (self.words.is_empty() || self.words.iter().any(matches)) && !self.skips.iter().any(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(words: &[&str]) -> Choice {
        Choice::from_arguments(words.iter().map(|word| word.to_string()))
    }

    #[test]
    fn names_begin_with_their_module() {
        let mut harness = Harness::new();
        harness.case("first", || Ok(Verdict::Passed));
        harness.module("files", |harness| {
            harness.case("second", || Ok(Verdict::Passed));
        });
        harness.case("third", || Ok(Verdict::Passed));
        let names: Vec<&str> = harness.cases.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["first", "files::second", "third"]);
    }

    #[test]
    fn cases_are_chosen_as_in_cargo_test() {
        assert!(choice(&["--nocapture", "--test-threads", "1"]).takes("anything"));
        assert!(choice(&["skew"]).takes("write_skew"));
        assert!(!choice(&["skew", "--exact"]).takes("write_skew"));
        assert!(!choice(&["--skip", "write"]).takes("write_skew"));
    }
}
