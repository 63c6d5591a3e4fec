//! The change feed: what every commit changed, as server-sent events.
//!
//! An event's id is the version of its commit: a client that reconnects with `Last-Event-ID` (or `from`) misses
//! nothing and gets no fully delivered commit twice, as long as the change stream still has what it missed; otherwise
//! the answer is 410. Only durable commits are sent.

mod describe;

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use axum::body::Bytes;
use futures_util::stream;
use isomer_db::{
    Value,
    internals::data::{Access as Mode, ChangeSet, DataError, Version},
    json, params,
};
use tokio::sync::watch;

use self::describe::{Describer, Filter};
use super::{alive, call::Call, credentials::RequestCredentials, reply::Reply};
use crate::{
    Result, ServerError,
    access::DatabaseAccess,
    core::{Core, FeedSlot},
    feed::Newest,
};

/// Longest pause between checks whether an announced commit has become durable.
const MAX_PAUSE: Duration = Duration::from_millis(100);
/// Entries read at once.
pub(super) const ENTRIES: usize = 64;
/// Bytes of entries read at once.
pub(super) const BYTES: usize = 1 << 20;
/// Changes per event: a larger commit is sent as several, of which the last has the id.
const CHANGES: usize = 1_000;

/// `GET …/changes`
pub async fn changes(call: Call, mut access: DatabaseAccess) -> Result<Reply> {
    access.open_result()?;
    let place = call.core.feed_slot()?;
    let resumed = call.header("last-event-id")?.map(|id| {
        id.parse()
            .map_err(|_| ServerError::Invalid("Last-Event-ID must be the id of an event".into()))
    });
    let from = match resumed {
        Some(id) => Some(id?),
        None => call.number_param("from")?,
    };
    let set = |name| call.names(name).into_iter().collect::<HashSet<_>>();
    let filter = Filter {
        labels: set("labels"),
        types: set("types"),
        buckets: set("buckets"),
    };
    let credentials = RequestCredentials::of(&call, &access)?;
    let newest = access.feed().subscribe();
    let core = call.core.clone();
    let right = credentials.clone();
    let feed = core
        .clone()
        .blocking(move || {
            let store = access.store()?;
            let now = store.engine().version();
            let from = from.unwrap_or(now);
            if from > now {
                return Err(ServerError::Invalid(format!("version {from} does not exist yet: the newest is {now}")));
            }
            // Retains the stream from here, so that a reader that is not too slow misses nothing.
            let hold = store.change_stream().hold(from);
            if from < now && store.change_stream().check_changes_since(from).is_err() {
                return Err(ServerError::Gone(format!(
                    "the changes since version {from} are no longer kept: read the data again, then follow from version {now}"
                )));
            }
            drop(store);
            access.pause(0);
            let start = format!("event: start\nid: {from}\ndata: {{\"version\":{from}}}\n\n");
            Ok(Following {
                core,
                access,
                credentials: right,
                newest,
                filter,
                at: from,
                ready: VecDeque::from([Bytes::from(start)]),
                hold,
                is_over: false,
                _slot: place,
            })
        })
        .await?;
    let events = stream::try_unfold(feed, Following::next);
    Ok(alive::feed(call.core.clone(), credentials, events))
}

/// A reader of the feed.
struct Following {
    core: Arc<Core>,
    access: DatabaseAccess,
    credentials: RequestCredentials,
    newest: watch::Receiver<Newest>,
    filter: Filter,
    /// The version up to which everything was sent.
    at: Version,
    ready: VecDeque<Bytes>,
    /// Retains the stream after [`Following::at`].
    hold: isomer_db::internals::data::StreamHold,
    /// Whether the last event was sent.
    is_over: bool,
    _slot: FeedSlot,
}

impl Following {
    /// The next event; `None` if the database is closed.
    async fn next(mut self) -> Result<Option<(Bytes, Self)>> {
        let mut backoff = Backoff::default();
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some((event, self)));
            }
            if self.is_over {
                return Ok(None);
            }
            let newest = *self.newest.borrow_and_update();
            let target = match newest {
                Newest::Closed => return Ok(None),
                Newest::Version(version) => version,
            };
            if target > self.at {
                let core = self.core.clone();
                let before = self.at;
                self = core.background(move || self.read()).await?;
                // Without progress, the announced commit is not durable yet.
                match self.at == before && !self.is_over {
                    true => backoff.wait(&mut self.newest).await,
                    false => backoff = Backoff::default(),
                }
            } else if self.newest.changed().await.is_err() {
                return Ok(None);
            }
        }
    }

    /// Reads the stream after [`Following::at`]; between two reads it does not count as a request.
    fn read(mut self) -> Result<Self> {
        let outcome = self.access.resume().and_then(|()| self.read_entries());
        self.access.pause(0);
        match outcome {
            // At the concurrency limit: retry later.
            Ok(()) | Err(ServerError::TooMany { .. }) => Ok(self),
            Err(error) => Err(error),
        }
    }

    fn read_entries(&mut self) -> Result<()> {
        self.credentials.check(&self.core)?;
        let store = self.access.store()?;
        let mut at = self.at;
        let entries = match store
            .while_whole(|| store.change_stream().durable_after(&mut at, ENTRIES, BYTES))
        {
            Ok(Some(entries)) => entries,
            Ok(None) => return Ok(()),
            Err(error @ DataError::Forgotten { .. }) => return self.send_gone(&error),
            Err(error) => return Err(error.into()),
        };
        self.at = at;
        if entries.is_empty() {
            return Ok(());
        }
        let tx = store.begin(Mode::Read)?;
        for entry in entries {
            let describer = Describer::new(&self.filter, &tx);
            let mut changes = Vec::new();
            for change in ChangeSet::changes_in(&entry.bytes)? {
                if let Some(change) = describer.describe(&change?)? {
                    changes.push(Value::from(change));
                }
            }
            self.at = entry.version;
            let pieces = changes.chunks(CHANGES).count();
            for (piece, changes) in changes.chunks(CHANGES).enumerate() {
                let data =
                    params! { "version" => entry.version as i64, "changes" => changes.to_vec() };
                let data = json::to_string(&data.into())?;
                // Only the last piece has the id: a client that resumes from an incomplete commit gets all of it again.
                let id = if piece + 1 == pieces {
                    format!("id: {}\n", entry.version)
                } else {
                    String::new()
                };
                self.ready
                    .push_back(Bytes::from(format!("event: commit\n{id}data: {data}\n\n")));
            }
        }
        // What was sent need not be retained.
        self.hold = store.change_stream().hold(self.at);
        Ok(())
    }

    /// Ends the feed with an event for a reader that was too slow: changes are missing from here on.
    fn send_gone(&mut self, why: &DataError) -> Result<()> {
        let data = params! { "version" => self.at as i64, "message" => why.to_string() };
        let data = json::to_string(&data.into())?;
        self.ready
            .push_back(Bytes::from(format!("event: gone\ndata: {data}\n\n")));
        self.is_over = true;
        Ok(())
    }
}

/// Back-off for a commit that was announced and is not durable yet.
pub(super) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(Duration::from_millis(2))
    }
}

impl Backoff {
    /// Waits, longer each time, or until another commit is announced.
    pub(super) async fn wait(&mut self, newest: &mut watch::Receiver<Newest>) {
        // The caller checks again in any case; an error means that the database is closed, which it sees then.
        let _ = tokio::time::timeout(self.0, newest.changed()).await;
        self.0 = (self.0 * 2).min(MAX_PAUSE);
    }
}
