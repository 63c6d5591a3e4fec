//! The registry of running queries, for `SHOW QUERIES` and for cancelling one by its number.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use isomer_exec::{CancelHandle, RunningQueries};
use isomer_value::Value;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// The running queries of a database.
#[derive(Debug, Default)]
pub(crate) struct Running {
    next: AtomicU64,
    queries: Mutex<FxHashMap<u64, Arc<RunningQuery>>>,
}

#[derive(Debug)]
pub(crate) struct RunningQuery {
    pub(crate) text: Arc<str>,
    /// Whether its literals are not shown: it may hold a password.
    is_secret: bool,
    /// The user that runs it; empty in a program.
    user: Arc<str>,
    started: Instant,
    cancel: CancelHandle,
    pub(crate) rows: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// A registration of a running query, removed on drop.
pub(crate) struct Registration {
    running: Arc<Running>,
    id: u64,
    pub(crate) query: Arc<RunningQuery>,
}

impl Running {
    pub(crate) fn enter(
        self: &Arc<Self>,
        text: &Arc<str>,
        is_secret: bool,
        user: Arc<str>,
        cancel: CancelHandle,
    ) -> Registration {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let query = Arc::new(RunningQuery {
            text: text.clone(),
            is_secret,
            user,
            started: Instant::now(),
            cancel,
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        });
        self.queries.lock().insert(id, query.clone());
        Registration {
            running: self.clone(),
            id,
            query,
        }
    }

    /// Cancels the query with this number; false if there is none.
    pub(crate) fn cancel(&self, id: u64) -> bool {
        match self.queries.lock().get(&id) {
            Some(query) => {
                query.cancel.cancel();
                true
            }
            None => false,
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.running.queries.lock().remove(&self.id);
    }
}

impl RunningQueries for Running {
    fn kill(&self, id: &Value) -> bool {
        let id = id.as_int().and_then(|id| u64::try_from(id).ok());
        id.is_some_and(|id| self.cancel(id))
    }

    fn list(&self) -> Vec<[Value; 6]> {
        let mut queries: Vec<(u64, Arc<RunningQuery>)> = self
            .queries
            .lock()
            .iter()
            .map(|(id, query)| (*id, query.clone()))
            .collect();
        queries.sort_unstable_by_key(|(id, _)| *id);
        let number = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
        queries
            .into_iter()
            .map(|(id, query)| {
                let elapsed_ms =
                    u64::try_from(query.started.elapsed().as_millis()).unwrap_or(u64::MAX);
                let (rows, bytes) = (
                    query.rows.load(Ordering::Relaxed),
                    query.bytes.load(Ordering::Relaxed),
                );
                [
                    number(id),
                    match query.is_secret {
                        true => isomer_cypher::redact(&query.text).into(),
                        false => Value::String(query.text.clone()),
                    },
                    number(elapsed_ms),
                    number(rows),
                    number(bytes),
                    Value::String(query.user.clone()),
                ]
            })
            .collect()
    }
}
