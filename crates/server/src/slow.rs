//! Queries that take long are told in the log.

use std::{sync::atomic::Ordering, time::Duration};

use isomer_db::{Map, redact};

use crate::{access::Access, core::Core};

/// Whether a query that took so long is told of.
pub fn is_slow(core: &Core, took: Duration) -> bool {
    core.config.slow_query.is_some_and(|slow| took >= slow)
}

/// Writes a query without its literals, and its plan without the texts in it, into the log, where it took too long; and what it
/// ended with, where that was no result.
pub fn tell(
    core: &Core,
    access: &Access,
    text: &str,
    parameters: &Map,
    took: Duration,
    error: Option<&str>,
) {
    if !is_slow(core, took) {
        return;
    }
    let plan = access.explain(text, parameters);
    if error.is_some() && plan.is_none() {
        // Perhaps no query at all: who knows what stands in it.
        return;
    }
    core.metrics.slow_queries.fetch_add(1, Ordering::Relaxed);
    let took_ms = took.as_millis() as u64;
    let (user, database) = (&*access.principal().name, &**access.name());
    let query = redact(text);
    let plan = without_texts(&plan.unwrap_or_default());
    tracing::warn!(took_ms, user, database, query, plan, error, "slow query");
}

/// A plan with `?` in place of what stands in quotes.
fn without_texts(plan: &str) -> String {
    let mut shown = String::with_capacity(plan.len());
    let mut quote = None;
    for c in plan.chars() {
        match quote {
            Some(open) if c == open => {
                quote = None;
                shown.push('?');
                shown.push(c);
            }
            Some(_) => {}
            None => {
                if matches!(c, '\'' | '"') {
                    quote = Some(c);
                }
                shown.push(c);
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_in_the_log_show_no_texts() {
        assert_eq!(
            without_texts("Seek p.name = 'Ada' 3 rows"),
            "Seek p.name = '?' 3 rows"
        );
        assert_eq!(without_texts("x = 'open"), "x = '");
    }
}
