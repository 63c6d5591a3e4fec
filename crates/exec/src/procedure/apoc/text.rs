//! `apoc.text.*`: functions on strings. Null as the text gives null.

use isomer_plan::expr::StaticType;
use isomer_value::Value;

use super::arguments::{Arguments, LIST, plain_text};
use crate::{error::Result, procedure::table::FunctionRow};

/// A function of one text.
macro_rules! of_text {
    ($name:literal, $description:literal, $body:expr) => {
        FunctionRow::new(
            $name,
            "text: STRING?",
            StaticType::Any,
            $description,
            |args| {
                let body: fn(&str) -> String = $body;
                let text = Arguments::new($name, args).text(0)?;
                Ok(text.map(body).into())
            },
        )
    };
}

/// A function of two texts.
macro_rules! of_texts {
    ($name:literal, $description:literal, $body:expr) => {
        FunctionRow::new(
            $name,
            "text1: STRING?, text2: STRING?",
            StaticType::Any,
            $description,
            |args| {
                let body: fn(&str, &str) -> Value = $body;
                let args = Arguments::new($name, args);
                let (Some(first), Some(second)) = (args.text(0)?, args.text(1)?) else {
                    return Ok(Value::Null);
                };
                Ok(body(first, second))
            },
        )
    };
}

