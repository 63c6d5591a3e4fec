//! Errors as drivers expect them: Neo4j's status codes, from which drivers decide what to do (they retry only
//! `Neo.TransientError…`), and from 5.7 on GQL status codes.

use isomer_db::{ErrorKind, SchemaClash, SchemaError};

use super::{handshake::Version, packstream::Writer};
use crate::ServerError;

/// A failure, as sent to clients.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Neo4j status code.
    pub code: &'static str,
    /// What happened, and what to do about it.
    pub message: String,
    /// The kind of the error, for the audit log.
    pub kind: &'static str,
    /// The equivalent HTTP status.
    pub status: u16,
}

impl Failure {
    /// A message that violates the protocol: the connection is closed.
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::of_code("Neo.ClientError.Request.Invalid", message)
    }

    /// A client error with this code.
    pub fn of_code(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            kind: "Invalid",
            status: 400,
        }
    }

    /// Converts an error of the server.
    pub fn of(error: &ServerError) -> Self {
        Self {
            code: code(error),
            message: error.to_string(),
            kind: error.kind(),
            status: crate::http::reply::status(error).as_u16(),
        }
    }

    /// Replaces the code.
    pub fn with_code(self, code: &'static str) -> Self {
        Self { code, ..self }
    }

    /// Writes a `FAILURE` message.
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

/// The diagnostic record of a status: operation and classification, as in the standard.
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

