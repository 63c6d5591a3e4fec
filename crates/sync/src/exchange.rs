//! Exchanges: bring two databases to the same state.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use isomer_data::{DataStore, ErrorKind};
use isomer_replication::{Applied, HeldBack, PushedPage, StateTransfer};

use crate::{
    Result, SyncError,
    answer::{PAGE_BYTES, SNAPSHOT_BYTES, decode_applied, decode_session, encode_pushed},
    frame::{self, FrameError, Kind},
    text::held_text,
};

/// How often one exchange restarts a state transfer whose snapshot is no longer held.
const MAX_RESTARTS: u32 = 3;
/// How often one page of a state is requested again after the connection broke off: the peer holds the snapshot for a
/// while. The pause doubles each time.
const MAX_PAGE_RETRIES: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// How long an exchange waits for a peer that joins a pushed state, and the longest pause between two questions. A
/// server exchanges with its peers in turn on one thread; after a longer join the next exchange finds the result.
const MAX_PUSH_WAIT: Duration = Duration::from_secs(30);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// A peer to exchange with.
pub trait PeerConnection: Send {
    /// Its name in messages.
    fn name(&self) -> &str;
    /// Sends a frame and waits for the answer.
    fn request(&mut self, frame: &[u8]) -> Result<Vec<u8>>;
}

/// Result of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeReport {
    /// Received transactions.
    pub received: u64,
    /// Operations in them.
    pub received_operations: u64,
    /// Transactions that the peer applied.
    pub sent: u64,
    /// Bytes in both directions.
    pub bytes: u64,
    /// Pages of state transfers in both directions.
    pub pages: u64,
    /// Whether this database joined the peer's state.
    pub joined: bool,
    /// The peer's transactions that are held back here because their timestamps are ahead of this database's clock.
    pub held: Option<HeldBack>,
    /// This database's transactions that are held back by the peer because their timestamps are ahead of its clock.
    pub held_there: Option<HeldBack>,
    /// Duration.
    pub time: Duration,
}

impl ExchangeReport {
    /// Describes what was held back on either side because its timestamps are ahead of a clock.
    pub fn held_text(&self) -> Option<String> {
        let here = self.held.as_ref().map(|held| held_text(held, true));
        let there = self.held_there.as_ref().map(|held| held_text(held, false));
        match (here, there) {
            (Some(here), Some(there)) => Some(format!("{here}; {there}")),
            (here, there) => here.or(there),
        }
    }
}

/// Called with the progress of an exchange.
pub type ExchangeProgress<'a> = &'a mut dyn FnMut(&ExchangeReport);

/// Exchanges transactions with a peer until neither has anything that the other one lacks, except for transactions
/// that are held back because their timestamps are ahead of the clock. A state transfer that broke off on either side
/// is restarted.
///
/// # Errors
///
/// Those of the peer and of this database; what was exchanged before is kept.
pub fn exchange(
    store: &DataStore,
    peer: &mut dyn PeerConnection,
    progress: ExchangeProgress<'_>,
) -> Result<ExchangeReport> {
    let start = Instant::now();
    let mut current = Exchange {
        peer,
        done: ExchangeReport::default(),
    };
    let refused = current.pull(store, progress)?;
    let has_more = current.push(store, refused.is_some(), progress)?;
    // The push completes the peer's state transfer, after which it answers the pull; or the peer has something new
    // since the first pull, other than what is held back here.
    if refused.is_some() || has_more && current.done.held.is_none() {
        let still = current.pull(store, progress)?;
        still.map_or(Ok(()), Err)?;
    }
    current.report_versions(store)?;
    isomer_replication::give_up_unknown(store)?;
    isomer_replication::trim_log(store)?;
    current.done.time = start.elapsed();
    Ok(current.done)
}

