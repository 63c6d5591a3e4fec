//! Live queries: a query's result, sent again when it has changed, as server-sent events.
//!
//! The query's plan yields the labels, types and buckets that its rows depend on. A commit that touches none of them
//! costs only a scan of its changes; after one that does, the query waits for its pause, then runs again on the
//! newest version, and its result is sent if it differs. So a client that is slow, or was disconnected, misses
//! intermediate results but never the last one.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::body::Bytes;
use futures_util::stream;
use isomer_db::{
    CancelHandle, NameFilter, Query, QueryDependencies,
    internals::data::{
        Access as Mode, Change, ChangeSet, ConvergentOwner, DataError, GraphRead, NodeLabels,
        Transaction, Version,
    },
    json,
};
use isomer_value::{LabelId, NodeId, TypeId, record::RecordRef};
use tokio::sync::watch;

use super::{
    alive,
    call::{Call, StopOnDrop},
    changes::{BYTES, Backoff, ENTRIES},
    credentials::RequestCredentials,
    query::{self, QueryRequest},
    reply::{self, Reply},
};
use crate::{
    Result, ServerError,
    access::DatabaseAccess,
    core::{Core, FeedSlot},
    feed::Newest,
    sending::{Reserved, bytes_with},
    slow,
    traces::Span,
};

/// Default minimum time between two results.
const DEFAULT_PAUSE_MS: u64 = 100;
/// Largest configurable pause.
const MAX_PAUSE_MS: u64 = 60_000;
/// Limit on text and parameters, which are kept while the client is connected.
const MAX_QUERY_BYTES: usize = 256 << 10;

/// `POST …/changes`
pub async fn results(mut call: Call, mut access: DatabaseAccess) -> Result<Reply> {
    if access.open().is_some() {
        return Err(ServerError::Invalid(
            "an open transaction sees one version: omit `Isomer-Transaction`".into(),
        ));
    }
    let pause = match call.number_param("pause_ms")?.unwrap_or(DEFAULT_PAUSE_MS) {
        ms if ms <= MAX_PAUSE_MS => Duration::from_millis(ms),
        ms => {
            return Err(ServerError::Invalid(format!(
                "invalid `pause_ms` {ms}: expected at most {MAX_PAUSE_MS}"
            )));
        }
    };
    let known = call
        .header("last-event-id")?
        .map(Id::parse)
        .transpose()?
        .map(|id| id.tag);
    let asked = query::read_request(&mut call, &["query", "parameters", "limits"]).await?;
    let parameters = json::to_string(&asked.parameters.clone().into())?;
    if asked.text.len() + parameters.len() > MAX_QUERY_BYTES {
        return Err(ServerError::TooLarge(format!(
            "the text and the parameters of a followed query exceed {MAX_QUERY_BYTES} bytes"
        )));
    }
    access.open_result()?;
    let place = call.core.feed_slot()?;
    let core = call.core.clone();
    let credentials = RequestCredentials::of(&call, &access)?;
    let following = Following {
        credentials: credentials.clone(),
        newest: access.feed().subscribe(),
        access,
        asked,
        reads: QueryDependencies::default(),
        at: 0,
        tag: known.unwrap_or_default(),
        ready: None,
        pacing: Pacing {
            pause,
            ran: Instant::now(),
            took: Duration::ZERO,
        },
        has_sent: false,
        _slot: place,
        core,
    };
    // An invalid query gets an ordinary error answer.
    let following = following.run(true).await?;
    let events = stream::try_unfold(following, Following::next);
    Ok(alive::feed(call.core.clone(), credentials, events))
}

/// The id of an event: the version of a result, and its tag.
struct Id {
    tag: String,
}

