//! Keep-alive and end of event feeds, independent of their events and of how long these take to compute.

use std::{convert::Infallible, pin::Pin, sync::Arc, time::Duration};

use axum::body::{Body, Bytes};
use futures_util::{Stream, StreamExt, stream};
use isomer_db::{json, params};
use tokio::{
    sync::watch,
    time::{Instant, Interval, MissedTickBehavior, interval_at},
};

use super::{credentials::RequestCredentials, outcome::Outcome, reply::Reply};
use crate::{
    Result, ServerError,
    core::{Core, stop_asked},
};

/// Minimum interval between two keep-alive comments.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// A feed of these events. A comment is sent at fixed intervals, so that proxies keep the connection open and a
/// disconnected client is noticed; at the same intervals its right is checked. It ends with the server, with that
/// right, or with an error, which is its last event.
pub(super) fn feed<S>(core: Arc<Core>, credentials: RequestCredentials, events: S) -> Reply
where
    S: Stream<Item = Result<Bytes>> + Send + 'static,
{
    let every = core.config.limits.heartbeat.max(MIN_INTERVAL);
    let mut beat = interval_at(Instant::now() + every, every);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let outcome = Outcome::default();
    let alive = Alive {
        outcome: outcome.clone(),
        stopping: core.stopping(),
        core,
        credentials,
        beat,
        events: Some(Box::pin(events)),
    };
    let events = stream::unfold(alive, |mut alive| async move {
        let event = alive.next().await?;
        Some((Ok::<_, Infallible>(event), alive))
    });
    Reply::stream("text/event-stream", Body::from_stream(events)).with_outcome(outcome)
}

struct Alive<S> {
    core: Arc<Core>,
    credentials: RequestCredentials,
    outcome: Outcome,
    stopping: watch::Receiver<bool>,
    beat: Interval,
    /// `None` after the last event was sent.
    events: Option<Pin<Box<S>>>,
}

impl<S: Stream<Item = Result<Bytes>>> Alive<S> {
    async fn next(&mut self) -> Option<Bytes> {
        let events = self.events.as_mut()?;
        let event = tokio::select! {
            biased;
            () = stop_asked(&mut self.stopping) => return None,
            _ = self.beat.tick() => {
                let is_good = self.credentials.check(&self.core);
                is_good.map(|()| Bytes::from_static(b": still here\n\n"))
            }
            event = events.next() => event?,
        };
        match event {
            Ok(event) => Some(event),
            Err(why) => {
                self.events = None;
                self.outcome.failed(why.kind());
                error_event(&why).ok()
            }
        }
    }
}

/// The last event of a feed that fails.
fn error_event(why: &ServerError) -> Result<Bytes> {
    let data = params! { "kind" => why.kind(), "message" => why.to_string() };
    let data = json::to_string(&data.into())?;
    Ok(Bytes::from(format!("event: error\ndata: {data}\n\n")))
}
