//! Functions on strings. Positions and lengths count Unicode characters.

use std::sync::Arc;

use isomer_plan::function::Function as Builtin;
use isomer_value::Value;

use super::{
    body::{Function, integer, list, strict, string, text, wrong},
    environment::Environment,
    normal_form::{LONGEST_NORMALISED, NormalForm},
};
use crate::error::{ExecError, Result};

pub(super) fn find(function: Builtin) -> Option<Function> {
    match function {
        Builtin::ToUpper | Builtin::Upper => {
            strict(|args, env| map_text("toUpper", args, env, str::to_uppercase))
        }
        Builtin::ToLower | Builtin::Lower => {
            strict(|args, env| map_text("toLower", args, env, str::to_lowercase))
        }
        Builtin::Trim | Builtin::BTrim => strict(|args, _| trim("trim", args, true, true)),
        Builtin::LTrim => strict(|args, _| trim("ltrim", args, true, false)),
        Builtin::RTrim => strict(|args, _| trim("rtrim", args, false, true)),
        Builtin::Replace => strict(replace),
        Builtin::Split => strict(split),
        Builtin::Substring => strict(substring),
        Builtin::Left => {
            strict(|args, _| end_piece("left", args, |text, keep, _| &text[..byte_at(text, keep)]))
        }
        Builtin::Right => strict(|args, _| {
            end_piece("right", args, |text, keep, length| {
                &text[byte_at(text, length.saturating_sub(keep))..]
            })
        }),
        Builtin::CharLength => strict(|args, _| {
            Ok(Value::Int(
                text("char_length", &args[0])?.chars().count() as i64
            ))
        }),
        Builtin::Normalize => strict(|args, env| {
            let whole = text("normalize", &args[0])?;
            let form = normal_form("normalize", args)?;
            if form.holds(whole) {
                return Ok(args[0].clone());
            }
            env.allow_bytes(whole.len().saturating_mul(LONGEST_NORMALISED))?;
            Ok(string(form.normalised(whole)))
        }),
        Builtin::IsNormalized => strict(|args, _| {
            let whole = text("isNormalized", &args[0])?;
            let form = normal_form("isNormalized", args)?;
            Ok(Value::Bool(form.holds(whole)))
        }),
        _ => None,
    }
}

/// The form that the second argument names, NFC if there is none.
fn normal_form(function: &str, args: &[Value]) -> Result<NormalForm> {
    let name = match args.get(1) {
        Some(name) => &**text(function, name)?,
        None => "NFC",
    };
    NormalForm::named(name)?.ok_or_else(|| wrong(function, "NFC, NFD, NFKC or NFKD", &args[1]))
}

fn map_text(
    function: &str,
    args: &[Value],
    env: &dyn Environment,
    body: fn(&str) -> String,
) -> Result<Value> {
    let text = text(function, &args[0])?;
    env.allow_bytes(text.len())?;
    Ok(string(body(text)))
}

fn trim(function: &str, args: &[Value], start: bool, end: bool) -> Result<Value> {
    let whole = text(function, &args[0])?;
    let set: Option<Vec<char>> = match args.get(1) {
        Some(set) => Some(text(function, set)?.chars().collect()),
        None => None,
    };
    let drops = |c: char| {
        set.as_ref()
            .map_or_else(|| c.is_whitespace(), |set| set.contains(&c))
    };
    let mut rest: &str = whole;
    if start {
        rest = rest.trim_start_matches(drops);
    }
    if end {
        rest = rest.trim_end_matches(drops);
    }
    Ok(if rest.len() == whole.len() {
        args[0].clone()
    } else {
        string(rest)
    })
}

fn replace(args: &[Value], env: &dyn Environment) -> Result<Value> {
    let (original, search, replacement) = (
        text("replace", &args[0])?,
        text("replace", &args[1])?,
        text("replace", &args[2])?,
    );
    let hits = if replacement.len() > search.len() {
        original.matches(&**search).count()
    } else {
        0
    };
    env.allow_bytes(
        original
            .len()
            .saturating_add(hits.saturating_mul(replacement.len())),
    )?;
    Ok(string(original.replace(&**search, replacement)))
}

fn split(args: &[Value], env: &dyn Environment) -> Result<Value> {
    let original = text("split", &args[0])?;
    let separators: Vec<Arc<str>> = match &args[1] {
        Value::String(separator) => vec![separator.clone()],
        Value::List(items) => items
            .iter()
            .map(|item| text("split", item).cloned())
            .collect::<Result<_>>()?,
        other => {
            return Err(wrong(
                "split",
                "a string or a list of strings to split at",
                other,
            ));
        }
    };
    env.allow_bytes(original.len().saturating_mul(2))?;
    if separators.iter().any(|separator| separator.is_empty()) {
        return Ok(list(
            original.chars().map(|c| string(c.to_string())).collect(),
        ));
    }
    let mut pieces = Vec::new();
    let mut rest: &str = original;
    loop {
        let first = separators
            .iter()
            .filter_map(|separator| rest.find(&**separator).map(|at| (at, separator.len())))
            .min_by_key(|&(at, length)| (at, std::cmp::Reverse(length)));
        match first {
            Some((at, length)) => {
                pieces.push(string(&rest[..at]));
                rest = &rest[at + length..];
            }
            None => {
                pieces.push(string(rest));
                return Ok(list(pieces));
            }
        }
    }
}

fn substring(args: &[Value], _: &dyn Environment) -> Result<Value> {
    let whole = text("substring", &args[0])?;
    let start = not_negative("substring", "start", integer("substring", &args[1])?)?;
    let from = byte_at(whole, start);
    let to = match args.get(2) {
        Some(length) => {
            let length = not_negative("substring", "length", integer("substring", length)?)?;
            from + byte_at(&whole[from..], length)
        }
        None => whole.len(),
    };
    Ok(string(&whole[from..to]))
}

fn end_piece(
    function: &str,
    args: &[Value],
    cut: impl Fn(&str, usize, usize) -> &str,
) -> Result<Value> {
    let whole = text(function, &args[0])?;
    let keep = not_negative(function, "length", integer(function, &args[1])?)?;
    Ok(string(cut(whole, keep, whole.chars().count())))
}

fn not_negative(function: &str, what: &str, value: i64) -> Result<usize> {
    usize::try_from(value).map_err(|_| {
        ExecError::out_of_range(format!(
            "the {what} of {function}() is {value}: it must not be negative"
        ))
    })
}

/// Byte offset of character number `at`, or the end.
fn byte_at(text: &str, at: usize) -> usize {
    text.char_indices()
        .nth(at)
        .map_or(text.len(), |(offset, _)| offset)
}