/// The functions.
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    FunctionRow::new(
        "apoc.text.join",
        "texts: LIST?, delimiter: STRING?",
        StaticType::Any,
        "the texts of a list with a delimiter between them",
        |args| {
            let args = Arguments::new("apoc.text.join", args);
            let (Some(texts), Some(delimiter)) = (args.list(0)?, args.text(1)?) else {
                return Ok(Value::Null);
            };
            let texts: Vec<String> = texts.iter().map(plain_text).collect();
            allowed(args, delimiter.len().saturating_mul(texts.len()))?;
            Ok(texts.join(delimiter).into())
        },
    ),
    of_text!(
        "apoc.text.capitalize",
        "the text with its first letter in upper case",
        |text| with_first(text, char::to_uppercase)
    ),
    of_text!(
        "apoc.text.decapitalize",
        "the text with its first letter in lower case",
        |text| with_first(text, char::to_lowercase)
    ),
    of_text!(
        "apoc.text.capitalizeAll",
        "the text with the first letter of each word in upper case",
        |text| each_word(text, |word| with_first(word, char::to_uppercase))
    ),
    of_text!(
        "apoc.text.decapitalizeAll",
        "the text with the first letter of each word in lower case",
        |text| each_word(text, |word| with_first(word, char::to_lowercase))
    ),
    of_text!(
        "apoc.text.camelCase",
        "the words joined, each but the first with a capital",
        |text| with_first(&upper_camel(text), char::to_lowercase)
    ),
    of_text!(
        "apoc.text.upperCamelCase",
        "the words joined, each with a capital",
        upper_camel
    ),
    of_text!(
        "apoc.text.snakeCase",
        "the words in lower case, joined by dashes",
        |text| words(text).join("-").to_lowercase()
    ),
    of_text!(
        "apoc.text.toUpperCase",
        "the words in upper case, joined by underscores",
        |text| words(text).join("_").to_uppercase()
    ),
    of_text!(
        "apoc.text.swapCase",
        "the text with upper and lower case exchanged",
        |text| {
            let swapped = text.chars().map(|letter| match letter.is_uppercase() {
                true => letter.to_lowercase().collect::<String>(),
                false => letter.to_uppercase().collect(),
            });
            swapped.collect()
        }
    ),
    of_text!(
        "apoc.text.clean",
        "the letters and digits of the text, in lower case",
        cleaned
    ),
    of_texts!(
        "apoc.text.compareCleaned",
        "whether the letters and digits of two texts are equal, in lower case",
        |first, second| (cleaned(first) == cleaned(second)).into()
    ),
    FunctionRow::new(
        "apoc.text.slug",
        "text: STRING?, delimiter: STRING = '-'",
        StaticType::Any,
        "the text with everything between words replaced by a delimiter",
        |args| {
            let args = Arguments::new("apoc.text.slug", args);
            let (Some(text), Some(delimiter)) = (args.text(0)?, args.text(1)?) else {
                return Ok(Value::Null);
            };
            allowed(args, delimiter.len().saturating_mul(text.len()))?;
            Ok(slug(text.trim(), delimiter).into())
        },
    ),
    FunctionRow::new(
        "apoc.text.lpad",
        "text: STRING?, count: INTEGER, delimiter: STRING = ' '",
        StaticType::Any,
        "the text with a delimiter repeated before it up to a length",
        |args| {
            let args = Arguments::new("apoc.text.lpad", args);
            padded(args, |padding, text| format!("{padding}{text}"))
        },
    ),
    FunctionRow::new(
        "apoc.text.rpad",
        "text: STRING?, count: INTEGER, delimiter: STRING = ' '",
        StaticType::Any,
        "the text with a delimiter repeated behind it up to a length",
        |args| {
            let args = Arguments::new("apoc.text.rpad", args);
            padded(args, |padding, text| format!("{text}{padding}"))
        },
    ),
    FunctionRow::new(
        "apoc.text.repeat",
        "text: STRING?, count: INTEGER?",
        StaticType::Any,
        "the text repeated",
        |args| {
            let args = Arguments::new("apoc.text.repeat", args);
            let (Some(text), Some(count)) = (args.text(0)?, args.integer(1)?) else {
                return Ok(Value::Null);
            };
            let count = usize::try_from(count).unwrap_or(0);
            allowed(args, text.len().saturating_mul(count))?;
            Ok(text.repeat(count).into())
        },
    ),
    FunctionRow::new(
        "apoc.text.indexOf",
        "text: STRING?, lookup: STRING?, from: INTEGER = 0, to: INTEGER = -1",
        StaticType::Any,
        "the position of the first occurrence of a text within another, or -1",
        |args| {
            let found = occurrences(Arguments::new("apoc.text.indexOf", args))?;
            let first = |found: Vec<i64>| found.first().copied().unwrap_or(-1);
            Ok(found.map(first).into())
        },
    ),
    FunctionRow::new(
        "apoc.text.indexesOf",
        "text: STRING?, lookup: STRING?, from: INTEGER = 0, to: INTEGER = -1",
        LIST,
        "the positions of all occurrences of a text within another",
        |args| {
            let found = occurrences(Arguments::new("apoc.text.indexesOf", args))?;
            let list = |found: Vec<i64>| found.into_iter().map(Value::Int).collect::<Value>();
            Ok(found.map_or(Value::Null, list))
        },
    ),
    FunctionRow::new(
        "apoc.text.charAt",
        "text: STRING?, index: INTEGER?",
        StaticType::Any,
        "the code of the character at a position",
        |args| {
            let args = Arguments::new("apoc.text.charAt", args);
            let (Some(text), Some(index)) = (args.text(0)?, args.integer(1)?) else {
                return Ok(Value::Null);
            };
            let index = usize::try_from(index).ok();
            let found = index.and_then(|index| text.encode_utf16().nth(index));
            Ok(found.map(i64::from).into())
        },
    ),
    FunctionRow::new(
        "apoc.text.code",
        "codepoint: INTEGER?",
        StaticType::Any,
        "the character of a code",
        |args| {
            let args = Arguments::new("apoc.text.code", args);
            let code = args.integer(0)?.and_then(|code| u32::try_from(code).ok());
            let character = code.and_then(char::from_u32);
            Ok(character.map(|character| character.to_string()).into())
        },
    ),
    FunctionRow::new(
        "apoc.text.hexValue",
        "value: INTEGER?",
        StaticType::Any,
        "an integer in hexadecimal digits, at least four",
        |args| {
            let value = Arguments::new("apoc.text.hexValue", args).integer(0)?;
            Ok(value.map(|value| format!("{value:04X}")).into())
        },
    ),
    FunctionRow::new(
        "apoc.text.bytes",
        "text: STRING?, charset: STRING = 'UTF-8'",
        LIST,
        "the bytes of the text in UTF-8, from -128 to 127",
        |args| {
            let args = Arguments::new("apoc.text.bytes", args);
            let bytes = utf8(args)?;
            let signed = |byte: &u8| Value::Int(i64::from(byte.cast_signed()));
            Ok(bytes.map_or(Value::Null, |bytes| bytes.iter().map(signed).collect()))
        },
    ),
    FunctionRow::new(
        "apoc.text.byteCount",
        "text: STRING?, charset: STRING = 'UTF-8'",
        StaticType::Any,
        "the number of bytes of the text in UTF-8",
        |args| {
            let bytes = utf8(Arguments::new("apoc.text.byteCount", args))?;
            Ok(bytes.map(|bytes| bytes.len() as i64).into())
        },
    ),
    of_text!(
        "apoc.text.urlencode",
        "the text as part of a form of a URL",
        url_encoded
    ),
    FunctionRow::new(
        "apoc.text.urldecode",
        "text: STRING?",
        StaticType::Any,
        "the text of a part of a form of a URL",
        |args| {
            let args = Arguments::new("apoc.text.urldecode", args);
            let Some(text) = args.text(0)? else {
                return Ok(Value::Null);
            };
            let decoded = url_decoded(text);
            decoded
                .map(Value::from)
                .ok_or_else(|| args.invalid(format!("`{text}` is not the encoding of a text")))
        },
    ),
    of_text!("apoc.text.base64Encode", "the text in Base64", |text| {
        base64(text.as_bytes())
    }),
    FunctionRow::new(
        "apoc.text.base64Decode",
        "text: STRING?",
        StaticType::Any,
        "the text of Base64",
        |args| {
            let args = Arguments::new("apoc.text.base64Decode", args);
            let Some(text) = args.text(0)? else {
                return Ok(Value::Null);
            };
            let decoded = of_base64(text).and_then(|bytes| String::from_utf8(bytes).ok());
            decoded
                .map(Value::from)
                .ok_or_else(|| args.invalid("the text is not the Base64 of a text"))
        },
    ),
    FunctionRow::new(
        "apoc.text.distance",
        "text1: STRING?, text2: STRING?",
        StaticType::Any,
        "the Levenshtein distance of two texts",
        |args| {
            let distance = distance(Arguments::new("apoc.text.distance", args))?;
            Ok(distance.map(|distance| distance as i64).into())
        },
    ),
    FunctionRow::new(
        "apoc.text.levenshteinDistance",
        "text1: STRING?, text2: STRING?",
        StaticType::Any,
        "the Levenshtein distance of two texts",
        |args| {
            let distance = distance(Arguments::new("apoc.text.levenshteinDistance", args))?;
            Ok(distance.map(|distance| distance as i64).into())
        },
    ),
    FunctionRow::new(
        "apoc.text.levenshteinSimilarity",
        "text1: STRING?, text2: STRING?",
        StaticType::Any,
        "the Levenshtein distance of two texts as a similarity from 0 to 1",
        |args| {
            let args = Arguments::new("apoc.text.levenshteinSimilarity", args);
            let Some(distance) = distance(args)? else {
                return Ok(Value::Null);
            };
            let length = |at| {
                args.text(at)
                    .map(|text| text.map_or(0, |text| text.chars().count()))
            };
            Ok(Value::Float(match length(0)?.max(length(1)?) {
                0 => 1.0,
                longest => 1.0 - distance as f64 / longest as f64,
            }))
        },
    ),
    of_texts!(
        "apoc.text.hammingDistance",
        "at how many positions two texts of the same length differ; null for other texts",
        |first, second| {
            if first.chars().count() != second.chars().count() {
                return Value::Null;
            }
            let different = first.chars().zip(second.chars()).filter(|(a, b)| a != b);
            Value::Int(different.count() as i64)
        }
    ),
];

