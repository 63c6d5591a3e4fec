//! What clients ask for.

use std::time::Duration;

use isomer_db::{Map, Value};

use super::{
    handshake::Version,
    packstream::{Read, Reader, malformed, refused},
};

/// A kind of message of clients.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// The tag of its structure.
    pub tag: u8,
    /// What must have been said before.
    pub needs: Needs,
}

/// What somebody needs to send a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: it is how one becomes known.
    Nobody,
    /// To be known.
    Known,
    /// To be known, and a right on the database that it names.
    Database,
    /// An open result or transaction, which only those with a right have.
    Opened,
}

const fn kind(name: &'static str, tag: u8, needs: Needs) -> Kind {
    Kind { name, tag, needs }
}

/// All messages of clients. Figures and the tests of rights come from this table.
pub const MESSAGES: &[Kind] = &[
    kind("HELLO", 0x01, Needs::Nobody),
    kind("LOGON", 0x6a, Needs::Nobody),
    kind("GOODBYE", 0x02, Needs::Nobody),
    kind("LOGOFF", 0x6b, Needs::Known),
    kind("RESET", 0x0f, Needs::Known),
    kind("TELEMETRY", 0x54, Needs::Known),
    kind("ROUTE", 0x66, Needs::Database),
    kind("RUN", 0x10, Needs::Database),
    kind("BEGIN", 0x11, Needs::Database),
    kind("PULL", 0x3f, Needs::Opened),
    kind("DISCARD", 0x2f, Needs::Opened),
    kind("COMMIT", 0x12, Needs::Opened),
    kind("ROLLBACK", 0x13, Needs::Opened),
];

/// The number of the message with this tag in [`MESSAGES`].
pub(super) fn number_of(tag: u8) -> Option<usize> {
    MESSAGES.iter().position(|kind| kind.tag == tag)
}

/// A message.
#[derive(Debug)]
pub(super) enum Request {
    Hello(Map),
    Logon(Map),
    Logoff,
    Goodbye,
    Reset,
    Telemetry,
    Route {
        routing: Map,
        on: On,
    },
    Begin(On),
    Run {
        text: String,
        parameters: Map,
        on: On,
    },
    Pull(Take),
    Discard(Take),
    Commit,
    Rollback,
}

/// What a transaction is to be like.
#[derive(Debug, Default)]
pub(super) struct On {
    pub database: Option<String>,
    pub bookmarks: Vec<String>,
    pub time: Option<Duration>,
    pub reads_only: bool,
    pub impersonated: Option<String>,
    /// Which notifications are wanted, where that is said.
    pub notifications: Option<Wanted>,
}

/// How many rows, and of which result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Take {
    /// All where absent.
    pub count: Option<u64>,
    /// The last one where absent.
    pub result: Option<u64>,
}

/// Which notifications a client wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// `OFF`, `WARNING` or `INFORMATION`, in capitals; all where absent.
    pub least: Option<String>,
    /// Categories that it does not want.
    pub without: Vec<String>,
}

impl Wanted {
    /// What the entries of a message say; nothing where they say nothing.
    pub(super) fn of(extra: &Map) -> Read<Option<Self>> {
        let least = text(extra, "notifications_minimum_severity")?;
        let mut said = least.is_some();
        let mut without = Vec::new();
        for name in [
            "notifications_disabled_categories",
            "notifications_disabled_classifications",
        ] {
            if extra.get(name).is_some_and(|value| !value.is_null()) {
                said = true;
                without.extend(texts(extra, name)?);
            }
        }
        Ok(said.then_some(Self {
            least: least.map(|least| least.to_ascii_uppercase()),
            without,
        }))
    }
}

/// Before somebody is known: what a login takes, and no more.
const DEPTH_BEFORE_LOGIN: usize = 4;
const BUDGET_BEFORE_LOGIN: usize = 64 << 10;