impl Id {
    fn parse(text: &str) -> Result<Self> {
        let parts = text.split_once('-');
        let is_id = |(version, tag): (&str, &str)| {
            version.parse::<u64>().is_ok()
                && tag.len() == 32
                && tag.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        match parts.filter(|parts| is_id(*parts)) {
            Some((_, tag)) => Ok(Self { tag: tag.into() }),
            None => Err(ServerError::Invalid(
                "Last-Event-ID must be the id of an event with a result".into(),
            )),
        }
    }
}

/// When the query may run again.
struct Pacing {
    pause: Duration,
    ran: Instant,
    took: Duration,
}

impl Pacing {
    /// The remaining pause: a query runs for at most half of the time.
    fn remaining_pause(&self) -> Duration {
        (self.ran + self.pause.max(self.took)).saturating_duration_since(Instant::now())
    }
}

/// A query and its subscriber.
struct Following {
    core: Arc<Core>,
    access: DatabaseAccess,
    credentials: RequestCredentials,
    asked: QueryRequest,
    reads: QueryDependencies,
    newest: watch::Receiver<Newest>,
    /// The version up to which the sent result is current.
    at: Version,
    /// The tag of that result.
    tag: String,
    ready: Option<Bytes>,
    pacing: Pacing,
    has_sent: bool,
    _slot: FeedSlot,
}

impl Following {
    /// The next event; `None` if the database is closed.
    async fn next(mut self) -> Result<Option<(Bytes, Self)>> {
        let mut backoff = Backoff::default();
        loop {
            if let Some(event) = self.ready.take() {
                return Ok(Some((event, self)));
            }
            let newest = *self.newest.borrow_and_update();
            let target = match newest {
                Newest::Closed => return Ok(None),
                Newest::Version(version) => version,
            };
            if target > self.at {
                let core = self.core.clone();
                let before = self.at;
                let (following, touched) =
                    core.background(move || self.find_relevant_commit()).await?;
                self = following;
                if touched {
                    // Commits within the pause are covered by the same run.
                    tokio::time::sleep(self.pacing.remaining_pause()).await;
                    self = self.run(false).await?;
                } else if self.at == before {
                    // The announced commit is not durable yet.
                    backoff.wait(&mut self.newest).await;
                    continue;
                }
                backoff = Backoff::default();
            } else if self.newest.changed().await.is_err() {
                return Ok(None);
            }
        }
    }

    /// Runs the query, and makes an event of its result if that has changed. It is cancelled when the client
    /// disconnects.
    async fn run(mut self, is_first: bool) -> Result<Self> {
        let cancel = CancelHandle::new();
        let _stop = StopOnDrop::new(&cancel);
        let core = self.core.clone();
        let work = move || {
            let outcome = self
                .access
                .resume()
                .and_then(|()| self.credentials.check(&self.core))
                .and_then(|()| self.run_query(&cancel));
            self.access.pause(0);
            match outcome {
                Ok(()) => Ok(self),
                // At the concurrency limit: retry later.
                Err(ServerError::TooMany { retry_after_s, .. }) if !is_first => {
                    self.pacing.ran = Instant::now();
                    self.pacing.took = Duration::from_secs(retry_after_s.into());
                    self.newest.mark_changed();
                    Ok(self)
                }
                Err(error) => Err(error),
            }
        };
        match is_first {
            true => core.blocking(work).await,
            false => core.background(work).await,
        }
    }