/// The Neo4j status code of an error, or a code in that style if Neo4j does not define one.
fn code(error: &ServerError) -> &'static str {
    match error {
        ServerError::Database(error) => {
            if let Some(schema) = error.schema_error() {
                return code_of_schema(schema);
            }
            if let Some(query) = error.query_error()
                && let Some(code) = code_of_class(query.class, query.detail)
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
                _ => "Neo.DatabaseError.General.UnknownError",
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

/// Codes of schema errors.
fn code_of_schema(error: SchemaError) -> &'static str {
    match error {
        SchemaError::Unmet => "Neo.ClientError.Schema.ConstraintCreationFailed",
        SchemaError::Exists(clash) => match clash {
            SchemaClash::Index => "Neo.ClientError.Schema.IndexAlreadyExists",
            SchemaClash::Constraint | SchemaClash::Overlap => {
                "Neo.ClientError.Schema.ConstraintAlreadyExists"
            }
            SchemaClash::IndexName => "Neo.ClientError.Schema.IndexWithNameAlreadyExists",
            SchemaClash::ConstraintName => "Neo.ClientError.Schema.ConstraintWithNameAlreadyExists",
            // `Equivalent`.
            _ => "Neo.ClientError.Schema.EquivalentSchemaRuleAlreadyExists",
        },
        // `Violated`.
        _ => "Neo.ClientError.Schema.ConstraintValidationFailed",
    }
}

/// Codes of openCypher's error classes.
fn code_of_class(class: &str, detail: &str) -> Option<&'static str> {
    Some(match class {
        "SyntaxError" => "Neo.ClientError.Statement.SyntaxError",
        "SemanticError" => "Neo.ClientError.Statement.SemanticError",
        "TypeError" => "Neo.ClientError.Statement.TypeError",
        "ArgumentError" => "Neo.ClientError.Statement.ArgumentError",
        "ArithmeticError" => "Neo.ClientError.Statement.ArithmeticError",
        "EntityNotFound" => "Neo.ClientError.Statement.EntityNotFound",
        "ParameterMissing" => "Neo.ClientError.Statement.ParameterMissing",
        "ConstraintVerificationFailed" if detail == "IndexAlreadyExists" => {
            "Neo.ClientError.Schema.EquivalentSchemaRuleAlreadyExists"
        }
        "ConstraintVerificationFailed" | "ConstraintValidationFailed" => {
            "Neo.ClientError.Schema.ConstraintValidationFailed"
        }
        "ProcedureError" if detail == "ProcedureNotFound" => {
            "Neo.ClientError.Procedure.ProcedureNotFound"
        }
        "ProcedureError" => "Neo.ClientError.Procedure.ProcedureCallFailed",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_that_a_retry_may_resolve_are_transient() {
        let db = isomer_db::Database::open_in_memory().unwrap();
        let code = |query: &str| Failure::of(&db.query(query).unwrap_err().into()).code;
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
        db.query("CREATE (:A {_key: 1})").unwrap();
        assert_eq!(
            code("CREATE (:A {_key: 1})"),
            "Neo.ClientError.Schema.ConstraintValidationFailed"
        );
        let make = |query: &str| drop(db.query(query).unwrap());
        make("CREATE INDEX i FOR (n:I) ON (n.x)");
        make("CREATE CONSTRAINT u FOR (n:U) REQUIRE n.x IS UNIQUE");
        make("CREATE CONSTRAINT r FOR (n:R) REQUIRE n.x IS NOT NULL");
        make("CREATE (:U {x: 1}), (:D {x: 1}), (:D {x: 1})");
        for (query, expected) in [
            ("CALL no.such()", "Procedure.ProcedureNotFound"),
            (
                "CREATE INDEX i FOR (n:I) ON (n.x)",
                "Schema.EquivalentSchemaRuleAlreadyExists",
            ),
            (
                "CREATE CONSTRAINT u FOR (n:U) REQUIRE n.x IS UNIQUE",
                "Schema.EquivalentSchemaRuleAlreadyExists",
            ),
            (
                "CREATE LOOKUP INDEX FOR (n) ON EACH labels(n)",
                "Schema.EquivalentSchemaRuleAlreadyExists",
            ),
            (
                "CREATE INDEX i2 FOR (n:I) ON (n.x)",
                "Schema.IndexAlreadyExists",
            ),
            (
                "CREATE INDEX i FOR (n:I) ON (n.y)",
                "Schema.IndexWithNameAlreadyExists",
            ),
            (
                "CREATE INDEX u FOR (n:I) ON (n.y)",
                "Schema.ConstraintWithNameAlreadyExists",
            ),
            (
                "CREATE CONSTRAINT i FOR (n:I) REQUIRE n.y IS UNIQUE",
                "Schema.IndexWithNameAlreadyExists",
            ),
            (
                "CREATE CONSTRAINT u FOR (n:I) REQUIRE n.y IS UNIQUE",
                "Schema.ConstraintWithNameAlreadyExists",
            ),
            (
                "CREATE INDEX FOR (n:U) ON (n.x)",
                "Schema.ConstraintAlreadyExists",
            ),
            (
                "CREATE CONSTRAINT u2 FOR (n:U) REQUIRE n.x IS UNIQUE",
                "Schema.ConstraintAlreadyExists",
            ),
            (
                "CREATE CONSTRAINT k FOR (n:U) REQUIRE n.x IS NODE KEY",
                "Schema.ConstraintAlreadyExists",
            ),
            (
                "CREATE CONSTRAINT c FOR (n:I) REQUIRE n.x IS UNIQUE",
                "Schema.IndexAlreadyExists",
            ),
            (
                "CREATE CONSTRAINT IF NOT EXISTS FOR (n:I) REQUIRE n.x IS NODE KEY",
                "Schema.IndexAlreadyExists",
            ),
            (
                "CREATE CONSTRAINT d FOR (n:D) REQUIRE n.x IS UNIQUE",
                "Schema.ConstraintCreationFailed",
            ),
            (
                "CREATE CONSTRAINT d FOR (n:D) REQUIRE n.y IS NOT NULL",
                "Schema.ConstraintCreationFailed",
            ),
            ("CREATE (:R)", "Schema.ConstraintValidationFailed"),
            ("CREATE (:U {x: 1})", "Schema.ConstraintValidationFailed"),
        ] {
            assert_eq!(
                code(query),
                format!("Neo.ClientError.{expected}"),
                "{query}"
            );
        }
        for query in [
            "CREATE INDEX i IF NOT EXISTS FOR (n:I) ON (n.x)",
            "CREATE INDEX i2 IF NOT EXISTS FOR (n:I) ON (n.x)",
            "CREATE INDEX i IF NOT EXISTS FOR (n:I) ON (n.y)",
            "CREATE CONSTRAINT u IF NOT EXISTS FOR (n:U) REQUIRE n.x IS UNIQUE",
            "CREATE CONSTRAINT u2 IF NOT EXISTS FOR (n:U) REQUIRE n.x IS UNIQUE",
            "CREATE CONSTRAINT u IF NOT EXISTS FOR (n:I) REQUIRE n.y IS UNIQUE",
        ] {
            let done = db.query(query).unwrap();
            assert_eq!(done.counters().indexes_added, 0, "{query}");
            assert_eq!(done.counters().constraints_added, 0, "{query}");
        }
        // An index over other properties, in another order or of another label does not conflict.
        make("CREATE INDEX FOR (n:O) ON (n.x, n.y)");
        make("CREATE CONSTRAINT FOR (n:O) REQUIRE (n.y, n.x) IS UNIQUE");
        make("CREATE CONSTRAINT FOR (n:O) REQUIRE n.x IS UNIQUE");
        make("CREATE CONSTRAINT FOR (n:P) REQUIRE (n.x, n.y) IS NODE KEY");
        make("DROP INDEX i");
        make("CREATE CONSTRAINT c FOR (n:I) REQUIRE n.x IS UNIQUE");
        let first = db.begin().unwrap();
        let add = "MATCH (a:A) SET a.n = coalesce(a.n, 0) + 1";
        first.query(add).unwrap();
        db.query(add).unwrap();
        let lost = Failure::of(&first.commit().unwrap_err().into());
        assert_eq!(lost.code, "Neo.TransientError.Transaction.Outdated");
        let busy = ServerError::TooMany {
            message: "busy".into(),
            retry_after_s: 1,
        };
        assert!(Failure::of(&busy).code.starts_with("Neo.TransientError."));
    }
}
