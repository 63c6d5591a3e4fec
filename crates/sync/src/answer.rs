//! The responding side: answers frames, whatever the transport.

use isomer_data::{DataError, DataStore, ErrorKind, ReplicaId};
use isomer_replication::{Applied, HeldBack, PushedPage, crash_point};

use crate::{
    error::{CLOCK_AHEAD, JOIN_RUNNING, JOINING},
    frame::{self, FrameError, Kind},
};

/// Longest frame that is read.
pub const MAX_FRAME_BYTES: usize = frame::MAX_UNPACKED_BYTES + frame::HEADER_BYTES;
/// Approximate size of a page of a state transfer: buffers (rows, a write set, a record of the log) are reused for
/// the next page, while larger ones would be allocated anew each time.
pub(crate) const SNAPSHOT_BYTES: usize = 1 << 20;
/// Approximate size of a page of log entries.
pub(crate) const PAGE_BYTES: usize = 1 << 20;

/// Offset of what is held back in the answer to entries.
const HELD_BACK_OFFSET: usize = 42;

/// Answers a frame; errors are answered with a frame as well. Only a greeting of another replica that this database
/// may exchange with makes it a replica; any other frame leaves it as it is.
pub fn answer(store: &DataStore, asked: &[u8]) -> Vec<u8> {
    let (kind, content) = match frame::decode(asked) {
        Ok(decoded) => decoded,
        Err(FrameError::Version(found)) => {
            let own = frame::VERSION;
            return refused(
                "Unsupported",
                &format!(
                    "protocol version {found} is not supported, only {own}: upgrade both sides to the same version"
                ),
            );
        }
        Err(FrameError::Invalid(what)) => {
            return refused("Invalid", &format!("invalid frame: {what}"));
        }
    };
    crash_point();
    if let Err(error) = admit(store, kind, &content) {
        return refused(error.kind().name(), &error.to_string());
    }
    let answered = match kind {
        Kind::Greet => greet(store, &content).map(|page| (Kind::Greeting, page)),
        Kind::Entries => isomer_replication::entries_for(store, &content, PAGE_BYTES)
            .and_then(|page| isomer_replication::trim_log(store).map(|()| (Kind::Page, page))),
        Kind::Apply => isomer_replication::apply_page(store, &content)
            .map(|applied| (Kind::Applied, encode_applied(applied))),
        Kind::Fingerprints => {
            isomer_replication::fingerprints(store).map(|page| (Kind::Page, page))
        }
        Kind::Ranges => {
            let ranges: Vec<u16> = content
                .chunks_exact(2)
                .map(|two| u16::from_le_bytes([two[0], two[1]]))
                .collect();
            isomer_replication::ranges_page(store, &ranges).map(|page| (Kind::Page, page))
        }
        Kind::Repair => isomer_replication::repair(store, &content)
            .map(|()| (Kind::Applied, encode_applied(Applied::default()))),
        Kind::Snapshot => isomer_replication::state_page(store, &content, SNAPSHOT_BYTES)
            .map(|page| (Kind::Page, page)),
        Kind::Join => match decode_pushed(&content) {
            Some(pushed) => {
                isomer_replication::merge_pushed(store, &pushed).map(|(session, is_last)| {
                    let applied = Applied {
                        more: !is_last,
                        ..Applied::default()
                    };
                    (Kind::Applied, encode_session(applied, session))
                })
            }
            None => return refused("Invalid", "a page of the state transfer is malformed"),
        },
        _ => return refused("Invalid", "this kind of frame is not a request"),
    };
    crash_point();
    match answered {
        Ok((kind, content)) => frame::encode(kind, &content),
        Err(error) => refused(name_of(&error, store), &error.to_string()),
    }
}

/// Makes the database a replica when another replica greets it; refuses any other frame before that.
fn admit(store: &DataStore, kind: Kind, content: &[u8]) -> Result<(), DataError> {
    if store.is_replicated() {
        return Ok(());
    }
    match kind {
        Kind::Entries | Kind::Greet if !content.is_empty() => {
            isomer_replication::check_greeting(store, content)?;
            isomer_replication::begin_replication(store).map(drop)
        }
        _ => isomer_replication::greeting(store).map(drop), // the error says that it is not a replica
    }
}

