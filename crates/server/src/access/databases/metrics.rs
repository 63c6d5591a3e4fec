//! Metrics of the databases that are served, for `/metrics`.

use std::sync::Arc;

use isomer_db::{MemoryKind, internals::DatabaseInternals as _};

use super::Databases;

/// A metric of a database.
pub struct Metric {
    /// The database.
    pub database: Arc<str>,
    /// Name of the metric without the prefix `isomer_database_`.
    pub name: &'static str,
    /// Help text.
    pub help: &'static str,
    /// Current value.
    pub value: f64,
}

impl Databases {
    /// Metrics of each database for `/metrics`.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = Vec::new();
        for one in self.open() {
            let mut add = |name, help, value| {
                metrics.push(Metric {
                    database: one.name.clone(),
                    name,
                    help,
                    value,
                });
            };
            if let Ok(store) = one.db.store() {
                of_engine(&store, &mut add);
                of_replication(&store, &mut add);
            }
            let views = one.db.views().status();
            let standing = views.iter().filter(|view| view.bytes > 0);
            let bytes: u64 = standing.clone().map(|view| view.bytes).sum();
            let changes: u64 = views.iter().map(|view| view.delta_count).sum();
            add(
                "views_standing",
                "Read views in memory",
                standing.count() as f64,
            );
            add("views_bytes", "Bytes of these read views", bytes as f64);
            add(
                "views_changes",
                "Changes in the deltas of read views, not yet merged into their bases",
                changes as f64,
            );
        }
        metrics
    }
}

/// Metrics that an engine reports under its own name, with their name and help text here.
const ENGINE_METRICS: [(&str, &str, &str); 15] = [
    ("cache_hits", "cache_hits_total", "Hits of the block cache"),
    (
        "cache_misses",
        "cache_misses_total",
        "Misses of the block cache",
    ),
    (
        "cache_bytes",
        "cache_bytes",
        "Bytes in the block cache, or its capacity if the engine does not report them",
    ),
    (
        "pinned_bytes",
        "cache_pinned_bytes",
        "Bytes of filters and indexes of tables (kept in memory)",
    ),
    (
        "runs",
        "compaction_runs",
        "Sorted runs; a read may search each of them",
    ),
    (
        "compaction_backlog_bytes",
        "compaction_backlog_bytes",
        "Bytes of runs that wait for a compaction or are in one",
    ),
    (
        "compacted_bytes",
        "compaction_written_bytes_total",
        "Bytes of tables written by compactions",
    ),
    (
        "flushed_bytes",
        "flush_written_bytes_total",
        "Bytes of tables written by flushes",
    ),
    (
        "sealed_memtables",
        "sealed_memtables",
        "Sealed memtables that wait to be flushed",
    ),
    ("memtable_bytes", "memtable_bytes", "Bytes of memtables"),
    (
        "slowed_ms",
        "writers_slowed_ms_total",
        "Milliseconds for which writers were stalled because flushes or compactions lagged",
    ),
    (
        "log_bytes",
        "log_bytes",
        "Bytes of the write-ahead log on disk",
    ),
    ("table_bytes", "table_bytes", "Bytes of tables on disk"),
    (
        "value_bytes",
        "value_bytes",
        "Bytes of blob files (large values)",
    ),
    ("commit_groups", "commit_groups_total", "Commit groups"),
];

/// Metrics of an engine.
fn of_engine(
    store: &isomer_db::internals::data::DataStore,
    add: &mut impl FnMut(&'static str, &'static str, f64),
) {
    add(
        "version",
        "Version of the last commit",
        store.engine().version() as f64,
    );
    for (name, help, kind) in [
        (
            "memory_engine_cache_bytes",
            "Bytes of the memory budget that are reserved for the engine's cache, used or not",
            MemoryKind::EngineCache,
        ),
        (
            "memory_views_bytes",
            "Bytes of the memory budget that read views hold",
            MemoryKind::Views,
        ),
        (
            "memory_queries_bytes",
            "Bytes of the memory budget that queries hold",
            MemoryKind::Queries,
        ),
        (
            "memory_import_bytes",
            "Bytes of the memory budget that imports hold",
            MemoryKind::Import,
        ),
        (
            "memory_write_sets_bytes",
            "Bytes of the memory budget that write sets of transactions hold",
            MemoryKind::Writes,
        ),
        (
            "memory_memtables_bytes",
            "Bytes of the memory budget that are reserved for commits that are not in tables yet",
            MemoryKind::Memtables,
        ),
    ] {
        let usage = store.memory().usage(kind);
        add(name, help, usage.used_bytes as f64);
    }
    let Ok(statistics) = store.engine().statistics() else {
        return;
    };
    for (name, help, value) in [
        (
            "keys",
            "Pairs that are stored, an estimate where there are many",
            statistics.key_count,
        ),
        (
            "stored_bytes",
            "Bytes on disk, or in memory without a disk",
            statistics.stored_bytes,
        ),
        ("commits_total", "Commits", statistics.commits),
        (
            "syncs_total",
            "Syncs of the write-ahead log (shared by group commits)",
            statistics.syncs,
        ),
        (
            "conflicts_total",
            "Transactions that failed with a conflict",
            statistics.conflicts,
        ),
        (
            "change_stream_entries",
            "Commits in the change stream",
            statistics.stream_entries,
        ),
    ] {
        add(name, help, value as f64);
    }
    for (own, name, help) in ENGINE_METRICS {
        let found = statistics.details.iter().find(|(detail, _)| detail == own);
        if let Some(value) = found.and_then(|(_, value)| value.parse::<f64>().ok()) {
            add(name, help, value);
        }
    }
}

/// Peers of a replica, and how far the others lag as far as this one knows; nothing for a database that is not a
/// replica.
fn of_replication(
    store: &isomer_db::internals::data::DataStore,
    add: &mut impl FnMut(&'static str, &'static str, f64),
) {
    if !store.is_replicated() {
        return;
    }
    if let Ok(peers) = isomer_sync::peers(store) {
        let failing = peers.iter().filter(|peer| peer.state.error.is_some());
        let quarantined = peers.iter().filter(|peer| peer.state.is_quarantined);
        let exchanged = peers.iter().map(|peer| peer.state.exchanged_ms).min();
        add("replication_peers", "Replication peers", peers.len() as f64);
        add(
            "replication_peers_failing",
            "Peers whose last exchange failed",
            failing.count() as f64,
        );
        add(
            "replication_peers_quarantined",
            "Quarantined peers, which an operator must clear",
            quarantined.count() as f64,
        );
        if let Some(ms) = exchanged.filter(|ms| *ms > 0) {
            let since = crate::clock::now_ms().saturating_sub(ms);
            add(
                "replication_oldest_exchange_seconds",
                "Longest time since the last exchange with any peer; updated once a minute",
                since as f64 / 1e3,
            );
        }
    }
    if let Ok(members) = isomer_replication::replica_members(store) {
        let others = members.iter().filter(|member| !member.is_evicted);
        let lacks = others.clone().map(|member| member.lacks).max();
        let away = others.clone().filter(|member| member.is_away);
        add(
            "replication_members",
            "Other known replicas",
            others.clone().count() as f64,
        );
        add(
            "replication_members_away",
            "Replicas that were out of contact for so long that they need a state transfer",
            away.count() as f64,
        );
        add(
            "replication_behind_transactions",
            "Highest number of transactions that another replica lacked at the last contact",
            lacks.unwrap_or_default() as f64,
        );
    }
}
