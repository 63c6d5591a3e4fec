//! What is begun on one thread and goes on without it.

use std::{pin::Pin, thread};

use anyhow::{Context as _, Result};
use futures_channel::oneshot;
use isomer_db::{Database, Error, ErrorKind, Transaction};

/// What is there later.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How often a race may be lost before a thread waits between two trials.
const TRIALS: usize = 20;

/// Runs `work` in a transaction without waiting for its commit; again, where it lost a race. Where the store refuses it
/// otherwise, a thread that can wait does all of it once more, or tells why not.
pub fn transact<T, E, W>(db: Database, mut work: W) -> Later<Result<T>>
where
    T: Send + 'static,
    E: From<Error> + Into<anyhow::Error> + Send + 'static,
    W: FnMut(&mut Transaction) -> Result<T, E> + Send + 'static,
{
    Box::pin(async move {
        for _ in 0..TRIALS {
            let began = db.begin().map_err(E::from).and_then(|mut tx| {
                let value = work(&mut tx)?;
                Ok((value, tx.start_commit()))
            });
            let Ok((value, commit)) = began else { break };
            match commit.await {
                Ok(_) => return Ok(value),
                Err(error) if error.kind() == ErrorKind::Retry => {}
                Err(error) => return Err(error.into()),
            }
        }
        let waits = move || db.transact(work).map_err(Into::into);
        on_thread(waits)?.await.context("the thread panicked")?
    })
}

/// Runs `work` on a thread of its own; nothing comes of a panic.
pub fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<oneshot::Receiver<T>> {
    let (teller, told) = oneshot::channel();
    let run = move || {
        // Nobody may be left to hear of it.
        let _ = teller.send(work());
    };
    let spawned = thread::Builder::new().spawn(run);
    spawned.context("no thread to be had")?;
    Ok(told)
}
