//! Work that is started on one thread and completed without it.

use std::{pin::Pin, thread};

use anyhow::{Context as _, Result};
use futures_channel::oneshot;
use isomerdb::{Database, Error, ErrorKind, WriteTransaction};

/// A future value.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Conflicts after which a thread waits between two attempts.
const TRIALS: usize = 20;

/// Runs `work` in a transaction without blocking on its commit; retries after a conflict. If the store fails
/// otherwise, a blocking thread does all of it again, or reports the error.
pub fn transact<T, E, W>(db: Database, mut work: W) -> Later<Result<T>>
where
    T: Send + 'static,
    E: From<Error> + Into<anyhow::Error> + Send + 'static,
    W: FnMut(&WriteTransaction) -> Result<T, E> + Send + 'static,
{
    Box::pin(async move {
        for _ in 0..TRIALS {
            let began = db.begin().map_err(E::from).and_then(|tx| {
                let value = work(&tx)?;
                Ok((value, tx.start_commit()))
            });
            let Ok((value, commit)) = began else { break };
            match commit.await {
                Ok(_) => return Ok(value),
                Err(error) if error.kind() == ErrorKind::Retry => {}
                Err(error) => return Err(error.into()),
            }
        }
        let waits = move || db.try_transact(work).map_err(Into::into);
        on_thread(waits)?.await.context("the thread panicked")?
    })
}

/// Runs `work` on its own thread; a panic yields `None`.
pub fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<oneshot::Receiver<T>> {
    let (sender, receiver) = oneshot::channel();
    let run = move || {
        // The receiver may have been dropped.
        let _ = sender.send(work());
    };
    let spawned = thread::Builder::new().spawn(run);
    spawned.context("no thread available")?;
    Ok(receiver)
}
