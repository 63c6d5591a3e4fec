//! Errors as drivers know them: Neo4j's codes, by which drivers tell what to do (only `Neo.TransientError…` is run again), and from
//! 5.7 on GQL's status.

use isomer_db::ErrorKind;

use super::{handshake::Version, packstream::Writer};
use crate::ServerError;

/// What a client is told of an error.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Neo4j's code.
    pub code: &'static str,
    /// What happened, and what to do.
    pub message: String,
    /// The kind of the error, for the audit log.
    pub kind: &'static str,
    /// The status that HTTP would answer with.
    pub status: u16,
}

impl Failure {
    /// A message that the protocol does not allow here: the connection ends with it.
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::of_code("Neo.ClientError.Request.Invalid", message)
    }

    /// A failure of the client's with this code.
    pub fn of_code(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            kind: "Invalid",
            status: 400,
        }
    }

    /// An error of the server, in the words for drivers.
    pub fn of(error: &ServerError) -> Self {
        Self {
            code: code(error),
            message: error.to_string(),
            kind: error.kind(),
            status: crate::http::reply::status(error).as_u16(),
        }
    }

    /// The same with another code.
    pub fn with_code(self, code: &'static str) -> Self {
        Self { code, ..self }
    }

    /// Writes the `FAILURE`.
    pub fn write(&self, writer: &mut Writer<'_>, version: Version) {
        writer.structure(0x7f, 1);
        if version < Version::new(5, 7) {
            writer.dictionary(2);
            writer.text("code");
            writer.text(self.code);
            writer.text("message");
            writer.text(&self.message);
            return;
        }
        let (status, description) = gql_status(self.code);
        writer.dictionary(5);
        for (name, text) in [
            ("neo4j_code", self.code),
            ("message", &self.message),
            ("gql_status", status),
            ("description", description),
        ] {
            writer.text(name);
            writer.text(text);
        }
        writer.text("diagnostic_record");
        diagnostic_record(writer, classification(self.code));
    }
}

/// What stands beside every status: where it happened, in the terms of the standard, and its class.
fn diagnostic_record(writer: &mut Writer<'_>, classification: &str) {
    writer.dictionary(4);
    for (name, text) in [
        ("OPERATION", ""),
        ("OPERATION_CODE", "0"),
        ("CURRENT_SCHEMA", "/"),
        ("_classification", classification),
    ] {
        writer.text(name);
        writer.text(text);
    }
}

fn classification(code: &str) -> &'static str {
    match code.split('.').nth(1) {
        Some("ClientError") => "CLIENT_ERROR",
        Some("TransientError") => "TRANSIENT_ERROR",
        _ => "DATABASE_ERROR",
    }
}

fn gql_status(code: &str) -> (&'static str, &'static str) {
    match code {
        "Neo.ClientError.Statement.SyntaxError" => (
            "42001",
            "error: syntax error or access rule violation - invalid syntax",
        ),
        "Neo.ClientError.Security.Forbidden" => (
            "42NFF",
            "error: syntax error or access rule violation - permission/access denied",
        ),
        "Neo.ClientError.Security.Unauthorized" => (
            "42NFF",
            "error: syntax error or access rule violation - permission/access denied",
        ),
        "Neo.ClientError.Statement.ArithmeticError" => ("22000", "error: data exception"),
        "Neo.ClientError.Statement.TypeError" => {
            ("22G03", "error: data exception - invalid value type")
        }
        "Neo.TransientError.Transaction.Outdated" => ("40000", "error: transaction rollback"),
        "Neo.ClientError.Database.DatabaseNotFound" => ("22000", "error: data exception"),
        _ => (
            "50N42",
            "error: general processing exception - unexpected error",
        ),
    }
}