    fn run_query(&mut self, cancel: &CancelHandle) -> Result<()> {
        let options = query::options(&mut self.access, &self.asked, cancel)?;
        let began = Instant::now();
        let (text, parameters) = (&self.asked.text, &self.asked.parameters);
        let most = self.core.config.limits.result_bytes;
        // The request has been answered, so each run has its own trace.
        let span = self.core.traces.query(&Span::none(), self.access.name());
        let ran = self.access.read(|tx| {
            let reads = tx.reads((text, parameters))?;
            let result = tx.query(Query::new(text).params(parameters).options(&options))?;
            span.class(result.class().name());
            let mut text = String::new();
            query::write_rows(
                &result,
                most,
                &mut text,
                &mut Reserved::new(&self.core.databases),
            )?;
            Ok((tx.version(), reads, text))
        });
        let (version, reads, result) = ran.inspect_err(|error| span.failed(error.kind()))?;
        span.text(text);
        let took = began.elapsed();
        slow::log(&self.core, &self.access, text, took, None);
        self.pacing.ran = Instant::now();
        self.pacing.took = took;
        self.reads = reads;
        self.at = version;
        let tag = reply::etag_of(result.as_bytes())
            .trim_matches('"')
            .to_owned();
        let (event, data) = match tag == self.tag {
            false => ("result", format!("{{\"version\":{version},{result}}}")),
            // A reconnected client has this result already.
            true if !self.has_sent => ("unchanged", format!("{{\"version\":{version}}}")),
            true => return Ok(()),
        };
        self.has_sent = true;
        self.tag = tag;
        let event = format!(
            "event: {event}\nid: {version}-{}\ndata: {data}\n\n",
            self.tag
        );
        drop(data);
        let mut reserved = Reserved::new(&self.core.databases);
        reserved.resize(event.capacity())?;
        self.ready = Some(bytes_with(event.into_bytes(), reserved.into_reservation()));
        Ok(())
    }

    /// Scans the commits after [`Following::at`], up to the first that touches what the query reads; returns whether
    /// there is one.
    fn find_relevant_commit(mut self) -> Result<(Self, bool)> {
        self.credentials.check(&self.core)?;
        let store = self.access.store()?;
        let entries = match store
            .change_stream()
            .durable_after(&mut self.at, ENTRIES, BYTES)
        {
            Ok(entries) => entries,
            // The changes are no longer kept, so run the query.
            Err(DataError::Forgotten { .. }) => return Ok((self, true)),
            Err(error) => return Err(error.into()),
        };
        if entries.is_empty() {
            return Ok((self, false));
        }
        let tx = store.begin(Mode::Read)?;
        for entry in entries {
            for change in ChangeSet::changes_in(&entry.bytes)? {
                if touches(&self.reads, &tx, &change?)? {
                    return Ok((self, true));
                }
            }
            self.at = entry.version;
        }
        Ok((self, false))
    }
}

/// Whether a change may affect rows that depend on `reads`.
fn touches(reads: &QueryDependencies, tx: &Transaction, change: &Change<'_>) -> Result<bool> {
    let catalog = tx.catalog();
    let labels = |labels: &[LabelId]| {
        let mut names = labels.iter().filter_map(|label| catalog.label_name(*label));
        reads.labels == NameFilter::Any || names.any(|name| reads.labels.has(&name))
    };
    let node = |id: NodeId| -> Result<bool> {
        let mut now = NodeLabels::new();
        tx.node_labels(&[id], &mut now)?;
        Ok(labels(now.of(0)))
    };
    let of_type = |id: TypeId| {
        let name = catalog.type_name(id);
        reads.types == NameFilter::Any || name.is_some_and(|name| reads.types.has(&name))
    };
    let in_bucket = |id: u32| {
        let name = catalog.bucket_name(id);
        name.is_none_or(|name| reads.buckets.contains(&name)) && !reads.buckets.is_empty()
    };
    Ok(match change {
        Change::NodeCreated { record, .. } => {
            let record = RecordRef::new(record)?;
            labels(&record.labels().collect::<Vec<_>>())
        }
        Change::NodeChanged {
            id,
            labels_added,
            labels_removed,
            ..
        } => labels(labels_added) || labels(labels_removed) || node(*id)?,
        Change::NodeDeleted { labels: had, .. } => labels(had),
        Change::NodesLoaded { label, .. } => labels(&[*label]),
        Change::RelationshipCreated { record, .. } => {
            let ends = RecordRef::new(record)?.endpoints();
            ends.is_none_or(|(type_id, ..)| of_type(type_id))
        }
        Change::RelationshipChanged { type_id, .. }
        | Change::RelationshipDeleted { type_id, .. }
        | Change::RelationshipsLoaded { type_id, .. } => of_type(*type_id),
        Change::Converged { owner, .. } | Change::FieldMerged { owner, .. } => match owner {
            ConvergentOwner::Node(id) => node(*id)?,
            ConvergentOwner::Relationship(_) => reads.types != NameFilter::default(),
        },
        Change::KeyPut { bucket, .. }
        | Change::KeyPutUntil { bucket, .. }
        | Change::KeyDeleted { bucket, .. }
        | Change::KeysDeleted { bucket, .. }
        | Change::ValueAdded { bucket, .. }
        | Change::ValueRemoved { bucket, .. }
        | Change::BucketCreated { bucket, .. }
        | Change::BucketDropped { bucket } => in_bucket(*bucket),
        Change::SequenceAdvanced { .. }
        | Change::SchemaChanged { .. }
        | Change::ConvergedBy { .. }
        | Change::FileNamed { .. }
        | Change::FileUnnamed { .. }
        | Change::FileChanged { .. }
        | Change::FileWritten { .. }
        | Change::FileRemoved { .. } => false,
    })
}

#[cfg(test)]
mod tests {
    use isomer_db::internals::DatabaseInternals as _;
    use isomer_db::{Database, Map, Value};

