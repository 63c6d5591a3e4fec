//! Functions on files. All return null if the path does not exist.

use isomer_data::{FileAbout, FileId, PathKind};
use isomer_plan::function::Function as Builtin;
use isomer_value::Value;

use super::{
    body::{Function, integer, strict, string, text},
    environment::Environment,
};
use crate::error::{ErrorClass, ExecError, Result};

pub(super) fn find(function: Builtin) -> Option<Function> {
    match function {
        Builtin::FileExists => strict(|args, env| {
            let path = text("file.exists", &args[0])?;
            Ok(Value::Bool(env.file_about(path)?.is_some()))
        }),
        Builtin::FileSize => strict(|args, env| {
            let about = about("file.size", &args[0], env)?;
            Ok(about.map_or(Value::Null, |(about, _)| Value::Int(about.bytes as i64)))
        }),
        Builtin::FileText => strict(file_text),
        Builtin::FileBytes => strict(file_bytes),
        _ => None,
    }
}

/// A file; none if the path does not exist.
fn about(
    function: &str,
    path: &Value,
    env: &dyn Environment,
) -> Result<Option<(FileAbout, FileId)>> {
    let path = text(function, path)?;
    match env.file_about(path)? {
        None => Ok(None),
        Some(about) => match (about.kind, about.file) {
            (PathKind::File, Some(file)) => Ok(Some((about, file))),
            _ => Err(refused(format!(
                "{function}(): `{path}` is a folder: give the path of a file"
            ))),
        },
    }
}

fn file_text(args: &[Value], env: &dyn Environment) -> Result<Value> {
    let Some((_, file)) = about("file.text", &args[0], env)? else {
        return Ok(Value::Null);
    };
    let bytes = env.file_part(file, 0, u64::MAX)?;
    match String::from_utf8(bytes) {
        Ok(content) => Ok(string(content)),
        Err(error) => Err(refused(format!(
            "file.text(): `{}` is not UTF-8 at byte {}: read it with file.bytes()",
            text("file.text", &args[0])?,
            error.utf8_error().valid_up_to()
        ))),
    }
}

/// `file.bytes(path, [offset], [length])`.
fn file_bytes(args: &[Value], env: &dyn Environment) -> Result<Value> {
    let part = |at: usize, what: &str, usual: u64| match args.get(at) {
        None => Ok(usual),
        Some(value) => {
            let given = integer("file.bytes", value)?;
            u64::try_from(given).map_err(|_| {
                refused(format!(
                    "file.bytes(): the {what} is {given}: give 0 or more"
                ))
            })
        }
    };
    let (offset, length) = (part(1, "offset", 0)?, part(2, "length", u64::MAX)?);
    match about("file.bytes", &args[0], env)? {
        None => Ok(Value::Null),
        Some((_, file)) => Ok(Value::Bytes(env.file_part(file, offset, length)?.into())),
    }
}

fn refused(message: String) -> ExecError {
    ExecError::raised(ErrorClass::ArgumentError, "InvalidArgumentValue", message)
}
