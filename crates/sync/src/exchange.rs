//! Bringing two databases to the same state.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use isomer_data::{Applied, ErrorKind, Joining, PushedPage, Store};

use crate::{
    Result, SyncError,
    answer::{PAGE_BYTES, SNAPSHOT_BYTES, decode_applied, decode_session, encode_pushed},
    frame::{self, Kind, NoFrame},
};

/// How often one exchange begins to join a state, where what it is of is not held any more.
const MOST_BEGUN: u32 = 3;
/// How often one page of a state is asked for again where the connection broke off: the peer holds that state for a while. Between two
/// there is a pause, twice as long as the one before.
const MOST_ASKED_AGAIN: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Somebody to exchange with.
pub trait Peer: Send {
    /// What it is called in messages.
    fn name(&self) -> &str;
    /// Sends a frame and waits for the answer.
    fn ask(&mut self, frame: &[u8]) -> Result<Vec<u8>>;
}

/// What an exchange did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchanged {
    /// Transactions that came.
    pub received: u64,
    /// Operations in them.
    pub received_operations: u64,
    /// Transactions that the peer took.
    pub sent: u64,
    /// Bytes that came and went.
    pub bytes: u64,
    /// Pages of snapshots that came or went.
    pub pages: u64,
    /// Whether a snapshot was joined.
    pub joined: bool,
    /// How long it took.
    pub time: Duration,
}

/// Told how far an exchange is.
pub type Progress<'a> = &'a mut dyn FnMut(&Exchanged);

/// Exchanges transactions with a peer until neither has anything that the other one lacks.
///
/// # Errors
/// Those of the peer and of this database; what was exchanged before stays.
pub fn exchange(store: &Store, peer: &mut dyn Peer, progress: Progress<'_>) -> Result<Exchanged> {
    let start = Instant::now();
    let mut talk = Talk {
        peer,
        done: Exchanged::default(),
    };
    talk.pull(store, progress)?;
    talk.push(store, progress)?;
    store.give_up_unknown()?;
    store.cut_log()?;
    talk.done.time = start.elapsed();
    Ok(talk.done)
}

/// Exchanges with a peer, then compares all that both hold, and repairs what differs. Answers how many of
/// [`isomer_data::REPLICATION_RANGES`] ranges did.
///
/// # Errors
/// Those of [`exchange`]; [`SyncError::Unreachable`] where one of the two was written all the time.
pub fn scrub(store: &Store, peer: &mut dyn Peer, progress: Progress<'_>) -> Result<u64> {
    const ATTEMPTS: usize = 10;
    let mut repaired = 0;
    for _ in 0..ATTEMPTS {
        exchange(store, peer, progress)?;
        let mut talk = Talk {
            peer,
            done: Exchanged::default(),
        };
        let theirs = talk.ask(Kind::Fingerprints, &[], Kind::Page)?;
        let Some(differ) = store.differing(&theirs)? else {
            continue; // somebody wrote in between
        };
        if differ.is_empty() {
            return Ok(repaired);
        }
        repaired += differ.len() as u64;
        let ranges: Vec<u8> = differ
            .iter()
            .flat_map(|range| range.to_le_bytes())
            .collect();
        let theirs = talk.ask(Kind::Ranges, &ranges, Kind::Page)?;
        let ours = store.ranges_page(&differ)?;
        let repair = store.repair(&theirs).map_err(SyncError::from);
        let done = repair.and_then(|()| talk.ask(Kind::Repair, &ours, Kind::Applied));
        match done {
            Ok(_) => {}
            // One of the two was written in between: what it removed must not come back.
            Err(error) if error.kind() == ErrorKind::Unavailable => {}
            Err(error) => return Err(error),
        }
    }
    Err(SyncError::Unreachable {
        peer: peer.name().to_owned(),
        reason: "the two did not come to hold the same; one of them may be written all the time"
            .into(),
    })
}

/// A page of a peer's state.
struct StatePage {
    page: Vec<u8>,
    /// Where the next one begins.
    next: Option<Vec<u8>>,
}

struct Talk<'p> {
    peer: &'p mut dyn Peer,
    done: Exchanged,
}

