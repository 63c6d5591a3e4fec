//! Continuous exchange with the peers of all served databases.
//!
//! A database exchanges soon after a commit, and every few seconds in any case. Unreachable peers are retried with
//! exponential back-off, up to a minute; quarantined ones are skipped.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use isomer_db::{Builder, internals::data::Version};
use isomer_sync::{Cause, peers, sync_once};

use crate::{access::Databases, core::Core};

/// Interval of checks for new commits.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Interval of exchanges without commits.
const EXCHANGE_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum back-off for a peer that cannot be reached.
const MAX_BACK_OFF: Duration = Duration::from_secs(60);

/// The replication thread. Stops when this is dropped.
pub(crate) struct Replicating {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Replicating {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic was reported by the panic hook.
            let _ = thread.join();
        }
    }
}

/// When a peer is contacted next.
struct PeerSchedule {
    at: Instant,
    version: Version,
    wait: Duration,
}

/// Starts the thread.
pub(crate) fn start(core: &Arc<Core>, builder: Builder) -> std::io::Result<Replicating> {
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, core) = (stop.clone(), Arc::downgrade(core));
    let thread = std::thread::Builder::new()
        .name("isomer-sync".into())
        .spawn(move || {
            let mut turns = HashMap::new();
            while !stopped.load(Ordering::Acquire) {
                let Some(core) = core.upgrade() else { return };
                exchange_due(&core.databases, &builder, &mut turns, &stopped);
                drop(core);
                std::thread::park_timeout(CHECK_INTERVAL);
            }
        })?;
    Ok(Replicating {
        stop,
        thread: Some(thread),
    })
}

fn exchange_due(
    databases: &Databases,
    builder: &Builder,
    turns: &mut HashMap<(Arc<str>, String), PeerSchedule>,
    stop: &AtomicBool,
) {
    for (name, store) in databases.replicated() {
        let Ok(all) = peers(&store) else { continue };
        for peer in all.iter().filter(|peer| !peer.state.is_quarantined) {
            if stop.load(Ordering::Acquire) {
                return;
            }
            let now = Instant::now();
            let turn = turns
                .entry((name.clone(), peer.name.clone()))
                .or_insert_with(|| PeerSchedule {
                    at: now,
                    version: 0,
                    wait: EXCHANGE_INTERVAL,
                });
            let version = store.engine().version();
            let news = version != turn.version && turn.wait == EXCHANGE_INTERVAL;
            if now < turn.at && !news {
                continue;
            }
            match sync_once(&store, peer, builder, &mut |_| ()) {
                Ok(done) => {
                    turn.wait = EXCHANGE_INTERVAL;
                    if let Some(held) = done.held_text()
                        && peer.state.cause != Some(Cause::Clock)
                    {
                        tracing::warn!(
                            database = &*name,
                            peer = peer.name,
                            held,
                            "not all was exchanged"
                        );
                    }
                    if done.received + done.sent > 0 {
                        tracing::debug!(
                            database = &*name,
                            peer = peer.name,
                            received = done.received,
                            sent = done.sent,
                            "transactions were exchanged"
                        );
                    }
                }
                Err(error) => {
                    turn.wait = (turn.wait * 2).min(MAX_BACK_OFF);
                    tracing::warn!(database = &*name, peer = peer.name, %error, "no exchange");
                }
            }
            turn.at = Instant::now() + turn.wait;
            turn.version = store.engine().version();
        }
    }
}
