//! The table at the end of a run: what took how long, and what did not run, with the reason.

use std::{
    fmt,
    time::{Duration, Instant},
};

use crate::tally::Tally;

/// A suite or a build.
#[derive(Clone, Debug)]
pub struct Row {
    name: String,
    /// First start and last end.
    span: Option<(Instant, Instant)>,
    /// Sum of the durations of its tasks, which may run in parallel.
    work: Duration,
    /// Processor time.
    busy: Duration,
    passed: u64,
    failed: u64,
    skipped: u64,
    /// Why tests did not run.
    reasons: Vec<String>,
}

impl Row {
    /// A row without tasks.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            span: None,
            work: Duration::ZERO,
            busy: Duration::ZERO,
            passed: 0,
            failed: 0,
            skipped: 0,
            reasons: Vec::new(),
        }
    }

    /// Adds the results of a suite.
    pub fn count(&mut self, tally: &Tally) {
        self.passed += tally.passed;
        self.failed += tally.failed;
        self.skipped += tally.skipped();
        let reasons = tally.skips.iter();
        self.reasons
            .extend(reasons.map(|(name, missing)| format!("{name}: {}", missing.reason)));
    }

    /// Adds a reason for which the whole suite did not run.
    pub fn skip(&mut self, reason: &str) {
        self.skipped += 1;
        self.reasons.push(reason.to_owned());
    }

    /// Adds a task that ends now.
    pub fn add(&mut self, started: Instant, busy: Duration) {
        let now = Instant::now();
        let first = self.span.map_or(started, |(first, _)| first.min(started));
        self.span = Some((first, now));
        self.work += now - started;
        self.busy += busy;
    }
}

/// All rows, in the order in which they ended.
#[derive(Default)]
pub struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Adds a row.
    pub fn push(&mut self, row: Row) {
        self.rows.push(row);
    }
}

impl fmt::Display for Table {
    /// `wall` is the time from the first start to the last end, `tasks` the sum of the durations of its tasks, `busy`
    /// the processor time, which the load of others hardly changes. Reasons of skips follow their suite.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{:<15} {:>8} {:>8} {:>8} {:>7} {:>7} {:>8}",
            "suite", "wall s", "tasks s", "busy s", "passed", "failed", "skipped"
        )?;
        for row in &self.rows {
            let wall = row
                .span
                .map_or(Duration::ZERO, |(first, last)| last - first);
            write!(
                out,
                "{:<15} {:>8.1} {:>8.1} {:>8.1}",
                row.name,
                wall.as_secs_f64(),
                row.work.as_secs_f64(),
                row.busy.as_secs_f64()
            )?;
            match (row.passed, row.failed, row.skipped) {
                // A build.
                (0, 0, 0) => writeln!(out)?,
                (passed, failed, skipped) => {
                    writeln!(out, " {passed:>7} {failed:>7} {skipped:>8}")?;
                }
            }
            for reason in &row.reasons {
                writeln!(out, "  skipped: {reason}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::needs::Missing;

    #[test]
    fn parallel_tasks_add_up() {
        let mut row = Row::new("unit");
        let started = Instant::now();
        row.add(started, Duration::from_secs(2));
        row.add(started, Duration::from_secs(1));
        assert_eq!(row.busy, Duration::from_secs(3));
        let mut tally = Tally::single("deep", true);
        tally
            .skips
            .push(("nets".to_owned(), Missing::tolerated("there is no `ip`")));
        row.count(&tally);
        let (first, last) = row.span.unwrap();
        assert_eq!(first, started);
        assert!(row.work >= last - first);
        let mut table = Table::default();
        table.push(row);
        let text = table.to_string();
        let line = text.lines().nth(1).unwrap();
        assert!(
            line.starts_with("unit ") && line.ends_with(" 3.0       1       0        1"),
            "{text}"
        );
        let reason = text.lines().nth(2).unwrap();
        assert_eq!(reason, "  skipped: nets: there is no `ip`");
    }

    #[test]
    fn a_suite_that_did_not_run_is_listed_with_the_reason() {
        let mut row = Row::new("drivers");
        row.skip("`go` is not installed: apt-get install golang-go");
        let mut table = Table::default();
        table.push(row);
        let text = table.to_string();
        let last: Vec<&str> = text.lines().skip(1).collect();
        assert!(last[0].ends_with(" 0       0        1"), "{text}");
        assert_eq!(
            last[1],
            "  skipped: `go` is not installed: apt-get install golang-go"
        );
    }
}