impl Request {
    /// Reads a message; `known` is whether its sender is known, `most` how long messages may be.
    pub(super) fn read(bytes: &[u8], version: Version, known: bool, most: usize) -> Read<Self> {
        let (depth, budget) = if known {
            // A parameter may be as deep as values are.
            (usize::MAX, most.saturating_mul(8))
        } else {
            (DEPTH_BEFORE_LOGIN, BUDGET_BEFORE_LOGIN)
        };
        let mut reader = Reader::new(bytes, depth, budget);
        let (tag, fields) = reader.head()?;
        let request = match (tag, fields) {
            (0x01, 1) => Self::Hello(reader.dictionary()?),
            (0x6a, 1) if version.has_logon() => Self::Logon(reader.dictionary()?),
            (0x6b, 0) if version.has_logon() => Self::Logoff,
            (0x02, 0) => Self::Goodbye,
            (0x0f, 0) => Self::Reset,
            (0x54, 1) if version >= Version::new(5, 4) => {
                reader.value()?;
                Self::Telemetry
            }
            (0x66, 3) => {
                let routing = reader.dictionary()?;
                let bookmarks = reader.value()?;
                let mut extra = reader.dictionary()?;
                extra.insert("bookmarks", bookmarks);
                Self::Route {
                    routing,
                    on: On::of(&extra)?,
                }
            }
            (0x10, 3) => {
                let Value::String(text) = reader.value()? else {
                    return malformed("the text of a query is a string");
                };
                let parameters = reader.dictionary()?;
                Self::Run {
                    text: text.to_string(),
                    parameters,
                    on: On::of(&reader.dictionary()?)?,
                }
            }
            (0x11, 1) => Self::Begin(On::of(&reader.dictionary()?)?),
            (0x3f, 1) => Self::Pull(Take::of(&reader.dictionary()?)?),
            (0x2f, 1) => Self::Discard(Take::of(&reader.dictionary()?)?),
            (0x12, 0) => Self::Commit,
            (0x13, 0) => Self::Rollback,
            _ => {
                return malformed(format!(
                    "Bolt {}.{} has no message {tag:02X} with {fields} fields",
                    version.major, version.minor
                ));
            }
        };
        reader.end()?;
        Ok(request)
    }
}

impl On {
    fn of(extra: &Map) -> Read<Self> {
        let time = match extra.get("tx_timeout") {
            None | Some(Value::Null | Value::Int(0)) => None,
            Some(Value::Int(ms @ 1..)) => Some(Duration::from_millis(ms.unsigned_abs())),
            Some(other) => {
                return refused(format!(
                    "`tx_timeout` is {}: milliseconds from 0 are expected",
                    other.type_name()
                ));
            }
        };
        let reads_only = match text(extra, "mode")?.as_deref() {
            None | Some("w") => false,
            Some("r") => true,
            Some(other) => {
                return refused(format!(
                    "`mode` is `{}`: r or w is expected",
                    other.chars().take(20).collect::<String>()
                ));
            }
        };
        Ok(Self {
            database: text(extra, "db")?.filter(|name| !name.is_empty()),
            bookmarks: texts(extra, "bookmarks")?,
            time,
            reads_only,
            impersonated: text(extra, "imp_user")?,
            notifications: Wanted::of(extra)?,
        })
    }
}

impl Take {
    fn of(extra: &Map) -> Read<Self> {
        let number = |name: &str| match extra.get(name) {
            None | Some(Value::Null | Value::Int(-1)) => Ok(None),
            Some(Value::Int(number @ 0..)) => Ok(Some(number.unsigned_abs())),
            Some(_) => malformed(format!("`{name}` is a number from 0, or -1")),
        };
        if number("n")? == Some(0) {
            return malformed("`n` is a number from 1, or -1");
        }
        Ok(Self {
            count: number("n")?,
            result: number("qid")?,
        })
    }
}

/// A text among the entries of a message; null is none.
pub(super) fn text(extra: &Map, name: &str) -> Read<Option<String>> {
    match extra.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.to_string())),
        Some(other) => refused(format!(
            "`{name}` is a {}: a string is expected",
            other.type_name()
        )),
    }
}

fn texts(extra: &Map, name: &str) -> Read<Vec<String>> {
    let list = match extra.get(name) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(value) => value.as_list(),
    };
    let texts: Option<Vec<String>> = list.and_then(|items| {
        items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect()
    });
    match texts {
        Some(texts) => Ok(texts),
        None => refused(format!("`{name}` is a list of strings")),
    }
}
