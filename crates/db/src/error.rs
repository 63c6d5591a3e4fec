//! The error type, with a kind that tells the caller what to do next.

use std::{error::Error as StdError, fmt};

use isomer_cypher::{Span, diagnostic};
use isomer_data::DataError;
use isomer_storage::StorageError;

pub use isomer_data::{ErrorKind, SchemaClash};

/// Result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error. [`Error::kind`] says what to do next; messages may change between versions, kinds may not.
///
/// ```
/// use isomerdb::{Database, ErrorKind};
///
/// let db = Database::open_in_memory()?;
/// let error = db.query("MATCH (n) RETRUN n").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Invalid);
/// assert!(error.to_string().contains("line 1, column 11"));
/// # Ok::<(), isomerdb::Error>(())
/// ```
pub struct Error {
    inner: Box<Inner>,
}

struct Inner {
    kind: ErrorKind,
    message: String,
    /// The message with its position in the query's text, over several lines.
    rendered: Option<String>,
    place: Option<SourcePosition>,
    query: Option<QueryError>,
    schema: Option<SchemaError>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// Position of an error in the query's text, with an excerpt.
struct SourcePosition {
    span: Span,
    message: String,
    hint: Option<String>,
}

/// When a query failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Before it ran: nothing was read.
    Prepare,
    /// While it ran.
    Run,
}

/// openCypher's names for an error of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct QueryError {
    /// When it was detected.
    pub phase: Phase,
    /// `SyntaxError`, `TypeError`, …
    pub class: &'static str,
    /// `UndefinedVariable`, `InvalidArgumentValue`, …
    pub detail: &'static str,
}

/// Classification of errors about indexes and constraints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SchemaError {
    /// A write violates a constraint or a key.
    Violated,
    /// Existing records violate a constraint that was to be created.
    Unmet,
    /// A new index or constraint conflicts with an existing one.
    Exists(SchemaClash),
}

impl Error {
    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// The message with its values, in one line; [`fmt::Display`] adds the position in the query's text.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// The error as [`fmt::Display`] shows it, with its line and column in `text`: a script, for example, that contains
    /// the query's text from the byte `start` on. `None` if the error has no position.
    pub fn render_in(&self, text: &str, start: usize) -> Option<String> {
        let SourcePosition {
            span,
            message,
            hint,
        } = self.inner.place.as_ref()?;
        let span = Span::new(start + span.start as usize, start + span.end as usize);
        Some(diagnostic::render(text, span, message, hint.as_deref()))
    }

    /// The openCypher names, for an error that the language defines.
    pub fn query_error(&self) -> Option<QueryError> {
        self.inner.query
    }

    /// Its classification, if it is about indexes or constraints.
    pub fn schema_error(&self) -> Option<SchemaError> {
        self.inner.schema
    }

    /// An error of the caller, to abort a [`transact`](crate::Database::transact).
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            inner: Box::new(Inner {
                kind,
                message: message.into(),
                rendered: None,
                place: None,
                query: None,
                schema: None,
                source: None,
            }),
        }
    }

    /// Whether a database could not be opened because it is open elsewhere.
    pub(crate) fn is_in_use(&self) -> bool {
        let below = self.inner.source.as_ref();
        let below = below.and_then(|error| error.downcast_ref::<DataError>());
        matches!(below, Some(DataError::Storage(StorageError::InUse { .. })))
    }

    /// Whether a database could not be opened because it is a replica, and was to be shared.
    pub(crate) fn is_shared_replica(&self) -> bool {
        let below = self.inner.source.as_ref();
        let below = below.and_then(|error| error.downcast_ref::<DataError>());
        matches!(below, Some(DataError::SharedReplica))
    }

    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the database was closed: open it again")
    }

    pub(crate) fn with_query(mut self, query: QueryError) -> Self {
        self.inner.query = Some(query);
        self
    }

    pub(crate) fn with_schema(mut self, schema: Option<SchemaError>) -> Self {
        self.inner.schema = schema;
        self
    }

    /// Adds the position in the query's text, the excerpt and, if there is one, a hint.
    pub(crate) fn at(
        mut self,
        text: &str,
        span: Span,
        message: String,
        hint: Option<String>,
    ) -> Self {
        self.inner.place = Some(SourcePosition {
            span,
            message,
            hint,
        });
        self.inner.rendered = self.render_in(text, 0);
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
        // The message of the layer below is this error's message: its source is the next lower error.
        self.inner.source.as_deref().and_then(StdError::source)
    }
}