/// Neo4j's name for an error. What it has no name for gets one in its style.
fn code(error: &ServerError) -> &'static str {
    match error {
        ServerError::Database(error) => {
            if let Some(query) = error.query_error()
                && let Some(code) = code_of_class(query.class)
            {
                return code;
            }
            match error.kind() {
                ErrorKind::Retry => "Neo.TransientError.Transaction.Outdated",
                ErrorKind::Exists => "Neo.ClientError.Schema.ConstraintValidationFailed",
                ErrorKind::Invalid => "Neo.ClientError.Statement.ArgumentError",
                ErrorKind::NotFound => "Neo.ClientError.Statement.EntityNotFound",
                ErrorKind::Denied => "Neo.ClientError.Security.Forbidden",
                ErrorKind::Limit => "Neo.ClientError.General.LimitExceeded",
                ErrorKind::Cancelled => "Neo.ClientError.Transaction.Terminated",
                ErrorKind::Unsupported => "Neo.ClientError.Statement.UnsupportedOperationError",
                ErrorKind::Unavailable | ErrorKind::Closed => {
                    "Neo.TransientError.General.DatabaseUnavailable"
                }
                ErrorKind::OutcomeUnknown => {
                    "Neo.DatabaseError.Transaction.TransactionCommitFailed"
                }
                ErrorKind::Corrupt => "Neo.DatabaseError.General.StorageDamageDetected",
                ErrorKind::Internal => "Neo.DatabaseError.General.UnknownError",
            }
        }
        ServerError::Unauthenticated(_) => "Neo.ClientError.Security.Unauthorized",
        ServerError::Denied(_) | ServerError::Misdirected(_) => {
            "Neo.ClientError.Security.Forbidden"
        }
        ServerError::Exists(_) => "Neo.ClientError.Schema.ConstraintValidationFailed",
        ServerError::NotFound(_) => "Neo.ClientError.Statement.EntityNotFound",
        ServerError::TooLarge(_) => "Neo.ClientError.General.LimitExceeded",
        ServerError::TooMany { .. } => "Neo.TransientError.Request.NoThreadsAvailable",
        ServerError::TooSlow(_) => "Neo.ClientError.Transaction.TransactionTimedOut",
        ServerError::Unavailable(_) => "Neo.TransientError.General.DatabaseUnavailable",
        ServerError::Internal(_) => "Neo.DatabaseError.General.UnknownError",
        ServerError::Invalid(_)
        | ServerError::Precondition(_)
        | ServerError::Gone(_)
        | ServerError::MediaType(_) => "Neo.ClientError.Statement.ArgumentError",
    }
}

/// The classes of openCypher's specification.
fn code_of_class(class: &str) -> Option<&'static str> {
    Some(match class {
        "SyntaxError" => "Neo.ClientError.Statement.SyntaxError",
        "SemanticError" => "Neo.ClientError.Statement.SemanticError",
        "TypeError" => "Neo.ClientError.Statement.TypeError",
        "ArgumentError" => "Neo.ClientError.Statement.ArgumentError",
        "ArithmeticError" => "Neo.ClientError.Statement.ArithmeticError",
        "EntityNotFound" => "Neo.ClientError.Statement.EntityNotFound",
        "ParameterMissing" => "Neo.ClientError.Statement.ParameterMissing",
        "ConstraintVerificationFailed" | "ConstraintValidationFailed" => {
            "Neo.ClientError.Schema.ConstraintValidationFailed"
        }
        "ProcedureError" => "Neo.ClientError.Procedure.ProcedureCallFailed",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_succeed_the_next_time_is_transient() {
        let db = isomer_db::Database::open_in_memory().unwrap();
        let code = |query: &str| Failure::of(&db.query(query, ()).unwrap_err().into()).code;
        for (query, expected) in [
            ("RETRUN 1", "Neo.ClientError.Statement.SyntaxError"),
            ("RETURN x", "Neo.ClientError.Statement.SyntaxError"),
            ("RETURN $x", "Neo.ClientError.Statement.ParameterMissing"),
            ("RETURN 1 / 0", "Neo.ClientError.Statement.ArithmeticError"),
            (
                "UNWIND [1, 'a'] AS x RETURN x.y",
                "Neo.ClientError.Statement.TypeError",
            ),
        ] {
            assert_eq!(code(query), expected, "{query}");
        }
        db.query("CREATE (:A {_key: 1})", ()).unwrap();
        assert_eq!(
            code("CREATE (:A {_key: 1})"),
            "Neo.ClientError.Schema.ConstraintValidationFailed"
        );
        let mut first = db.begin().unwrap();
        let add = "MATCH (a:A) SET a.n = coalesce(a.n, 0) + 1";
        first.query(add, ()).unwrap();
        db.query(add, ()).unwrap();
        let lost = Failure::of(&first.commit().unwrap_err().into());
        assert_eq!(lost.code, "Neo.TransientError.Transaction.Outdated");
        let busy = ServerError::TooMany {
            message: "busy".into(),
            retry_after_s: 1,
        };
        assert!(Failure::of(&busy).code.starts_with("Neo.TransientError."));
    }
}
