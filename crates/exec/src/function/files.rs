//! Functions on files. All return null if the path does not exist.

use isomer_data::{FileId, FileMetadata, PathKind};
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
            Ok(Value::Bool(env.file_metadata(path)?.is_some()))
        }),
        Builtin::FileSize => strict(|args, env| {
            let metadata = metadata("file.size", &args[0], env)?;
            Ok(metadata.map_or(Value::Null, |(metadata, _)| {
                Value::Int(metadata.bytes as i64)
            }))
        }),
        Builtin::FileText => strict(file_text),
        Builtin::FileBytes => strict(file_bytes),
        _ => None,
    }
}

/// A file; none if the path does not exist.
fn metadata(
    function: &str,
    path: &Value,
    env: &dyn Environment,
) -> Result<Option<(FileMetadata, FileId)>> {
    let path = text(function, path)?;
    match env.file_metadata(path)? {
        None => Ok(None),
        Some(metadata) => match (metadata.kind, metadata.file) {
            (PathKind::File, Some(file)) => Ok(Some((metadata, file))),
            _ => Err(refused(format!(
                "{function}(): `{path}` is a folder: give the path of a file"
            ))),
        },
    }
}

fn file_text(args: &[Value], env: &dyn Environment) -> Result<Value> {
    let Some((_, file)) = metadata("file.text", &args[0], env)? else {
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
    match metadata("file.bytes", &args[0], env)? {
        None => Ok(Value::Null),
        Some((_, file)) => Ok(Value::Bytes(env.file_part(file, offset, length)?.into())),
    }
}

fn refused(message: String) -> ExecError {
    ExecError::raised(ErrorClass::ArgumentError, "InvalidArgumentValue", message)
}