/// The longest text that a function makes of a number.
const MAX_BYTES: usize = 64 << 20;

pub(super) fn allowed(args: Arguments<'_>, bytes: usize) -> Result<()> {
    match bytes <= MAX_BYTES {
        true => Ok(()),
        false => Err(args.invalid(format!("{bytes} bytes are more than {MAX_BYTES}"))),
    }
}

fn with_first<I: Iterator<Item = char>>(text: &str, change: impl Fn(char) -> I) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(change);
    first.collect::<String>() + letters.as_str()
}

/// Changes each part between white space.
fn each_word(text: &str, change: impl Fn(&str) -> String) -> String {
    text.split_inclusive(char::is_whitespace)
        .map(change)
        .collect()
}

/// The words of an identifier or sentence: parts between other characters than letters and digits, and before
/// capitals that follow a lower-case letter.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut last: Option<char> = None;
    for letter in text.chars() {
        if letter.is_alphanumeric() {
            let is_new = match last {
                Some(last) if last.is_alphanumeric() => {
                    letter.is_uppercase() && !last.is_uppercase()
                }
                _ => true,
            };
            match words.last_mut() {
                Some(word) if !is_new => word.push(letter),
                _ => words.push(letter.to_string()),
            }
        }
        last = Some(letter);
    }
    words
}

fn upper_camel(text: &str) -> String {
    words(text)
        .iter()
        .map(|word| with_first(&word.to_lowercase(), char::to_uppercase))
        .collect()
}

