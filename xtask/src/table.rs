//! The table at the end of a run: what took how long.

use std::{
    fmt,
    time::{Duration, Instant},
};

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
    tests: u64,
}

impl Row {
    /// A row without tasks.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            span: None,
            work: Duration::ZERO,
            busy: Duration::ZERO,
            tests: 0,
        }
    }

    /// Adds a task that ends now.
    pub fn add(&mut self, started: Instant, busy: Duration, tests: u64) {
        let now = Instant::now();
        let first = self.span.map_or(started, |(first, _)| first.min(started));
        self.span = Some((first, now));
        self.work += now - started;
        self.busy += busy;
        self.tests += tests;
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
    /// the processor time, which the load of others hardly changes.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{:<15} {:>8} {:>8} {:>8} {:>7}",
            "suite", "wall s", "tasks s", "busy s", "tests"
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
            match row.tests {
                0 => writeln!(out)?,
                tests => writeln!(out, " {tests:>7}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_tasks_add_up() {
        let mut row = Row::new("unit");
        let started = Instant::now();
        row.add(started, Duration::from_secs(2), 7);
        row.add(started, Duration::from_secs(1), 3);
        assert_eq!((row.busy, row.tests), (Duration::from_secs(3), 10));
        let (first, last) = row.span.unwrap();
        assert_eq!(first, started);
        assert!(row.work >= last - first);
        let mut table = Table::default();
        table.push(row);
        let text = table.to_string();
        let line = text.lines().nth(1).unwrap();
        assert!(
            line.starts_with("unit ") && line.ends_with(" 3.0      10"),
            "{text}"
        );
    }
}
