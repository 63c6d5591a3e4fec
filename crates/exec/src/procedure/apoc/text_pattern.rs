//! `apoc.text.*` with regular expressions.

use isomer_plan::expr::StaticType;
use isomer_value::Value;

use super::{
    arguments::{Arguments, LIST},
    text::allowed,
};
use crate::{
    error::Result, pattern::Regex, procedure::table::FunctionRow, value_size::value_bytes,
};

/// Most bytes of a compiled expression.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// The functions.
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    FunctionRow::new(
        "apoc.text.split",
        "text: STRING?, regex: STRING?, limit: INTEGER? = 0",
        LIST,
        "the parts of a text between matches of a regular expression; at most `limit`, unless it is 0",
        |args| {
            let args = Arguments::new("apoc.text.split", args);
            let (Some(text), Some(regex)) = (args.text(0)?, regex(args, 1)?) else {
                return Ok(Value::Null);
            };
            let limit = usize::try_from(args.integer(2)?.unwrap_or(0)).unwrap_or(0);
            let mut parts: Vec<&str> = match limit {
                0 => regex.split(text).collect(),
                limit => regex.splitn(text, limit).collect(),
            };
            // As Java does: no empty parts at the end, unless the number of parts is limited.
            while limit == 0 && parts.len() > 1 && parts.last() == Some(&"") {
                parts.pop();
            }
            Ok(parts.into_iter().map(Value::from).collect())
        },
    ),
    FunctionRow::new(
        "apoc.text.replace",
        "text: STRING?, regex: STRING?, replacement: STRING?",
        StaticType::Any,
        "the text with the matches of a regular expression replaced; $1 is a group",
        |args| replace("apoc.text.replace", args),
    ),
    FunctionRow::new(
        "apoc.text.regreplace",
        "text: STRING?, regex: STRING?, replacement: STRING?",
        StaticType::Any,
        "the text with the matches of a regular expression replaced; $1 is a group",
        |args| replace("apoc.text.regreplace", args),
    ),
    FunctionRow::new(
        "apoc.text.regexGroups",
        "text: STRING?, regex: STRING?",
        LIST,
        "for each match of a regular expression, the match and its groups",
        |args| {
            let args = Arguments::new("apoc.text.regexGroups", args);
            let (Some(text), Some(regex)) = (args.text(0)?, regex(args, 1)?) else {
                return Ok(Value::empty_list());
            };
            let mut matches = Vec::new();
            let mut bytes = 0;
            for groups in regex.captures_iter(text) {
                let groups = groups.iter();
                let groups: Vec<Value> = groups
                    .map(|group| group.map_or("", |group| group.as_str()).into())
                    .collect();
                bytes += groups.iter().map(value_bytes).sum::<usize>();
                allowed(args, bytes)?;
                matches.push(Value::from(groups));
            }
            Ok(matches.into())
        },
    ),
];

/// The regular expression of an argument; none for null.
fn regex(args: Arguments<'_>, at: usize) -> Result<Option<Regex>> {
    let Some(text) = args.text(at)? else {
        return Ok(None);
    };
    let built = crate::pattern::RegexBuilder::new(text)
        .size_limit(MAX_REGEX_BYTES)
        .build();
    built
        .map(Some)
        .map_err(|error| args.invalid(format!("invalid regular expression `{text}`: {error}")))
}

fn replace(function: &'static str, args: &[Value]) -> Result<Value> {
    let args = Arguments::new(function, args);
    let (Some(text), Some(regex), Some(replacement)) =
        (args.text(0)?, regex(args, 1)?, args.text(2)?)
    else {
        return Ok(Value::Null);
    };
    let replacement = groups_braced(replacement);
    let (mut made, mut end) = (String::new(), 0);
    for groups in regex.captures_iter(text) {
        let Some(whole) = groups.get(0) else {
            continue;
        };
        made.push_str(&text[end..whole.start()]);
        groups.expand(&replacement, &mut made);
        end = whole.end();
        // A replacement with groups may be far longer than the text, for each match.
        allowed(args, made.len())?;
    }
    made.push_str(&text[end..]);
    Ok(made.into())
}

/// A replacement of Java, whose group numbers end at the last digit, in the notation of Rust's regular expressions.
fn groups_braced(replacement: &str) -> String {
    let mut made = String::with_capacity(replacement.len() + 4);
    let mut letters = replacement.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('$') => made.push_str("$$"),
                other => made.extend(other),
            },
            '$' => {
                let mut digits = String::new();
                while let Some(digit) = letters.next_if(char::is_ascii_digit) {
                    digits.push(digit);
                }
                match digits.is_empty() {
                    true => made.push('$'),
                    false => made.push_str(&format!("${{{digits}}}")),
                }
            }
            letter => made.push(letter),
        }
    }
    made
}