fn greet(store: &DataStore, greeting: &[u8]) -> Result<Vec<u8>, DataError> {
    if !greeting.is_empty() {
        isomer_replication::read_greeting(store, greeting)?;
        isomer_replication::record_members(store)?;
    }
    isomer_replication::greeting(store)
}

/// The kind of a refusal. Three of them are not error kinds: the peer acts on them by itself.
fn name_of(error: &DataError, store: &DataStore) -> &'static str {
    match error {
        DataError::ClockAhead { .. } => CLOCK_AHEAD,
        // Memory that is in use now may be available later.
        DataError::OverBudget(_) => ErrorKind::Unavailable.name(),
        DataError::JoinRunning => JOIN_RUNNING,
        error if error.kind() == ErrorKind::Unavailable && store.is_joining() => JOINING,
        error => error.kind().name(),
    }
}

fn refused(kind: &str, message: &str) -> Vec<u8> {
    frame::encode(Kind::Refused, format!("{kind}\n{message}").as_bytes())
}

/// A pushed page, see [`Kind::Join`].
pub(crate) fn encode_pushed(pushed: &PushedPage<'_>) -> Vec<u8> {
    let mut bytes = pushed.session.to_le_bytes().to_vec();
    bytes.extend_from_slice(&pushed.from);
    bytes.extend_from_slice(&(pushed.cursor.len() as u32).to_le_bytes());
    bytes.extend_from_slice(pushed.cursor);
    bytes.extend_from_slice(pushed.page);
    bytes
}

fn decode_pushed(bytes: &[u8]) -> Option<PushedPage<'_>> {
    let (session, bytes) = bytes.split_first_chunk::<16>()?;
    let (from, bytes) = bytes.split_first_chunk::<16>()?;
    let (length, bytes) = bytes.split_first_chunk::<4>()?;
    let (cursor, page) = bytes.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some(PushedPage {
        session: u128::from_le_bytes(*session),
        from: *from,
        cursor,
        page,
    })
}

/// The session in the answer to a pushed page.
pub(crate) fn decode_session(answer: &[u8]) -> Option<u128> {
    let number = answer.get(26..42)?;
    Some(u128::from_le_bytes(number.try_into().ok()?))
}

pub(crate) fn encode_applied(applied: Applied) -> Vec<u8> {
    encode_session(applied, 0)
}

fn encode_session(applied: Applied, session: u128) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [applied.transactions, applied.operations, applied.known] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&[u8::from(applied.more), u8::from(applied.behind)]);
    bytes.extend_from_slice(&session.to_le_bytes());
    if let Some(held) = applied.held {
        bytes.extend_from_slice(&held.replica.to_bytes());
        for number in [held.number, held.time_ms, held.ahead_ms, held.transactions] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }
    bytes
}

pub(crate) fn decode_applied(bytes: &[u8]) -> Option<Applied> {
    let number = |at: usize| {
        let bytes = bytes.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    Some(Applied {
        transactions: number(0)?,
        operations: number(8)?,
        known: number(16)?,
        more: *bytes.get(24)? == 1,
        behind: *bytes.get(25)? == 1,
        held: bytes.get(HELD_BACK_OFFSET..).and_then(|bytes| {
            let (name, numbers) = bytes.split_at_checked(ReplicaId::BYTES)?;
            let mut numbers = numbers.chunks_exact(8).map(|eight| {
                let eight = eight.try_into().ok();
                eight.map(u64::from_le_bytes)
            });
            let mut number = || numbers.next().flatten();
            Some(HeldBack {
                replica: ReplicaId::from_bytes(name)?,
                number: number()?,
                time_ms: number()?,
                ahead_ms: number()?,
                transactions: number()?,
            })
        }),
    })
}
