//! Functions that query convergent fields without loading them.

use isomer_data::ConvergentOwner;
use isomer_plan::function::Function as Builtin;
use isomer_value::Value;

use super::{
    body::{Function, integer, lenient, text, wrong},
    environment::{Environment, FieldQuery},
};
use crate::error::{ExecError, Result};

/// Maximum number of elements per page.
const MAX_PAGE: i64 = 1_000_000;

pub(super) fn find(function: Builtin) -> Option<Function> {
    match function {
        Builtin::ConvergentKind => {
            lenient(|args, env| query("convergent.kind", args, FieldQuery::Kind, env))
        }
        Builtin::ConvergentValue => {
            lenient(|args, env| query("convergent.value", args, FieldQuery::Value, env))
        }
        Builtin::ConvergentContains => lenient(|args, env| match &args[2] {
            Value::Null => Ok(Value::Null),
            value => query(
                "convergent.contains",
                args,
                FieldQuery::Contains(value),
                env,
            ),
        }),
        Builtin::ConvergentSize => {
            lenient(|args, env| query("convergent.size", args, FieldQuery::Size, env))
        }
        Builtin::ConvergentPage => lenient(|args, env| {
            let limit = integer("convergent.page", &args[3])?;
            if !(0..=MAX_PAGE).contains(&limit) {
                return Err(ExecError::type_error(format!(
                    "convergent.page() takes 0 to {MAX_PAGE} elements, not {limit}"
                )));
            }
            let page = FieldQuery::Page(&args[2], limit as usize);
            query("convergent.page", args, page, env)
        }),
        _ => None,
    }
}

/// Queries the field at a path (a list of names, or one) of a node or relationship; null for anything else.
fn query(
    function: &str,
    args: &[Value],
    query: FieldQuery<'_>,
    env: &dyn Environment,
) -> Result<Value> {
    let owner = match &args[0] {
        Value::Node(node) => ConvergentOwner::Node(node.id),
        Value::Relationship(one) => ConvergentOwner::Relationship(one.id),
        _ => return Ok(Value::Null),
    };
    let path: Vec<&str> = match &args[1] {
        Value::String(name) => vec![name],
        Value::List(names) => names
            .iter()
            .map(|name| Ok(&**text(function, name)?))
            .collect::<Result<_>>()?,
        other => return Err(wrong(function, "a path: a list of names, or one", other)),
    };
    env.query_field(owner, &path, query)
}
