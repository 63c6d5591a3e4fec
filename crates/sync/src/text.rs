//! Messages: times, ids, and transactions that are held back.

use isomer_db::jiff::Timestamp;
use isomer_replication::HeldBack;

/// Describes what was held back, where, and the consequence.
pub(crate) fn held_text(held: &HeldBack, is_here: bool) -> String {
    let (whose, holder) = match is_here {
        true => ("this database's", "held back here"),
        false => ("the peer's", "held back by the peer"),
    };
    let following = match held.transactions - 1 {
        0 => "it is".to_owned(),
        more => format!("it and {more} that follow it are"),
    };
    format!(
        "transaction {} of replica {} has the timestamp {}, ahead of {whose} clock: {following} {holder}, all else is exchanged",
        held.number,
        hex(&held.replica.id),
        time_text(held.time_ms)
    )
}

pub(crate) fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A time in ms since 1970, or that number if it is out of the calendar's range.
pub(crate) fn time_text(ms: u64) -> String {
    let time = i64::try_from(ms).ok();
    match time.and_then(|ms| Timestamp::from_millisecond(ms).ok()) {
        Some(time) => format!("{time:.0}"),
        None => format!("{ms} ms after 1970"),
    }
}
