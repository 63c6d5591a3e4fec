//! The other side: answers to frames, whatever the way they came.

use isomer_data::{Applied, PushedPage, Store};

use crate::frame::{self, Kind, NoFrame};

/// Longest frame that is read.
pub const MAX_FRAME_BYTES: usize = frame::MOST + frame::HEAD;
/// About how long pages of a snapshot are: what is made of one on its way (rows, a write set, a record of the log) is used again
/// for the next one, where larger ones would take fresh memory each time.
pub(crate) const SNAPSHOT_BYTES: usize = 1 << 20;
/// About how long pages of entries are.
pub(crate) const PAGE_BYTES: usize = 1 << 20;

/// Answers a frame. Whatever is wrong with it, the answer says so in a frame.
pub fn answer(store: &Store, asked: &[u8]) -> Vec<u8> {
    let (kind, content) = match frame::decode(asked) {
        Ok(decoded) => decoded,
        Err(NoFrame::Version(found)) => {
            let own = frame::VERSION;
            return refused(
                "Unsupported",
                &format!(
                    "version {found} of the protocol is not spoken here, but version {own}: bring both to the same version"
                ),
            );
        }
        Err(NoFrame::What(what)) => return refused("Invalid", &format!("no frame came: {what}")),
    };
    let answered = match kind {
        Kind::Greet => store.greeting().map(|page| (Kind::Greeting, page)),
        Kind::Entries => store
            .entries_for(&content, PAGE_BYTES)
            .and_then(|page| store.cut_log().map(|()| (Kind::Page, page))),
        Kind::Apply => store
            .apply_entries(&content)
            .map(|applied| (Kind::Applied, encode_applied(applied))),
        Kind::Fingerprints => store.fingerprints().map(|page| (Kind::Page, page)),
        Kind::Ranges => {
            let ranges: Vec<u16> = content
                .chunks_exact(2)
                .map(|two| u16::from_le_bytes([two[0], two[1]]))
                .collect();
            store.ranges_page(&ranges).map(|page| (Kind::Page, page))
        }
        Kind::Repair => store
            .repair(&content)
            .map(|()| (Kind::Applied, encode_applied(Applied::default()))),
        Kind::Snapshot => store
            .snapshot_page(&content, SNAPSHOT_BYTES)
            .map(|page| (Kind::Page, page)),
        Kind::Join => match decode_pushed(&content) {
            Some(pushed) => store.join_pushed(&pushed).map(|(session, is_last)| {
                let applied = Applied {
                    more: !is_last,
                    ..Applied::default()
                };
                let mut content = encode_applied(applied);
                content.extend_from_slice(&session.to_le_bytes());
                (Kind::Applied, content)
            }),
            None => return refused("Invalid", "a page of a snapshot is malformed"),
        },
        _ => return refused("Invalid", "this kind of frame is no question"),
    };
    match answered {
        Ok((kind, content)) => frame::encode(kind, &content),
        Err(error) => refused(error.kind().name(), &error.to_string()),
    }
}

fn refused(kind: &str, message: &str) -> Vec<u8> {
    frame::encode(Kind::Refused, format!("{kind}\n{message}").as_bytes())
}

/// A page that is handed over, see [`Kind::Join`].
pub(crate) fn encode_pushed(pushed: &PushedPage<'_>) -> Vec<u8> {
    let mut bytes = pushed.session.to_le_bytes().to_vec();
    bytes.extend_from_slice(&pushed.from);
    bytes.extend_from_slice(&(pushed.place.len() as u32).to_le_bytes());
    bytes.extend_from_slice(pushed.place);
    bytes.extend_from_slice(pushed.page);
    bytes
}

fn decode_pushed(bytes: &[u8]) -> Option<PushedPage<'_>> {
    let (session, bytes) = bytes.split_first_chunk::<16>()?;
    let (from, bytes) = bytes.split_first_chunk::<16>()?;
    let (length, bytes) = bytes.split_first_chunk::<4>()?;
    let (place, page) = bytes.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some(PushedPage {
        session: u128::from_le_bytes(*session),
        from: *from,
        place,
        page,
    })
}

/// The number of the session in the answer to a page that was handed over.
pub(crate) fn decode_session(answer: &[u8]) -> Option<u128> {
    let number = answer.get(26..42)?;
    Some(u128::from_le_bytes(number.try_into().ok()?))
}

pub(crate) fn encode_applied(applied: Applied) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [applied.transactions, applied.operations, applied.known] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&[u8::from(applied.more), u8::from(applied.behind)]);
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
    })
}