/// Exchanges with a peer, then compares everything that both hold, and repairs differences (anti-entropy). Returns
/// how many of the [`isomer_replication::RANGE_COUNT`] ranges differed.
///
/// # Errors
///
/// Those of [`exchange`]; [`SyncError::Unreachable`] if one of the two is written to continuously.
pub fn scrub(
    store: &DataStore,
    peer: &mut dyn PeerConnection,
    progress: ExchangeProgress<'_>,
) -> Result<u64> {
    const ATTEMPTS: usize = 10;
    let mut repaired = 0;
    for _ in 0..ATTEMPTS {
        exchange(store, peer, progress)?;
        let mut current = Exchange {
            peer,
            done: ExchangeReport::default(),
        };
        let theirs = current.request(Kind::Fingerprints, &[], Kind::Page)?;
        let Some(differ) = isomer_replication::differing(store, &theirs)? else {
            continue; // a concurrent write
        };
        if differ.is_empty() {
            return Ok(repaired);
        }
        repaired += differ.len() as u64;
        let ranges: Vec<u8> = differ
            .iter()
            .flat_map(|range| range.to_le_bytes())
            .collect();
        let theirs = current.request(Kind::Ranges, &ranges, Kind::Page)?;
        let ours = isomer_replication::ranges_page(store, &differ)?;
        let repair = isomer_replication::repair(store, &theirs).map_err(SyncError::from);
        let done = repair.and_then(|()| current.request(Kind::Repair, &ours, Kind::Applied));
        match done {
            Ok(_) => {}
            // A concurrent write makes the comparison invalid: what it removed must not come back.
            Err(error) if error.kind() == ErrorKind::Unavailable => {}
            Err(error) => return Err(error),
        }
    }
    Err(SyncError::Unreachable {
        peer: peer.name().to_owned(),
        reason: "the two did not converge; one of them may be written to continuously".into(),
    })
}

/// A page of a peer's state.
struct StatePage {
    page: Vec<u8>,
    /// Where the next one begins.
    next: Option<Vec<u8>>,
}

struct Exchange<'p> {
    peer: &'p mut dyn PeerConnection,
    done: ExchangeReport,
}