fn cleaned(text: &str) -> String {
    let kept = text.chars().filter(|letter| letter.is_alphanumeric());
    kept.flat_map(char::to_lowercase).collect()
}

fn slug(text: &str, delimiter: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut in_gap = false;
    for letter in text.chars() {
        if letter.is_alphanumeric() || letter == '_' {
            made.push(letter);
            in_gap = false;
        } else if !in_gap {
            made.push_str(delimiter);
            in_gap = true;
        }
    }
    made
}

fn padded(args: Arguments<'_>, join: impl FnOnce(String, &str) -> String) -> Result<Value> {
    let (Some(text), Some(count), Some(delimiter)) =
        (args.text(0)?, args.integer(1)?, args.text(2)?)
    else {
        return Ok(Value::Null);
    };
    let count = usize::try_from(count).unwrap_or(0);
    let missing = count.saturating_sub(text.chars().count());
    let longest = delimiter.chars().map(char::len_utf8).max().unwrap_or(0);
    allowed(args, missing.saturating_mul(longest))?;
    let padding = delimiter.chars().cycle().take(missing).collect();
    Ok(join(padding, text).into())
}

/// Positions in characters of the occurrences of a text between two positions.
fn occurrences(args: Arguments<'_>) -> Result<Option<Vec<i64>>> {
    let (Some(text), Some(lookup)) = (args.text(0)?, args.text(1)?) else {
        return Ok(None);
    };
    let from = usize::try_from(args.integer(2)?.unwrap_or(0)).unwrap_or(0);
    let to = args.integer(3)?.unwrap_or(-1);
    let to = usize::try_from(to).unwrap_or(usize::MAX);
    let letters: Vec<char> = text.chars().collect();
    let wanted: Vec<char> = lookup.chars().collect();
    let end = to.min(letters.len());
    if wanted.is_empty() {
        return Ok(Some(vec![from.min(end) as i64]));
    }
    let mut found = Vec::new();
    let mut at = from;
    while at.saturating_add(wanted.len()) <= end {
        if letters[at..].starts_with(&wanted) {
            found.push(at as i64);
            at += wanted.len();
        } else {
            at += 1;
        }
    }
    Ok(Some(found))
}

/// The bytes of the text in the character set of the second argument, which is UTF-8.
fn utf8(args: Arguments<'_>) -> Result<Option<&[u8]>> {
    let charset = args.text(1)?.unwrap_or("UTF-8");
    if !charset.eq_ignore_ascii_case("UTF-8") && !charset.eq_ignore_ascii_case("UTF8") {
        return Err(args.invalid(format!(
            "the character set `{charset}` is not available: use UTF-8"
        )));
    }
    Ok(args.text(0)?.map(str::as_bytes))
}

fn url_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'*' | b'_' => {
                encoded.push(char::from(byte));
            }
            b' ' => encoded.push('+'),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn url_decoded(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok()
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            text.push(match digit <= chunk.len() {
                true => char::from(BASE64[(bits >> (18 - 6 * digit) & 63) as usize]),
                false => '=',
            });
        }
    }
    text
}

fn of_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let digit = BASE64.iter().position(|known| *known == letter)?;
        bits = bits << 6 | u32::try_from(digit).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    Some(bytes)
}

/// The longest product of the lengths of two texts whose distance is computed: about a second, which no timeout ends.
const MAX_DISTANCE_STEPS: usize = 200_000_000;

/// The Levenshtein distance of the two arguments; none if one is null.
fn distance(args: Arguments<'_>) -> Result<Option<usize>> {
    let (Some(first), Some(second)) = (args.text(0)?, args.text(1)?) else {
        return Ok(None);
    };
    let (lengths, most) = ((first.len(), second.len()), MAX_DISTANCE_STEPS);
    if lengths.0.saturating_mul(lengths.1) > most {
        return Err(args.invalid(format!(
            "texts of {} and {} bytes are too long to be compared: the product is at most {most}",
            lengths.0, lengths.1
        )));
    }
    Ok(Some(levenshtein(first, second)))
}

/// The number of insertions, deletions and replacements between two texts (Wagner and Fischer), with one row of the
/// matrix in memory.
fn levenshtein(first: &str, second: &str) -> usize {
    let second: Vec<char> = second.chars().collect();
    let mut row: Vec<usize> = (0..=second.len()).collect();
    for (at, letter) in first.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, other) in second.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[second.len()]
}