    use super::*;

    const FOLLOWED: &[&str] = &[
        "MATCH (a:A) RETURN a.n ORDER BY a.n",
        "MATCH (a:A {_key: 'k1'}) RETURN a.n",
        "MATCH (a:A) WHERE a.n > 2 RETURN count(*)",
        "MATCH (a:A)-[:R]->(b:B) RETURN a._key, b.n ORDER BY a._key, b.n",
        "MATCH (a:A)-[:R]->(b) RETURN a._key, b.n ORDER BY a._key, b.n",
        "MATCH (a:A)-[:R]->() RETURN count(*)",
        "MATCH (a:A {_key: 'k2'})<-[r]-(b:B) RETURN b._key, r.w ORDER BY b._key, r.w",
        "MATCH (a:A) OPTIONAL MATCH (a)-[:S]->(b:B) RETURN a._key, b.n ORDER BY a._key, b.n",
        "MATCH (a) OPTIONAL MATCH (a:A)-[:R]->(b) RETURN a.n, b.n ORDER BY a.n, b.n",
        "MATCH (a)-[:R]->(b) WITH b ORDER BY b.n LIMIT 2 WHERE b:B RETURN b.n ORDER BY b.n",
        "MATCH (a:A)-[r:R]->(b) WITH r, b ORDER BY b.n LIMIT 2 MATCH (x)-[r]->(b) WHERE b:B RETURN b.n ORDER BY b.n",
        "MATCH (a:A), (b:B) MATCH (a)-[:R*1..2]->(b) RETURN a._key, b.n, count(*) ORDER BY a._key, b.n",
        "MATCH (a:A) RETURN a.n AS n UNION MATCH (b:B) RETURN b.n AS n",
        "MATCH (a:A) WHERE EXISTS { (a)-[:S]->(:B {n: 1}) } RETURN a._key ORDER BY a._key",
        "MATCH (a:A) WHERE NOT (a)-[:R]->() RETURN a._key ORDER BY a._key",
        "MATCH (a:A)-[:R*1..2]->(b:A) RETURN a._key, b._key, count(*) ORDER BY a._key, b._key",
        "MATCH p = (a:A {_key: 'k1'})-[:R*1..2]->(b) RETURN [x IN nodes(p) | x.n] AS ns ORDER BY ns",
        "MATCH (:A)-[r:S]->() RETURN startNode(r).n AS s, endNode(r).n AS e ORDER BY s, e",
        "MATCH (a:B) RETURN a._key, COUNT { (a)--() } AS n ORDER BY a._key",
        "MATCH (n) RETURN labels(n) AS l, count(*) ORDER BY l",
        "MATCH ()-[r:S]->() RETURN count(r), sum(r.w)",
        "RETURN kv.get('b', 'k1') AS v",
        "MATCH (a:A) RETURN a._key, kv.exists('b', a._key) AS e ORDER BY a._key",
        "UNWIND range(1, 3) AS n MATCH (a:B {_key: 'k' + toString(n)}) RETURN a.n",
        "MATCH (a:A {_key: 'k1'}), (b:A {_key: 'k3'}) RETURN length(shortestPath((a)-[:R*]->(b))) AS l",
        "MATCH (a:A)-[:R]->(b)-[:R]->(c:B) RETURN c._key, count(DISTINCT a) AS n ORDER BY c._key, n",
    ];