impl Exchange<'_> {
    fn request(&mut self, kind: Kind, content: &[u8], expected: Kind) -> Result<Vec<u8>> {
        let frame = frame::encode(kind, content);
        isomer_replication::crash_point();
        let answer = self.peer.request(&frame)?;
        self.done.bytes += (frame.len() + answer.len()) as u64;
        let peer = || self.peer.name().to_owned();
        let (kind, content) = frame::decode(&answer).map_err(|wrong| match wrong {
            FrameError::Version(found) => SyncError::Version {
                peer: peer(),
                found,
                own: frame::VERSION,
            },
            FrameError::Invalid(what) => SyncError::Malformed {
                peer: peer(),
                what: what.into(),
            },
        })?;
        if kind == Kind::Refused {
            let text = String::from_utf8_lossy(&content);
            let (kind, message) = text.split_once('\n').unwrap_or(("Invalid", &text));
            return Err(SyncError::There {
                peer: peer(),
                kind: kind.to_owned(),
                message: message.to_owned(),
            });
        }
        match kind == expected {
            true => Ok(content),
            false => Err(SyncError::Malformed {
                peer: peer(),
                what: "an answer to another request".into(),
            }),
        }
    }

    /// Pulls what the peer has. Returns the peer's refusal if it has an incomplete state transfer, until which it
    /// does not send anything.
    fn pull(
        &mut self,
        store: &DataStore,
        progress: ExchangeProgress<'_>,
    ) -> Result<Option<SyncError>> {
        loop {
            let page = match self.request(
                Kind::Entries,
                &isomer_replication::greeting(store)?,
                Kind::Page,
            ) {
                Err(error) if error.is_joining() => return Ok(Some(error)),
                page => page?,
            };
            let applied = isomer_replication::apply_page(store, &page)?;
            self.done.received += applied.transactions;
            self.done.received_operations += applied.operations;
            self.done.held = applied.held.or(self.done.held);
            progress(&self.done);
            if applied.behind {
                self.join(store, progress)?;
            } else if !more_follow(applied) {
                return Ok(None);
            }
        }
    }

    /// After an exchange, both report their versions, so that neither lists the other one as behind.
    fn report_versions(&mut self, store: &DataStore) -> Result<()> {
        if self.done.received + self.done.sent + self.done.pages > 0 {
            let theirs = self.request(
                Kind::Greet,
                &isomer_replication::greeting(store)?,
                Kind::Greeting,
            )?;
            isomer_replication::read_greeting(store, &theirs)?;
            isomer_replication::record_members(store)?;
        }
        Ok(())
    }

    /// Joins the peer's whole state.
    fn join(&mut self, store: &DataStore, progress: ExchangeProgress<'_>) -> Result<()> {
        // A second transfer in one exchange would end like the first: the log is trimmed faster than a state is joined.
        if self.done.joined {
            return Err(SyncError::Unreachable {
                peer: self.peer.name().to_owned(),
                reason: "its log was trimmed past this database's version while its state was joined: either its retention is shorter than a state transfer takes (`isomer replica retain`), or it was written to faster than the transfer ran".into(),
            });
        }
        self.done.joined = true;
        let mut begun = 0;
        loop {
            let mut joining = isomer_replication::begin_state_transfer(store)?;
            begun += 1;
            match self.join_pages(store, &mut joining, progress) {
                // The peer holds the snapshot of its pages only for a while: restart with a newer one.
                Err(error @ SyncError::There { .. })
                    if error.kind() == ErrorKind::Unavailable
                        && joining.pages() > 0
                        && begun < MAX_RESTARTS => {}
                done => return done,
            }
        }
    }

    /// Joins page after page; the peer produces the next one while one is joined here.
    fn join_pages(
        &mut self,
        store: &DataStore,
        joining: &mut StateTransfer,
        progress: ExchangeProgress<'_>,
    ) -> Result<()> {
        let first = self.page_at(&[])?;
        let mut is_last = joining.merge_page(store, &first.page)?;
        self.done.pages += 1;
        progress(&self.done);
        if let Some(next) = first.next.filter(|_| !is_last) {
            let done = &mut self.done;
            let mut current = Exchange {
                peer: &mut *self.peer,
                done: *done,
            };
            thread::scope(|scope| {
                // A rendezvous channel: one page is produced while one is joined, and none is queued.
                let (sender, pages) = mpsc::sync_channel(0);
                scope.spawn(move || {
                    let mut cursor = Some(next);
                    while let Some(from) = cursor.take() {
                        let result = current.page_at(&from).map(|came| {
                            cursor = came.next;
                            (came.page, current.done.bytes)
                        });
                        if sender.send(result).is_err() {
                            return; // joining a page failed
                        }
                    }
                });
                for came in pages {
                    let (page, bytes) = came?;
                    is_last = joining.merge_page(store, &page)?;
                    done.pages += 1;
                    done.bytes = bytes;
                    progress(done);
                }
                Ok::<_, SyncError>(())
            })?;
        }
        match is_last {
            true => Ok(()),
            false => Err(SyncError::Malformed {
                peer: self.peer.name().to_owned(),
                what: "a page of its state without a cursor that is not the last one".into(),
            }),
        }
    }

    /// A page of the peer's state with the cursor of the next one. Requested again if the connection breaks off:
    /// repeating one request is cheaper than restarting the transfer.
    fn page_at(&mut self, cursor: &[u8]) -> Result<StatePage> {
        let (mut asked, mut pause) = (0, FIRST_PAUSE);
        let page = loop {
            match self.request(Kind::Snapshot, cursor, Kind::Page) {
                Err(SyncError::Unreachable { .. })
                    if !cursor.is_empty() && asked < MAX_PAGE_RETRIES =>
                {
                    thread::sleep(pause);
                    (asked, pause) = (asked + 1, pause * 2);
                }
                result => break result?,
            }
        };
        let next = isomer_replication::next_cursor(&page)?;
        Ok(StatePage { page, next })
    }

    /// Pushes this database's whole state.
    fn push_state(&mut self, store: &DataStore, progress: ExchangeProgress<'_>) -> Result<()> {
        let own = isomer_replication::begin_replication(store)?;
        let (mut cursor, mut session, mut begun) = (Vec::new(), 0, 1);
        loop {
            let page = match isomer_replication::state_page(store, &cursor, SNAPSHOT_BYTES) {
                // The snapshot of the pages is held only for a while: restart with a newer one.
                Err(error)
                    if error.kind() == ErrorKind::Unavailable
                        && !cursor.is_empty()
                        && begun < MAX_RESTARTS =>
                {
                    (cursor, session, begun) = (Vec::new(), 0, begun + 1);
                    continue;
                }
                page => page?,
            };
            let next = isomer_replication::next_cursor(&page)?;
            let pushed = encode_pushed(&PushedPage {
                session,
                from: own.id,
                cursor: &cursor,
                page: &page,
            });
            let answer = self.push_page(&pushed, !cursor.is_empty())?;
            session = decode_session(&answer).ok_or_else(|| SyncError::Malformed {
                peer: self.peer.name().to_owned(),
                what: "the page that it joined".into(),
            })?;
            self.done.pages += 1;
            progress(&self.done);
            match next {
                Some(next) => cursor = next,
                None => return Ok(()),
            }
        }
    }

    /// Pushes a page. The peer joins the state when it has the last one, which may take longer than it may take to
    /// answer: the page is sent again until the peer acknowledges it. `may_repeat`: the page belongs to a session, so
    /// that the peer recognises it.
    fn push_page(&mut self, page: &[u8], may_repeat: bool) -> Result<Vec<u8>> {
        let begun = Instant::now();
        let (mut asked, mut pause) = (0, FIRST_PAUSE);
        loop {
            match self.request(Kind::Join, page, Kind::Applied) {
                Err(error)
                    if may_repeat && error.is_join_running() && begun.elapsed() < MAX_PUSH_WAIT => {
                }
                Err(SyncError::Unreachable { .. }) if may_repeat && asked < MAX_PAGE_RETRIES => {
                    asked += 1;
                }
                answer => return answer,
            }
            thread::sleep(pause);
            pause = MAX_PAUSE.min(pause * 2);
        }
    }

    /// Pushes what the peer lacks; always to one with an incomplete state transfer, as its answer says whether it
    /// needs another one. Returns whether the peer has something that is not here: it began an epoch, or was written
    /// to, since it was asked.
    fn push(
        &mut self,
        store: &DataStore,
        is_joining: bool,
        progress: ExchangeProgress<'_>,
    ) -> Result<bool> {
        let mut handed_over = false;
        loop {
            let theirs = self.request(Kind::Greet, &[], Kind::Greeting)?;
            let greeted = isomer_replication::read_greeting(store, &theirs)?;
            let has_more = !greeted.is_past;
            if greeted.is_ahead && (handed_over || !is_joining) {
                return Ok(has_more);
            }
            let page = isomer_replication::entries_for(store, &theirs, PAGE_BYTES)?;
            let applied = self.request(Kind::Apply, &page, Kind::Applied)?;
            let applied = decode_applied(&applied).ok_or_else(|| SyncError::Malformed {
                peer: self.peer.name().to_owned(),
                what: "the entries that it applied".into(),
            })?;
            self.done.sent += applied.transactions;
            self.done.held_there = applied.held.or(self.done.held_there);
            progress(&self.done);
            if applied.behind && !handed_over {
                self.push_state(store, progress)?;
                handed_over = true;
            } else if !more_follow(applied) {
                return Ok(has_more);
            }
        }
    }
}

