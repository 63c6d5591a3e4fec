//! Transactions of IsomerDB whose commits nobody waits for.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Wake, Waker},
    thread,
};

use isomer_db::{Database, Error, ErrorKind, Transaction};

/// Runs `work` in a transaction and begins its commit; `done` is called with the outcome, here or where the commit ends.
/// Where anything goes wrong, a lost race above all, all of it is done again by a thread that can wait.
pub fn transact_then<T, E, W, D>(db: &Database, mut work: W, done: D)
where
    T: Send + 'static,
    E: From<Error> + Send + 'static,
    W: FnMut(&mut Transaction) -> Result<T, E> + Send + 'static,
    D: FnOnce(Result<T, E>) + Send + 'static,
{
    let began = db.begin().map_err(E::from).and_then(|mut tx| {
        let value = work(&mut tx)?;
        Ok((value, tx.start_commit()))
    });
    let Ok((value, commit)) = began else {
        return again(db.clone(), work, done);
    };
    let db = db.clone();
    run(async move {
        match commit.await {
            Ok(_) => done(Ok(value)),
            Err(error) if error.kind() == ErrorKind::Retry => again(db, work, done),
            Err(error) => done(Err(error.into())),
        }
    });
}

fn again<T, E, W, D>(db: Database, work: W, done: D)
where
    E: From<Error>,
    W: FnMut(&mut Transaction) -> Result<T, E> + Send + 'static,
    D: FnOnce(Result<T, E>) + Send + 'static,
{
    // Without a thread `done` is dropped uncalled: who is to be answered hears that the server failed.
    if let Err(error) = thread::Builder::new().spawn(move || done(db.transact(work))) {
        eprintln!("no thread to run a transaction again: {error}");
    }
}

/// Goes on with a future where it is woken.
struct Running(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);

fn run(future: impl Future<Output = ()> + Send + 'static) {
    Arc::new(Running(Mutex::new(Some(Box::pin(future))))).wake();
}

impl Wake for Running {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One that panics is dropped, and so is what it was to call: who waits for that hears that the server failed.
        if let Some(mut future) = slot.take()
            && future
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        {
            *slot = Some(future);
        }
    }
}
