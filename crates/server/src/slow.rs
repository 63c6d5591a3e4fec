//! The slow-query log.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use isomer_db::internals::redact;

use crate::{
    access::{DatabaseAccess, Outlines},
    core::Core,
};

/// Whether a query that took this long is logged.
pub fn is_slow(core: &Core, took: Duration) -> bool {
    core.config.slow_query.is_some_and(|slow| took >= slow)
}

/// Logs a query and its plan, both with literals removed, if it took too long; and its error, if any.
pub fn log(core: &Core, access: &DatabaseAccess, text: &str, took: Duration, error: Option<&str>) {
    if is_slow(core, took) {
        write(core, &access.outlines(), text, took, error);
    }
}

/// Like [`log`], on a blocking thread: logging plans the query again.
pub fn log_later(
    core: &Arc<Core>,
    access: &DatabaseAccess,
    text: String,
    took: Duration,
    error: Option<&'static str>,
) {
    if !is_slow(core, took) {
        return;
    }
    let (core, outlines) = (core.clone(), access.outlines());
    let is_stopping = core.is_stopping();
    let log = move || write(&core, &outlines, &text, took, error);
    match tokio::runtime::Handle::try_current() {
        // During shutdown nothing new is started.
        Ok(runtime) if !is_stopping => drop(runtime.spawn_blocking(log)),
        _ => log(),
    }
}

fn write(core: &Core, outlines: &Outlines, text: &str, took: Duration, error: Option<&str>) {
    let plan = outlines.of(text);
    if error.is_some() && plan.is_none() {
        // It cannot be parsed, so its text must not be logged: it may contain anything.
        return;
    }
    core.metrics.slow_queries.fetch_add(1, Ordering::Relaxed);
    let took_ms = took.as_millis() as u64;
    let (user, database) = (&*outlines.principal.name, &*outlines.database);
    let query = redact(text);
    let plan = plan.unwrap_or_default();
    tracing::warn!(took_ms, user, database, query, plan, error, "slow query");
}
