//! Messages of clients.

use std::time::Duration;

use isomer_db::{Map, Value};

use super::{
    handshake::Version,
    packstream::{ParseResult, Reader, malformed, refused},
};

/// A type of client message.
#[derive(Clone, Copy, Debug)]
pub struct MessageType {
    /// Its name.
    pub name: &'static str,
    /// Tag of its structure.
    pub tag: u8,
    /// What it requires.
    pub needs: MessageNeeds,
}

/// What a message requires of its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageNeeds {
    /// Nothing: it authenticates the client.
    Public,
    /// Authentication.
    Known,
    /// Authentication, and a right on the database that it names.
    Database,
    /// An open result or transaction, which requires a right.
    Opened,
}

const fn kind(name: &'static str, tag: u8, needs: MessageNeeds) -> MessageType {
    MessageType { name, tag, needs }
}

/// All client messages. Metrics and the tests of rights use this table.
pub const MESSAGES: &[MessageType] = &[
    kind("HELLO", 0x01, MessageNeeds::Public),
    kind("LOGON", 0x6a, MessageNeeds::Public),
    kind("GOODBYE", 0x02, MessageNeeds::Public),
    kind("LOGOFF", 0x6b, MessageNeeds::Known),
    kind("RESET", 0x0f, MessageNeeds::Known),
    kind("TELEMETRY", 0x54, MessageNeeds::Known),
    kind("ROUTE", 0x66, MessageNeeds::Database),
    kind("RUN", 0x10, MessageNeeds::Database),
    kind("BEGIN", 0x11, MessageNeeds::Database),
    kind("PULL", 0x3f, MessageNeeds::Opened),
    kind("DISCARD", 0x2f, MessageNeeds::Opened),
    kind("COMMIT", 0x12, MessageNeeds::Opened),
    kind("ROLLBACK", 0x13, MessageNeeds::Opened),
];

/// Index of the message with this tag in [`MESSAGES`].
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
        on: TransactionParameters,
    },
    Begin(TransactionParameters),
    Run {
        text: String,
        parameters: Map,
        on: TransactionParameters,
    },
    Pull(PullParameters),
    Discard(PullParameters),
    Commit,
    Rollback,
}

/// Parameters of a transaction.
#[derive(Clone, Debug, Default)]
pub(super) struct TransactionParameters {
    pub database: Option<String>,
    pub bookmarks: Vec<String>,
    pub time: Option<Duration>,
    pub reads_only: bool,
    pub impersonated: Option<String>,
    /// Metadata of the transaction.
    pub metadata: Option<Map>,
    /// Which notifications the client wants, if it says so.
    pub notifications: Option<NotificationFilter>,
}

/// How many rows, and of which result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PullParameters {
    /// `None`: all.
    pub count: Option<u64>,
    /// `None`: the last one.
    pub result: Option<u64>,
}

/// The client's notification filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NotificationFilter {
    /// Minimum severity: `OFF`, `WARNING` or `INFORMATION`; `None`: all.
    pub least: Option<String>,
    /// Disabled categories.
    pub without: Vec<String>,
}

impl NotificationFilter {
    /// Parses the filter from a message; `None` if absent.
    pub(super) fn of(extra: &Map) -> ParseResult<Option<Self>> {
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

/// Nesting limit before authentication: as much as a login needs.
const DEPTH_BEFORE_LOGIN: usize = 4;
const BUDGET_BEFORE_LOGIN: usize = 64 << 10;

impl Request {
    /// Parses a message; `known`: whether its sender is authenticated, `most`: the size limit of messages.
    pub(super) fn read(
        bytes: &[u8],
        version: Version,
        known: bool,
        most: usize,
    ) -> ParseResult<Self> {
        let (depth, budget) = if known {
            // Parameters may be nested as deep as values.
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
            (0x66, 3) if version >= Version::new(4, 3) => {
                let routing = reader.dictionary()?;
                let bookmarks = reader.value()?;
                // In 4.3 the last field is the name of the database.
                let mut extra = match version >= Version::new(4, 4) {
                    true => reader.dictionary()?,
                    false => Map::from_iter([("db", reader.value()?)]),
                };
                extra.insert("bookmarks", bookmarks);
                Self::Route {
                    routing,
                    on: TransactionParameters::of(&extra)?,
                }
            }
            (0x10, 3) => {
                let Value::String(text) = reader.value()? else {
                    return malformed("the text of a query must be a string");
                };
                let parameters = reader.dictionary()?;
                Self::Run {
                    text: text.to_string(),
                    parameters,
                    on: TransactionParameters::of(&reader.dictionary()?)?,
                }
            }
            (0x11, 1) => Self::Begin(TransactionParameters::of(&reader.dictionary()?)?),
            (0x3f, 1) => Self::Pull(PullParameters::of(&reader.dictionary()?)?),
            (0x2f, 1) => Self::Discard(PullParameters::of(&reader.dictionary()?)?),
            (0x12, 0) => Self::Commit,
            (0x13, 0) => Self::Rollback,
            _ => {
                return malformed(format!(
                    "Bolt {}.{} does not define a message {tag:02X} with {fields} fields",
                    version.major, version.minor
                ));
            }
        };
        reader.end()?;
        Ok(request)
    }
}

impl TransactionParameters {
    fn of(extra: &Map) -> ParseResult<Self> {
        let time = match extra.get("tx_timeout") {
            None | Some(Value::Null | Value::Int(0)) => None,
            Some(Value::Int(ms @ 1..)) => Some(Duration::from_millis(ms.unsigned_abs())),
            Some(other) => {
                return refused(format!(
                    "invalid `tx_timeout` {}: expected milliseconds, at least 0",
                    other.type_name()
                ));
            }
        };
        let reads_only = match text(extra, "mode")?.as_deref() {
            None | Some("w") => false,
            Some("r") => true,
            Some(other) => {
                return refused(format!(
                    "invalid `mode` `{}`: expected r or w",
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
            metadata: extra.get("tx_metadata").and_then(Value::as_map).cloned(),
            notifications: NotificationFilter::of(extra)?,
        })
    }
}

impl PullParameters {
    fn of(extra: &Map) -> ParseResult<Self> {
        let number = |name: &str| match extra.get(name) {
            None | Some(Value::Null | Value::Int(-1)) => Ok(None),
            Some(Value::Int(number @ 0..)) => Ok(Some(number.unsigned_abs())),
            Some(_) => malformed(format!("`{name}` must be at least 0, or -1")),
        };
        if number("n")? == Some(0) {
            return malformed("`n` must be at least 1, or -1");
        }
        Ok(Self {
            count: number("n")?,
            result: number("qid")?,
        })
    }
}

/// A string entry of a message; null counts as absent.
pub(super) fn text(extra: &Map, name: &str) -> ParseResult<Option<String>> {
    match extra.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.to_string())),
        Some(other) => refused(format!(
            "invalid `{name}`: expected a string, not a {}",
            other.type_name()
        )),
    }
}

fn texts(extra: &Map, name: &str) -> ParseResult<Vec<String>> {
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
        None => refused(format!("`{name}` must be a list of strings")),
    }
}
