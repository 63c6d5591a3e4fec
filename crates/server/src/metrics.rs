//! Metrics for Prometheus: counters and histograms of requests by route, and gauges of the rest of the server.
//! Memory: fixed, about 200 bytes a route.
//!
//! The text is written here. Libraries for it keep the counters in their registries, or take structures that are
//! as long to fill as the lines are to write; `prometheus` would add two crates, `prometheus-client` three and another
//! format. Labels need no escapes: they are routes, names of messages, parts and databases (letters, digits, `_`, `-`).

use std::{
    fmt::Write,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use isomer_db::{ProcessMemory, internals::data::MemoryBudget};

use crate::{access::Metric, clock::now_ms, connections::Connections};

/// Upper bounds of the histogram buckets, in microseconds.
const BOUNDS_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 10_000_000, 30_000_000,
];

/// Method and route of requests without a route; the last entry.
const UNMATCHED: (&str, &str) = ("", "none");

/// Metrics of one route.
#[derive(Debug, Default)]
struct OfRoute {
    /// By the first digit of the status: 2xx to 5xx.
    answers: [AtomicU64; 4],
    buckets: [AtomicU64; BOUNDS_US.len()],
    sum_us: AtomicU64,
}

/// All metrics that are counted as they happen.
#[derive(Debug)]
pub struct Metrics {
    started: Instant,
    routes: Vec<(String, OfRoute)>,
    messages: Vec<(String, OfRoute)>,
    /// Failed logins and invalid tokens.
    pub logins_failed: AtomicU64,
    /// Queries that took longer than `log.slow_query`.
    pub slow_queries: AtomicU64,
    /// Transactions that were rolled back because they were not used.
    pub transactions_expired: AtomicU64,
    /// Backups made over the network, and failed ones.
    pub backups: [AtomicU64; 2],
    /// When the last one was made, in ms since 1970; 0: never.
    pub backup_ms: AtomicU64,
}

impl Metrics {
    /// All zero. `routes` are method and path of each route, `messages` the names of the Bolt messages.
    pub fn new<'n>(
        routes: impl Iterator<Item = (&'n str, &'n str)>,
        messages: impl Iterator<Item = &'n str>,
    ) -> Self {
        let route = |(method, path): (&str, &str)| format!("method=\"{method}\",route=\"{path}\"");
        let message = |name: &str| format!("message=\"{name}\"");
        let counted = |labels: String| (labels, OfRoute::default());
        Self {
            started: Instant::now(),
            routes: routes.chain([UNMATCHED]).map(route).map(counted).collect(),
            messages: messages.map(message).map(counted).collect(),
            logins_failed: AtomicU64::new(0),
            slow_queries: AtomicU64::new(0),
            transactions_expired: AtomicU64::new(0),
            backups: Default::default(),
            backup_ms: AtomicU64::new(0),
        }
    }

    /// Counts a request of a route.
    pub fn answered(&self, route: usize, status: u16, took: Duration) {
        if let Some((_, of_route)) = self.routes.get(route) {
            of_route.count(status, took);
        }
    }

    /// Counts a request without a route.
    pub fn unmatched(&self, status: u16) {
        self.answered(self.routes.len() - 1, status, Duration::ZERO);
    }

    /// Counts a backup or a failed one.
    pub fn backed_up(&self, is_made: bool) {
        self.backups[usize::from(!is_made)].fetch_add(1, Ordering::Relaxed);
        if is_made {
            self.backup_ms.store(now_ms(), Ordering::Relaxed);
        }
    }

    /// Counts a Bolt message.
    pub fn message(&self, number: usize, status: u16, took: Duration) {
        if let Some((_, of_message)) = self.messages.get(number) {
            of_message.count(status, took);
        }
    }
}