impl Talk<'_> {
    fn ask(&mut self, kind: Kind, content: &[u8], expected: Kind) -> Result<Vec<u8>> {
        let frame = frame::encode(kind, content);
        let answer = self.peer.ask(&frame)?;
        self.done.bytes += (frame.len() + answer.len()) as u64;
        let peer = || self.peer.name().to_owned();
        let (kind, content) = frame::decode(&answer).map_err(|wrong| match wrong {
            NoFrame::Version(found) => SyncError::Version {
                peer: peer(),
                found,
                own: frame::VERSION,
            },
            NoFrame::What(what) => SyncError::Malformed {
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
                what: "an answer to another question".into(),
            }),
        }
    }

    /// Takes what the peer has.
    fn pull(&mut self, store: &Store, progress: Progress<'_>) -> Result<()> {
        loop {
            let page = self.ask(Kind::Entries, &store.greeting()?, Kind::Page)?;
            let applied = store.apply_entries(&page)?;
            self.done.received += applied.transactions;
            self.done.received_operations += applied.operations;
            progress(&self.done);
            let broke_off = store.is_joining() && !applied.more;
            if applied.behind || broke_off {
                self.join(store, progress)?;
            } else if !goes_on(applied) {
                return Ok(());
            }
        }
    }

    /// Joins the peer's whole state.
    fn join(&mut self, store: &Store, progress: Progress<'_>) -> Result<()> {
        if self.done.joined {
            return Err(SyncError::Unreachable {
                peer: self.peer.name().to_owned(),
                reason: "its log does not reach back to here again, just after its state was joined: either transactions are kept there for a shorter time than joining takes (`isomer replica retain`), or it was written faster than they came".into(),
            });
        }
        self.done.joined = true;
        let mut begun = 0;
        loop {
            let mut joining = store.begin_join()?;
            begun += 1;
            match self.join_pages(store, &mut joining, progress) {
                // What its pages are of is not held for ever: of a newer state, then.
                Err(error @ SyncError::There { .. })
                    if error.kind() == ErrorKind::Unavailable
                        && joining.pages() > 0
                        && begun < MOST_BEGUN => {}
                done => return done,
            }
        }
    }

    /// Joins page after page; the peer makes the next one while one is joined here.
    fn join_pages(
        &mut self,
        store: &Store,
        joining: &mut Joining,
        progress: Progress<'_>,
    ) -> Result<()> {
        let first = self.page_at(&[])?;
        let mut is_last = joining.join_page(store, &first.page)?;
        self.done.pages += 1;
        progress(&self.done);
        if let Some(next) = first.next.filter(|_| !is_last) {
            let done = &mut self.done;
            let mut talk = Talk {
                peer: &mut *self.peer,
                done: *done,
            };
            thread::scope(|scope| {
                // One page is made, and one is joined; none waits in between.
                let (sender, pages) = mpsc::sync_channel(0);
                scope.spawn(move || {
                    let mut place = Some(next);
                    while let Some(from) = place.take() {
                        let told = talk.page_at(&from).map(|came| {
                            place = came.next;
                            (came.page, talk.done.bytes)
                        });
                        if sender.send(told).is_err() {
                            return; // what was joined went wrong
                        }
                    }
                });
                for came in pages {
                    let (page, bytes) = came?;
                    is_last = joining.join_page(store, &page)?;
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
                what: "a page of its state that says neither where the next one begins nor that it is the last".into(),
            }),
        }
    }

    /// A page of the peer's state, and where the next one begins. Asked for again where the connection breaks off: what was joined
    /// until then is worth more than a pause.
    fn page_at(&mut self, place: &[u8]) -> Result<StatePage> {
        let (mut asked, mut pause) = (0, FIRST_PAUSE);
        let page = loop {
            match self.ask(Kind::Snapshot, place, Kind::Page) {
                Err(SyncError::Unreachable { .. })
                    if !place.is_empty() && asked < MOST_ASKED_AGAIN =>
                {
                    thread::sleep(pause);
                    (asked, pause) = (asked + 1, pause * 2);
                }
                told => break told?,
            }
        };
        let next = isomer_data::next_place(&page)?;
        Ok(StatePage { page, next })
    }

    /// Hands this database's whole state over.
    fn hand_over(&mut self, store: &Store, progress: Progress<'_>) -> Result<()> {
        let own = store.begin_replication()?;
        let (mut place, mut session, mut begun) = (Vec::new(), 0, 1);
        loop {
            let page = match store.snapshot_page(&place, SNAPSHOT_BYTES) {
                // What the pages are of is not held for ever: of a newer state, then.
                Err(error)
                    if error.kind() == ErrorKind::Unavailable
                        && !place.is_empty()
                        && begun < MOST_BEGUN =>
                {
                    (place, session, begun) = (Vec::new(), 0, begun + 1);
                    continue;
                }
                page => page?,
            };
            let next = isomer_data::next_place(&page)?;
            let pushed = encode_pushed(&PushedPage {
                session,
                from: own.id,
                place: &place,
                page: &page,
            });
            let answer = self.ask(Kind::Join, &pushed, Kind::Applied)?;
            session = decode_session(&answer).ok_or_else(|| SyncError::Malformed {
                peer: self.peer.name().to_owned(),
                what: "what it joined".into(),
            })?;
            self.done.pages += 1;
            progress(&self.done);
            match next {
                Some(next) => place = next,
                None => return Ok(()),
            }
        }
    }

    /// Hands over what the peer lacks.
    fn push(&mut self, store: &Store, progress: Progress<'_>) -> Result<()> {
        let mut handed_over = false;
        loop {
            let theirs = self.ask(Kind::Greet, &[], Kind::Greeting)?;
            if store.greeted(&theirs)?.is_ahead {
                return Ok(());
            }
            let page = store.entries_for(&theirs, PAGE_BYTES)?;
            let applied = self.ask(Kind::Apply, &page, Kind::Applied)?;
            let applied = decode_applied(&applied).ok_or_else(|| SyncError::Malformed {
                peer: self.peer.name().to_owned(),
                what: "what it applied".into(),
            })?;
            self.done.sent += applied.transactions;
            progress(&self.done);
            if applied.behind && !handed_over {
                self.hand_over(store, progress)?;
                handed_over = true;
            } else if !goes_on(applied) {
                return Ok(());
            }
        }
    }
}

