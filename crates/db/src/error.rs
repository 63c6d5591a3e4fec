//! One error type, split by what the caller does next.

use std::{error::Error as StdError, fmt};

pub use isomer_data::ErrorKind;

/// Short for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. [`Error::kind`] says what to do next; the message may change from version to version, the kind may not.
///
/// ```
/// use isomer_db::{Database, ErrorKind};
///
/// let db = Database::open_in_memory()?;
/// let error = db.query("MATCH (n) RETRUN n", ()).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Invalid);
/// assert!(error.to_string().contains("line 1, column 11"));
/// # Ok::<(), isomer_db::Error>(())
/// ```
pub struct Error {
    inner: Box<Inner>,
}

struct Inner {
    kind: ErrorKind,
    message: String,
    /// The message with the place in the query's text, over several lines.
    rendered: Option<String>,
    query: Option<QueryError>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// When a query failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Before it ran: nothing was read.
    Prepare,
    /// While it ran.
    Run,
}

/// How the openCypher specification names an error of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueryError {
    /// When it was found.
    pub phase: Phase,
    /// `SyntaxError`, `TypeError`, …
    pub class: &'static str,
    /// `UndefinedVariable`, `InvalidArgumentValue`, …
    pub detail: &'static str,
}

impl Error {
    /// What the caller does next.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// What happened, with the values, in one line; [`fmt::Display`] adds the place in the query's text.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// The openCypher names, for an error that the language defines.
    pub fn query_error(&self) -> Option<QueryError> {
        self.inner.query
    }

    /// An error of the caller's own, to leave a [`transact`](crate::Database::transact) with.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            inner: Box::new(Inner {
                kind,
                message: message.into(),
                rendered: None,
                query: None,
                source: None,
            }),
        }
    }

    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the database was closed: open it again")
    }

    pub(crate) fn with_query(mut self, query: QueryError) -> Self {
        self.inner.query = Some(query);
        self
    }

    pub(crate) fn with_rendered(mut self, rendered: String) -> Self {
        self.inner.rendered = Some(rendered);
        self
    }

    pub(crate) fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.inner.source = Some(Box::new(source));
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            self.inner
                .rendered
                .as_deref()
                .unwrap_or(&self.inner.message),
        )
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.kind().name())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        // The message of the layer below is this error's own message: its source is what lies under that.
        self.inner.source.as_deref().and_then(StdError::source)
    }
}
