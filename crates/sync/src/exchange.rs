//! Bringing two databases to the same state.

use std::time::{Duration, Instant};

use isomer_data::{Applied, ErrorKind, PushedPage, Store};

use crate::{
    Result, SyncError,
    answer::{PAGE_BYTES, SNAPSHOT_BYTES, decode_applied, decode_session, encode_pushed},
    frame::{self, Kind, NoFrame},
};

/// Somebody to exchange with.
pub trait Peer {
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
                reason: "its log was cut while its state was joined".into(),
            });
        }
        let mut joining = store.begin_join()?;
        self.done.joined = true;
        loop {
            let place = joining.place().to_vec();
            let page = self.ask(Kind::Snapshot, &place, Kind::Page)?;
            let is_last = joining.join_page(store, &page)?;
            self.done.pages = joining.pages();
            progress(&self.done);
            if is_last {
                return Ok(());
            }
        }
    }

    /// Hands this database's whole state over.
    fn hand_over(&mut self, store: &Store, progress: Progress<'_>) -> Result<()> {
        let own = store.begin_replication()?;
        let (mut place, mut session) = (Vec::new(), 0);
        loop {
            let page = store.snapshot_page(&place, SNAPSHOT_BYTES)?;
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