/// Whether there is more to come; a page without progress ends an exchange in any case.
fn goes_on(applied: Applied) -> bool {
    applied.more && applied.transactions > 0
}

#[cfg(test)]
mod tests {
    use isomer_db::Database;

    use super::*;
    use crate::{answer::answer, frame};

    /// Somebody who lets the state of a join go, once, and whose connection breaks off at every so manieth page.
    struct Busy {
        store: Store,
        pages: u32,
        lets_go: bool,
        breaks: Option<u32>,
    }

    impl Peer for Busy {
        fn name(&self) -> &str {
            "busy"
        }

        fn ask(&mut self, asked: &[u8]) -> Result<Vec<u8>> {
            if let Ok((Kind::Snapshot, _)) = frame::decode(asked) {
                self.pages += 1;
                if self.pages == 2 && self.lets_go {
                    let gone = frame::encode(Kind::Snapshot, &[0; 20]);
                    return Ok(answer(&self.store, &gone));
                }
                let is_cut = |every: u32| self.pages.is_multiple_of(every);
                if self.breaks.is_some_and(is_cut) {
                    // The page was made, and is lost.
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

    /// Joins ten records of a mebibyte; answers how many pages were asked for, and what was told of the way.
    fn joined(lets_go: bool, breaks: Option<u32>) -> (u32, Vec<(u64, u64)>) {
        let (full, new) = (
            Database::open_in_memory().unwrap(),
            Database::open_in_memory().unwrap(),
        );
        let long = "x".repeat(1 << 20);
        for key in 0..10 {
            let text = format!("CREATE (:Long {{_key: {key}, text: '{long}'}})");
            full.query(&text, ()).unwrap();
        }
        let mut busy = Busy {
            store: full.store().unwrap(),
            pages: 0,
            lets_go,
            breaks,
        };
        busy.store.begin_replication().unwrap();
        let store = new.store().unwrap();
        store.begin_replication().unwrap();
        let mut steps = Vec::new();
        let done = exchange(&store, &mut busy, &mut |so_far| {
            steps.push((so_far.pages, so_far.bytes));
        })
        .unwrap();
        assert!(done.joined);
        assert!(steps.is_sorted(), "it goes forward: {steps:?}");
        let found = new
            .query("MATCH (n:Long) RETURN count(n) AS n", ())
            .unwrap();
        assert_eq!(found.rows()[0].get::<i64>("n").unwrap(), 10);
        assert!(!store.is_joining());
        (busy.pages, steps)
    }

    #[test]
    fn a_join_whose_state_was_let_go_begins_anew() {
        let (pages, _) = joined(true, None);
        assert!(pages > 4, "{pages} pages");
    }

    #[test]
    fn a_join_goes_on_where_the_connection_broke_off() {
        let (all, _) = joined(false, None);
        let (pages, steps) = joined(false, Some(3));
        let cut = u64::from(pages / 3);
        assert!(cut > 1, "{pages} pages");
        assert_eq!(
            u64::from(pages),
            u64::from(all) + cut,
            "no page is made again but those"
        );
        assert!(steps.len() >= all as usize);
    }
}