/// Whether more entries follow; a page without progress ends an exchange in any case.
fn more_follow(applied: Applied) -> bool {
    applied.more && applied.transactions > 0
}

#[cfg(test)]
mod tests {
    use isomer_db::internals::DatabaseInternals as _;

    use isomer_db::Database;

    use super::*;
    use crate::{answer::answer, frame};

    /// A peer that releases the snapshot of a join once, and whose connection breaks off at every `breaks`-th page.
    struct Busy {
        store: DataStore,
        pages: u32,
        lets_go: bool,
        breaks: Option<u32>,
    }

    impl PeerConnection for Busy {
        fn name(&self) -> &str {
            "busy"
        }

        fn request(&mut self, asked: &[u8]) -> Result<Vec<u8>> {
            if let Ok((Kind::Snapshot, _)) = frame::decode(asked) {
                self.pages += 1;
                if self.pages == 2 && self.lets_go {
                    let gone = frame::encode(Kind::Snapshot, &[0; 20]);
                    return Ok(answer(&self.store, &gone));
                }
                let is_cut = |every: u32| self.pages.is_multiple_of(every);
                if self.breaks.is_some_and(is_cut) {
                    // The page was produced, and is lost.
                    drop(answer(&self.store, asked));
                    return Err(SyncError::Unreachable {
                        peer: "busy".into(),
                        reason: "the connection broke off".into(),
                    });
                }
            }
            Ok(answer(&self.store, asked))
        }
    }

