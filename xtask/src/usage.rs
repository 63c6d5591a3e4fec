//! Processor time of a child process and of the children that it waited for (Linux; elsewhere unknown).

use std::{fs, time::Duration};

/// Clock ticks per second of `/proc`, on every Linux that Rust supports.
const TICKS_PER_SECOND: u64 = 100;

/// The state of a child that was not waited for yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The process ended and its exit status was not read yet.
    pub has_ended: bool,
    /// Its processor time so far, user and system, with that of its descendants that were waited for.
    pub busy: Duration,
}

/// Reads `/proc/PID/stat`; `None` if it does not exist.
pub fn of_process(id: u32) -> Option<Usage> {
    parse(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
}

/// Processor time of all descendants of this process that were waited for.
pub fn of_children() -> Option<Duration> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    Some(ticks(&fields(&text)?[13..15]))
}

/// Memory that new processes can use, in MiB; `None` if the system does not say.
pub fn available_memory_mib() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib >> 10)
}

fn parse(stat: &str) -> Option<Usage> {
    let fields = fields(stat)?;
    Some(Usage {
        has_ended: matches!(*fields.first()?, "Z" | "X"),
        busy: ticks(fields.get(11..15)?),
    })
}

/// The fields after the name of the program, which may contain spaces and parentheses.
fn fields(stat: &str) -> Option<Vec<&str>> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    (fields.len() > 15).then_some(fields)
}

fn ticks(fields: &[&str]) -> Duration {
    let sum: u64 = fields
        .iter()
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(sum * 1000 / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "17 (a (b) c) Z 1 17 17 0 -1 4194304 100 200 0 0 150 50 25 5 20 0 1 0 99 0 0";

    #[test]
    fn the_time_of_a_process_and_its_children_is_read() {
        let usage = parse(STAT).unwrap();
        assert!(usage.has_ended);
        assert_eq!(usage.busy, Duration::from_millis(2_300));
        let running = parse(&STAT.replace(" Z ", " S ")).unwrap();
        assert!(!running.has_ended);
    }

    #[test]
    fn a_damaged_line_has_no_usage() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("17 (a) Z 1"), None);
    }
}
