//! `apoc.util.*`, `apoc.version`.

use isomer_plan::expr::StaticType;
use isomer_value::Value;

use super::arguments::{Arguments, plain_text};
use crate::{
    error::{ErrorClass, ExecError, Result},
    procedure::table::{FunctionRow, ProcedureRow},
};

/// The version of APOC whose names these are.
const APOC_VERSION: &str = "5.26.0";

/// The functions.
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    FunctionRow::new(
        "apoc.version",
        "",
        StaticType::String,
        "the version of APOC of which this server has a part",
        |_| Ok(APOC_VERSION.into()),
    ),
    FunctionRow::new(
        "apoc.util.validatePredicate",
        "predicate: BOOLEAN?, message: STRING, params: LIST? = []",
        StaticType::Boolean,
        "true; fails with a message if the predicate is true",
        |args| {
            validate(Arguments::new("apoc.util.validatePredicate", args))?;
            Ok(Value::Bool(true))
        },
    ),
];

/// The procedures.
pub(super) const PROCEDURES: &[ProcedureRow] = &[ProcedureRow::reads(
    "apoc.util.validate",
    "predicate: BOOLEAN?, message: STRING, params: LIST? = []",
    "",
    "fails with a message if the predicate is true",
    |args, _| validate(Arguments::new("apoc.util.validate", args)),
)];

fn validate(args: Arguments<'_>) -> Result<()> {
    if !args.boolean(0)? {
        return Ok(());
    }
    let message = args.text(1)?.unwrap_or_default();
    let message = formatted(message, args.list(2)?.unwrap_or_default());
    Err(ExecError::raised(
        ErrorClass::ProcedureError,
        "ValidationFailed",
        message,
    ))
}

/// Replaces `%s`, `%d` and `%f` by the parameters in their order, and `%%` by a percent sign.
fn formatted(message: &str, parameters: &[Value]) -> String {
    let mut parameters = parameters.iter();
    let mut made = String::with_capacity(message.len());
    let mut letters = message.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            made.push(letter);
            continue;
        }
        match letters.next() {
            Some('s' | 'd') => {
                made.push_str(&parameters.next().map_or_else(String::new, plain_text))
            }
            Some('f') => {
                let number = parameters
                    .next()
                    .and_then(Value::to_f64)
                    .unwrap_or_default();
                made.push_str(&format!("{number:.6}"));
            }
            Some('%') | None => made.push('%'),
            Some(other) => {
                made.push('%');
                made.push(other);
            }
        }
    }
    made
}