    /// The next number of a pseudo-random sequence.
    fn roll(seed: &mut u64, sides: u64) -> u64 {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % sides
    }

    fn change(seed: &mut u64) -> String {
        let label = ["A", "B", "C"][roll(seed, 3) as usize];
        let other = ["A", "B", "C"][roll(seed, 3) as usize];
        let of = ["R", "S", "T"][roll(seed, 3) as usize];
        let (one, two, n) = (roll(seed, 4), roll(seed, 4), roll(seed, 5));
        let node = format!("(x:{label} {{_key: 'k{one}'}})");
        let pair = format!("MATCH {node}, (y:{other} {{_key: 'k{two}'}})");
        match roll(seed, 12) {
            0 | 1 => format!("MERGE {node} SET x.n = {n}"),
            2 => format!("MATCH {node} SET x.n = {n}"),
            3 => format!("MATCH {node} DETACH DELETE x"),
            4 | 5 => format!("{pair} CREATE (x)-[:{of} {{w: {n}}}]->(y)"),
            6 => format!("MATCH {node}-[r:{of}]->() DELETE r"),
            7 => format!("MATCH {node}-[r:{of}]->() SET r.w = {n}"),
            8 => format!("MATCH {node} SET x:{other}"),
            9 => format!("MATCH {node} REMOVE x:{other}"),
            10 => format!("CALL kv.put('b', 'k{one}', {n})"),
            _ => format!("CALL kv.put('c', 'k{one}', {n})"),
        }
    }

    fn rows(db: &Database, text: &str) -> Result<String> {
        let result = db.query(text)?;
        let mut rows = String::new();
        query::write_rows(&result, 1 << 20, &mut rows, &mut Reserved::default())?;
        Ok(rows)
    }

    /// Every change that affects the rows of a query is detected by its plan's dependencies; many that do not are
    /// excluded.
    #[test]
    fn every_commit_that_changes_a_result_is_detected() -> Result<()> {
        let db = Database::open_in_memory()?;
        db.store()?.eras().begin()?;
        let _held = db.store()?.change_stream().hold(0);
        let (mut seed, mut left_alone, mut changed) = (20_261_122, 0, 0);
        for _ in 0..120 {
            let before: Vec<_> = FOLLOWED
                .iter()
                .map(|text| Ok((rows(&db, text)?, db.begin_read()?.reads(text)?)))
                .collect::<Result<_>>()?;
            let version = db.version()?;
            let done = change(&mut seed);
            // Some are refused (a duplicate key): then nothing has changed.
            let _ = db.query(&done);
            let store = db.store()?;
            let entries = store.change_stream().after(version, 64, 1 << 20, true)?;
            let tx = store.begin(Mode::Read)?;
            for (text, (was, reads)) in FOLLOWED.iter().zip(before) {
                let mut is_touched = false;
                for entry in &entries {
                    for change in &ChangeSet::decode(&entry.bytes)?.changes {
                        is_touched |= touches(&reads, &tx, change)?;
                    }
                }
                let is_changed = rows(&db, text)? != was;
                assert!(!is_changed || is_touched, "{done}\n{text}\n{reads:?}");
                changed += usize::from(is_changed);
                left_alone += usize::from(!is_touched);
            }
        }
        assert!(changed > 100 && left_alone > 800, "{changed} {left_alone}");
        Ok(())
    }

