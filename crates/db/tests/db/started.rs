//! Asynchronous commits.

use std::{
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use isomer_db::{
    Database, ErrorKind, PendingCommit, Result,
    internals::{
        DatabaseInternals as _,
        bulk::{BulkNode, BulkOptions, load_nodes},
    },
    params,
};

use isomer_testkit::second_process;

use crate::place;

/// A thread that sleeps until it is woken.
struct Sleeper(thread::Thread);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn awaited<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Sleeper(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn started(db: &Database, query: &str, key: i64) -> Result<PendingCommit> {
    let tx = db.begin()?;
    tx.query((query, params! { "key" => key }))?;
    Ok(tx.start_commit())
}

const CREATE: &str = "CREATE (:User {_key: $key, visits: 0})";
const VISIT: &str = "MATCH (u:User {_key: $key}) SET u.visits = u.visits + 1";

/// One thread has many commits in progress; each is visible when it has completed, and all exist after reopening.
#[test]
fn one_thread_has_many_commits_in_progress() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("users.isomer");
    let db = place::open(&path)?;
    let commits: Vec<PendingCommit> = (0..200)
        .map(|key| started(&db, CREATE, key))
        .collect::<Result<_>>()?;
    for (key, commit) in (0i64..).zip(commits) {
        awaited(commit)?;
        let found = db.query((
            "MATCH (u:User {_key: $key}) RETURN u",
            params! { "key" => key },
        ))?;
        assert_eq!(found.len(), 1);
    }
    drop(db);
    let db = place::open(&path)?;
    let users: i64 = db
        .query("MATCH (u:User) RETURN count(u) AS users")?
        .single()?
        .get("users")?;
    assert_eq!(users, 200);
    Ok(())
}

/// Of two transactions that changed what both had read, the second one gets `Retry`, as with
/// [`isomer_db::WriteTransaction::commit`].
#[test]
fn a_conflict_is_reported_when_the_commit_ends() -> Result<()> {
    let db = place::open_empty()?;
    db.query((CREATE, params! { "key" => 1 }))?;
    let late = db.begin()?;
    late.query((VISIT, params! { "key" => 1 }))?;
    awaited(started(&db, VISIT, 1)?)?;
    let error = awaited(late.start_commit()).expect_err("the first one changed it");
    assert_eq!(error.kind(), ErrorKind::Retry);
    let read = db.begin()?;
    awaited(read.start_commit())?;
    Ok(())
}

/// A commit whose future is dropped takes effect nonetheless, and a concurrent bulk load does not wait for one that was
/// never polled.
#[test]
fn a_forgotten_commit_takes_place() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let db = place::open(folder.path().join("users.isomer"))?;
    drop(started(&db, CREATE, 1)?);
    assert_eq!(db.query("MATCH (u:User) RETURN u")?.len(), 1);

    if second_process::needs_alone("a bulk load") {
        return Ok(());
    }
    let asked_later = started(&db, CREATE, 2)?;
    let (sender, loaded) = mpsc::channel();
    let loading = db.clone();
    thread::spawn(move || {
        let user = BulkNode {
            row: 1,
            properties: params! { "_key" => 3 },
        };
        let store = loading.store().expect("it is open");
        let (mut rows, options) = ([Ok(user)].into_iter(), BulkOptions::default());
        let outcome = load_nodes(&store, "Loaded", &options, &mut rows, &mut ());
        sender.send(outcome.map(drop)).expect("the receiver waits");
    });
    let outcome = loaded.recv_timeout(Duration::from_secs(60));
    outcome.expect("it does not wait").expect("it loads");
    awaited(asked_later)?;
    assert_eq!(db.query("MATCH (u:User) RETURN u")?.len(), 2);
    Ok(())
}
