//! Looks into convergent fields that do not load them.

use isomer_data::ConvergentOwner;
use isomer_plan::function::Function as Builtin;
use isomer_value::Value;

use super::{Environment, Function, Look, integer, lenient, text, wrong};
use crate::error::{ExecError, Result};

/// Most elements of one page.
const MAX_PAGE: i64 = 1_000_000;

pub(super) fn find(function: Builtin) -> Option<Function> {
    match function {
        Builtin::ConvergentKind => {
            lenient(|args, env| look("convergent.kind", args, Look::Kind, env))
        }
        Builtin::ConvergentValue => {
            lenient(|args, env| look("convergent.value", args, Look::Value, env))
        }
        Builtin::ConvergentContains => lenient(|args, env| match &args[2] {
            Value::Null => Ok(Value::Null),
            value => look("convergent.contains", args, Look::Contains(value), env),
        }),
        Builtin::ConvergentSize => {
            lenient(|args, env| look("convergent.size", args, Look::Size, env))
        }
        Builtin::ConvergentPage => lenient(|args, env| {
            let limit = integer("convergent.page", &args[3])?;
            if !(0..=MAX_PAGE).contains(&limit) {
                return Err(ExecError::type_error(format!(
                    "convergent.page() takes 0 to {MAX_PAGE} elements, not {limit}"
                )));
            }
            let look_at = Look::Page(&args[2], limit as usize);
            look("convergent.page", args, look_at, env)
        }),
        _ => None,
    }
}

/// Looks at the field at a path (a list of names, or one) of a node or relationship; null for anything else.
fn look(function: &str, args: &[Value], look: Look<'_>, env: &dyn Environment) -> Result<Value> {
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
    env.look_into(owner, &path, look)
}