    #[test]
    fn queries_that_cannot_be_followed_say_why() -> Result<()> {
        let db = Database::open_in_memory()?;
        let tx = db.begin_read()?;
        let zone: Map = [("timezone", Value::from("UTC"))].into_iter().collect();
        let zone: Map = [("zone", Value::from(zone))].into_iter().collect();
        for (text, why) in [
            ("CREATE (n:A) RETURN n", "it changes something"),
            ("PROFILE MATCH (n:A) RETURN n", "EXPLAIN or PROFILE"),
            ("RETURN rand() AS r", "rand() differs from call to call"),
            (
                "MATCH (a:A) WHERE a.due < datetime({timezone: 'Europe/Berlin'}) RETURN a",
                "datetime() differs from call to call",
            ),
            (
                "RETURN date({timezone: 'UTC'}) AS d",
                "date() differs from call to call",
            ),
            (
                "RETURN time({timezone: 'UTC'}) AS d",
                "time() differs from call to call",
            ),
            (
                "RETURN time({hour: 12, timezone: 'Europe/Rome'}) AS d",
                "time() differs from call to call",
            ),
            (
                "RETURN time.truncate('hour', localtime('12:30'), {timezone: 'Europe/Rome'}) AS d",
                "time.truncate() differs from call to call",
            ),
            (
                "RETURN localtime($zone) AS d",
                "localtime() differs from call to call",
            ),
            (
                "RETURN localdatetime($zone) AS d",
                "localdatetime() differs",
            ),
            (
                "RETURN datetime($zone) AS d",
                "datetime() differs from call to call",
            ),
            (
                "MATCH (a:A) RETURN datetime(a.m) AS d",
                "datetime() differs",
            ),
            (
                "MATCH (a:A) WHERE a.due < datetime() RETURN a",
                "datetime() differs from call to call",
            ),
            (
                "MATCH (a:A) RETURN kv.get(a.bucket, 'k') AS v",
                "kv.get is computed",
            ),
            (
                "CALL kv.scan('b') YIELD key RETURN key",
                "the procedure kv.scan",
            ),
            ("SHOW INDEXES", "it shows metadata"),
        ] {
            let error = tx.reads((text, &zone)).expect_err(text);
            assert_eq!(error.kind(), isomer_db::ErrorKind::Unsupported, "{text}");
            assert!(error.message().contains(why), "{text}: {error}");
        }
        let parameters: Map = [("b", "seen")]
            .into_iter()
            .map(|(name, value)| (name, Value::from(value)))
            .collect();
        let reads = tx.reads(("RETURN kv.get($b, 'k') AS v, date('2026-11-22') AS d, datetime({year: 2026, timezone: 'UTC'}) AS t, date($b) AS s, time.truncate('hour', time('12:30Z')) AS o", &parameters))?;
        assert!(reads.buckets.contains("seen") && reads.labels == NameFilter::default());
        let reads = tx.reads("MATCH (a:A)-[:R]->(b:B) RETURN a.n, b.n")?;
        assert!(reads.labels.has("A") && reads.labels.has("B") && !reads.labels.has("C"));
        assert!(reads.types.has("R") && !reads.types.has("S"));
        Ok(())
    }

    #[test]
    fn event_ids_round_trip() {
        let tag = "0123456789abcdef0123456789abcdef";
        assert_eq!(Id::parse(&format!("17-{tag}")).unwrap().tag, tag);
        for wrong in [
            "",
            "17",
            "x-y",
            "17-0123",
            &format!("-{tag}"),
            &format!("1-{}", tag.replace('a', "ä")),
        ] {
            assert!(Id::parse(wrong).is_err(), "{wrong}");
        }
    }
}