impl OfRoute {
    fn count(&self, status: u16, took: Duration) {
        let class = usize::from(status / 100).clamp(2, 5) - 2;
        self.answers[class].fetch_add(1, Ordering::Relaxed);
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.sum_us.fetch_add(took_us, Ordering::Relaxed);
        if let Some(at) = BOUNDS_US.iter().position(|bound| took_us <= *bound) {
            self.buckets[at].fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Metrics {
    /// All metrics in the Prometheus text format 0.0.4.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(16 << 10);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        answers(
            &mut text,
            ("isomer_http_requests_total", "isomer_http_request_seconds"),
            (
                "Requests answered, by route and first digit of the status",
                "Time until the answer's head was ready, by route",
            ),
            &self.routes,
        );
        answers(
            &mut text,
            ("isomer_bolt_messages_total", "isomer_bolt_message_seconds"),
            (
                "Bolt messages answered, by name and first digit of the equivalent HTTP status",
                "Time to answer a Bolt message, by name",
            ),
            &self.messages,
        );
        for (name, kind, help, value) in [
            (
                "isomer_logins_failed_total",
                "counter",
                "Failed logins and invalid tokens",
                load(&self.logins_failed),
            ),
            (
                "isomer_slow_queries_total",
                "counter",
                "Queries that took longer than log.slow_query",
                load(&self.slow_queries),
            ),
            (
                "isomer_transactions_expired_total",
                "counter",
                "Open transactions that were rolled back because they were not used",
                load(&self.transactions_expired),
            ),
            (
                "isomer_backups_total",
                "counter",
                "Backups and copies made over the network",
                load(&self.backups[0]),
            ),
            (
                "isomer_backups_failed_total",
                "counter",
                "Backups and copies over the network that failed",
                load(&self.backups[1]),
            ),
            (
                "isomer_backup_last_seconds",
                "gauge",
                "Time of the last backup or copy, in seconds since 1970; 0 if none since the start",
                load(&self.backup_ms) / 1000,
            ),
            (
                "isomer_uptime_seconds",
                "gauge",
                "Time since the start",
                self.started.elapsed().as_secs(),
            ),
        ] {
            sample(&mut text, name, kind, help, value as f64);
        }
        text
    }
}

/// Counters and histograms of one kind of requests.
fn answers(
    text: &mut String,
    (counter, histogram): (&str, &str),
    (counter_help, histogram_help): (&str, &str),
    all: &[(String, OfRoute)],
) {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    header(text, counter, "counter", counter_help);
    for (labels, one) in all {
        for (at, count) in one.answers.iter().enumerate() {
            let count = load(count);
            if count > 0 {
                let _ = writeln!(
                    text,
                    "{counter}{{{labels},status=\"{}xx\"}} {count}",
                    at + 2
                );
            }
        }
    }
    header(text, histogram, "histogram", histogram_help);
    for (labels, one) in all {
        let total: u64 = one.answers.iter().map(load).sum();
        if total == 0 {
            continue;
        }
        let mut below = 0;
        for (bound, count) in BOUNDS_US.iter().zip(&one.buckets) {
            below += load(count);
            let _ = writeln!(
                text,
                "{histogram}_bucket{{{labels},le=\"{}\"}} {below}",
                *bound as f64 / 1e6
            );
        }
        let _ = writeln!(text, "{histogram}_bucket{{{labels},le=\"+Inf\"}} {total}");
        let _ = writeln!(
            text,
            "{histogram}_sum{{{labels}}} {}",
            load(&one.sum_us) as f64 / 1e6
        );
        let _ = writeln!(text, "{histogram}_count{{{labels}}} {total}");
    }
}

fn header(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Appends one metric without labels.
pub fn sample(text: &mut String, name: &str, kind: &str, help: &str, value: f64) {
    header(text, name, kind, help);
    let _ = writeln!(text, "{name} {value}");
}

/// Appends the metrics of connections.
pub fn of_connections(text: &mut String, connections: &Connections) {
    let counts = connections.counts();
    let open = connections.count() as u64;
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    for (name, kind, help, value) in [
        ("isomer_connections", "gauge", "Open connections", open),
        (
            "isomer_connections_evicted_total",
            "counter",
            "Connections closed to make room for others",
            load(&counts.evicted),
        ),
        (
            "isomer_connections_refused_total",
            "counter",
            "Connections refused because of a limit",
            load(&counts.refused),
        ),
        (
            "isomer_connections_address_limited_total",
            "counter",
            "Connections evicted or refused because of the limit per address",
            load(&counts.of_address),
        ),
        (
            "isomer_connections_slow_total",
            "counter",
            "Connections closed because they were too slow",
            load(&counts.slow),
        ),
    ] {
        sample(text, name, kind, help, value as f64);
    }
}

/// Appends memory metrics of the process and its parts.
pub fn of_memory(text: &mut String, process: &ProcessMemory, memory: &MemoryBudget) {
    sample(
        text,
        "isomer_process_resident_bytes",
        "gauge",
        "Bytes of memory of the process",
        process.resident_bytes as f64,
    );
    sample(
        text,
        "isomer_memory_budget_bytes",
        "gauge",
        "Bytes of the memory budget of all databases",
        memory.total_bytes() as f64,
    );
    let name = "isomer_memory_bytes";
    let help = "Bytes of memory by purpose: parts of the budget as reserved, the rest as measured";
    header(text, name, "gauge", help);
    for part in process.parts(|kind| memory.usage(kind).used_bytes) {
        let _ = writeln!(text, "{name}{{part=\"{}\"}} {}", part.name, part.bytes);
    }
}

/// Appends the metrics of databases, grouped by name.
pub fn of_databases(text: &mut String, metrics: &[Metric]) {
    let mut names: Vec<(&str, &str)> = metrics.iter().map(|one| (one.name, one.help)).collect();
    names.sort_unstable();
    names.dedup();
    for (name, help) in names {
        let kind = match name.ends_with("_total") {
            true => "counter",
            false => "gauge",
        };
        header(text, &format!("isomer_database_{name}"), kind, help);
        for one in metrics.iter().filter(|one| one.name == name) {
            let _ = writeln!(
                text,
                "isomer_database_{name}{{database=\"{}\"}} {}",
                one.database, one.value
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_end_with_the_total() {
        let metrics = Metrics::new([("GET", "/health")].into_iter(), ["RUN"].into_iter());
        for micros in [50, 200, 200, 4_000, 60_000_000] {
            metrics.answered(0, 200, Duration::from_micros(micros));
        }
        metrics.answered(0, 404, Duration::from_micros(50));
        metrics.answered(7, 200, Duration::ZERO);
        metrics.message(0, 200, Duration::ZERO);
        let text = metrics.text();
        let labels = "method=\"GET\",route=\"/health\"";
        for line in [
            format!("isomer_http_requests_total{{{labels},status=\"2xx\"}} 5"),
            format!("isomer_http_requests_total{{{labels},status=\"4xx\"}} 1"),
            format!("isomer_http_request_seconds_bucket{{{labels},le=\"0.0001\"}} 2"),
            format!("isomer_http_request_seconds_bucket{{{labels},le=\"0.00025\"}} 4"),
            format!("isomer_http_request_seconds_bucket{{{labels},le=\"30\"}} 5"),
            format!("isomer_http_request_seconds_bucket{{{labels},le=\"+Inf\"}} 6"),
            format!("isomer_http_request_seconds_count{{{labels}}} 6"),
            "isomer_bolt_messages_total{message=\"RUN\",status=\"2xx\"} 1".to_owned(),
        ] {
            assert!(text.lines().any(|has| has == line), "{line}\n{text}");
        }
    }
}
