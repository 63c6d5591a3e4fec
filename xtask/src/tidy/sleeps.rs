//! Tests that sleep. A test that waits for an event awaits it (`poll` of the testkit, a channel, the end of a thread);
//! one that sleeps for another reason says which.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Result;

use super::{limits::Limit, rust_text::RustText};
use crate::workspace;

/// How many lines above the call a comment with the reason may begin.
const REASON_LINES: usize = 3;

const SLEEPS: Limit = Limit {
    unit: "sleeps in tests without a comment that gives the reason",
    most: 0,
    exceptions: &[],
    file: file!(),
};

/// Crates with tests that sleep without a reason.
pub fn without_reason() -> Result<Vec<String>> {
    let mut figures: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in workspace::tracked_files()? {
        let Some(name) = crate_of_tests(&file) else {
            continue;
        };
        let text = fs::read_to_string(workspace::root().join(&file))?;
        let lines = sleeping_lines(&text).into_iter();
        let places = lines.map(|line| format!("{}:{line}", file.display()));
        figures.entry(name).or_default().extend(places);
    }
    let counts = figures.iter().map(|(name, places)| (places.len(), name));
    let mut problems = SLEEPS.problems(counts);
    for problem in &mut problems {
        let (name, _) = problem.split_once(':').unwrap_or_default();
        let places = figures.get(name).map(|places| places.join(", "));
        *problem += &format!(" ({})", places.unwrap_or_default());
    }
    Ok(problems)
}

/// The crate of a file with tests alone.
fn crate_of_tests(file: &Path) -> Option<String> {
    let text = file.to_str()?;
    let is_tests =
        text.ends_with(".rs") && (text.contains("/tests/") || text.ends_with("/tests.rs"));
    let mut folders = text.split('/');
    let parent = folders.next()?;
    let is_crate = matches!(parent, "crates" | "examples");
    (is_tests && is_crate).then(|| folders.next().map(str::to_owned))?
}

/// The lines, from 1, that call `sleep` and have no comment on them or closely above.
fn sleeping_lines(text: &str) -> Vec<usize> {
    let parts = RustText::split(text);
    let calls = (1..)
        .zip(parts.code.lines())
        .filter(|(_, code)| code.contains("sleep(") && !code.contains("fn sleep("));
    let has_reason = |line: usize| {
        let near = line.saturating_sub(REASON_LINES)..=line;
        parts.comments.iter().any(|(at, _)| near.contains(at))
    };
    calls
        .map(|(line, _)| line)
        .filter(|line| !has_reason(*line))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_has_a_reason_closely_above() {
        let code = |lines: &[&str]| sleeping_lines(&lines.join("\n"));
        assert_eq!(code(&["fn a() {", "    thread::sleep(pause);"]), [2]);
        assert_eq!(
            code(&["    // A slow client.", "    sleep(pause);"]),
            [0; 0]
        );
        assert_eq!(code(&["// Far away.", "", "", "", "sleep(pause);"]), [5]);
        assert_eq!(code(&["fn sleep(&self) {", "let x = \"sleep(\";"]), [0; 0]);
    }

    #[test]
    fn files_of_tests_belong_to_their_crate() {
        let of = |file: &str| crate_of_tests(Path::new(file));
        assert_eq!(of("crates/lsm/src/log/tests.rs").as_deref(), Some("lsm"));
        assert_eq!(
            of("examples/chat/tests/stores/main.rs").as_deref(),
            Some("chat")
        );
        assert_eq!(of("crates/lsm/src/core.rs"), None);
        assert_eq!(of("tests/drivers/java/Suite.java"), None);
    }
}
