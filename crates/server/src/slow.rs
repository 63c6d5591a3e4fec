//! Queries that take long are told in the log.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use isomer_db::redact;

use crate::{
    access::{Access, Outlines},
    core::Core,
};

/// Whether a query that took so long is told of.
pub fn is_slow(core: &Core, took: Duration) -> bool {
    core.config.slow_query.is_some_and(|slow| took >= slow)
}

/// Writes a query and its plan, both without the literals in them, into the log, where it took too long; and what it ended with,
/// where that was no result.
pub fn tell(core: &Core, access: &Access, text: &str, took: Duration, error: Option<&str>) {
    if is_slow(core, took) {
        write(core, &access.outlines(), text, took, error);
    }
}

/// As [`tell`], on a thread that may wait: to tell is to plan the query once more.
pub fn tell_later(
    core: &Arc<Core>,
    access: &Access,
    text: String,
    took: Duration,
    error: Option<&'static str>,
) {
    if !is_slow(core, took) {
        return;
    }
    let (core, outlines) = (core.clone(), access.outlines());
    let is_stopping = core.is_stopping();
    let tell = move || write(&core, &outlines, &text, took, error);
    match tokio::runtime::Handle::try_current() {
        // One that ends begins nothing any more.
        Ok(runtime) if !is_stopping => drop(runtime.spawn_blocking(tell)),
        _ => tell(),
    }
}

fn write(core: &Core, outlines: &Outlines, text: &str, took: Duration, error: Option<&str>) {
    let plan = outlines.of(text);
    if error.is_some() && plan.is_none() {
        // Perhaps no query at all: who knows what stands in it.
        return;
    }
    core.metrics.slow_queries.fetch_add(1, Ordering::Relaxed);
    let took_ms = took.as_millis() as u64;
    let (user, database) = (&*outlines.principal.name, &*outlines.database);
    let query = redact(text);
    let plan = plan.unwrap_or_default();
    tracing::warn!(took_ms, user, database, query, plan, error, "slow query");
}