    /// Joins ten records of a mebibyte; returns how many pages were requested, and the reported progress.
    fn joined(lets_go: bool, breaks: Option<u32>) -> (u32, Vec<(u64, u64)>) {
        let (full, new) = (
            Database::open_in_memory().unwrap(),
            Database::open_in_memory().unwrap(),
        );
        let long = "x".repeat(1 << 20);
        for key in 0..10 {
            let text = format!("CREATE (:Long {{_key: {key}, text: '{long}'}})");
            full.query(&text).unwrap();
        }
        let mut busy = Busy {
            store: full.store().unwrap(),
            pages: 0,
            lets_go,
            breaks,
        };
        isomer_replication::begin_replication(&busy.store).unwrap();
        let store = new.store().unwrap();
        isomer_replication::begin_replication(&store).unwrap();
        let mut steps = Vec::new();
        let done = exchange(&store, &mut busy, &mut |so_far| {
            steps.push((so_far.pages, so_far.bytes));
        })
        .unwrap();
        assert!(done.joined);
        assert!(steps.is_sorted(), "progress is monotonic: {steps:?}");
        let found = new.query("MATCH (n:Long) RETURN count(n) AS n").unwrap();
        assert_eq!(found.rows()[0].get::<i64>("n").unwrap(), 10);
        assert!(!store.is_joining());
        (busy.pages, steps)
    }

    /// A peer that joins what is pushed, but answers too late: the sender is refused while the join runs, or waits in
    /// vain.
    struct Slow {
        store: DataStore,
        late: Vec<SyncError>,
        pushed: u32,
    }

    impl PeerConnection for Slow {
        fn name(&self) -> &str {
            "slow"
        }

        fn request(&mut self, asked: &[u8]) -> Result<Vec<u8>> {
            let reply = answer(&self.store, asked);
            if !matches!(frame::decode(asked), Ok((Kind::Join, _))) {
                return Ok(reply);
            }
            self.pushed += 1;
            let is_last = match frame::decode(&reply) {
                Ok((Kind::Applied, content)) => decode_applied(&content).is_some_and(|it| !it.more),
                _ => false,
            };
            match self.late.pop().filter(|_| is_last) {
                Some(error) => Err(error),
                None => Ok(reply),
            }
        }
    }

    #[test]
    fn the_last_page_is_pushed_until_the_peer_has_joined_it() {
        let (full, new) = (
            Database::open_in_memory().unwrap(),
            Database::open_in_memory().unwrap(),
        );
        let long = "x".repeat(1 << 20);
        for key in 0..10 {
            let text = format!("CREATE (:Long {{_key: {key}, text: '{long}'}})");
            full.query(&text).unwrap();
        }
        let store = full.store().unwrap();
        isomer_replication::begin_replication(&store).unwrap();
        let late = || {
            let running = SyncError::There {
                peer: "slow".into(),
                kind: crate::error::JOIN_RUNNING.into(),
                message: "a snapshot is being joined".into(),
            };
            let cut = SyncError::Unreachable {
                peer: "slow".into(),
                reason: "no answer in time".into(),
            };
            vec![running, cut]
        };
        let mut slow = Slow {
            store: new.store().unwrap(),
            late: Vec::new(),
            pushed: 0,
        };
        isomer_replication::begin_replication(&slow.store).unwrap();
        let push = |slow: &mut Slow| {
            let mut exchange = Exchange {
                peer: slow,
                done: ExchangeReport::default(),
            };
            exchange.push_state(&store, &mut |_| {})
        };
        push(&mut slow).unwrap();
        let pages = slow.pushed;
        assert!(pages > 2, "{pages} pages");
        // Errors are taken from the end, one a page: only those of the last page are returned.
        slow.pushed = 0;
        slow.late = late();
        slow.late
            .extend((1..pages).map(|_| SyncError::Invalid("of an earlier page".into())));
        push(&mut slow).unwrap();
        assert_eq!(slow.pushed, pages + 2, "the last page was sent three times");
        let found = new.query("MATCH (n:Long) RETURN count(n) AS n").unwrap();
        assert_eq!(found.rows()[0].get::<i64>("n").unwrap(), 10);
    }

    #[test]
    fn a_join_whose_snapshot_was_released_restarts() {
        let (pages, _) = joined(true, None);
        assert!(pages > 4, "{pages} pages");
    }

    #[test]
    fn a_join_resumes_where_the_connection_broke_off() {
        let (all, _) = joined(false, None);
        let (pages, steps) = joined(false, Some(3));
        let cut = u64::from(pages / 3);
        assert!(cut > 1, "{pages} pages");
        assert_eq!(
            u64::from(pages),
            u64::from(all) + cut,
            "only those pages are produced again"
        );
        assert!(steps.len() >= all as usize);
    }
}
