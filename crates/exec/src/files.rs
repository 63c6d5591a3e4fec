//! Procedures on files, in the transaction of the statement.
//!
//! | procedure | what it does |
//! |---|---|
//! | `file.write(path, content)` | creates or replaces a file with this content |
//! | `file.append(path, content)` | appends to a file, which is created if the path is free |
//! | `file.createFolder(path)` | creates a folder and its missing parents |
//! | `file.move(from, to)` | moves a file, or a folder with its content |
//! | `file.remove(path)` | removes a file, or an empty folder |
//! | `file.removeAll(path)` | removes a file, or a folder with its content |
//! | `file.list(folder)` | the entries of a folder, by name |
//!
//! Content is a string or bytes.

use std::sync::Arc;

use isomer_data::{FileId, FileMetadata, PathKind, Transaction};
use isomer_plan::{
    catalog::{ProcedureField, ProcedureMode, ProcedureSignature},
    expr::StaticType,
};
use isomer_value::Value;

use crate::{
    error::{ErrorClass, ExecError, Result, shown},
    procedure::{CallContext, Procedure, Registry},
};

/// Folder entries per read.
const PAGE: usize = 1_024;

/// Registers the procedures.
pub(crate) fn register(registry: &mut Registry) {
    for kind in FileProcedureKind::ALL {
        let signature = Arc::new(signature(kind));
        registry.add_procedure(Arc::new(FileProcedure { kind, signature }));
    }
}

/// A part of a file, if `allow` permits to hold its bytes.
pub(crate) fn part(
    tx: &Transaction,
    file: FileId,
    offset: u64,
    length: u64,
    allow: &dyn Fn(usize) -> Result<()>,
) -> Result<Vec<u8>> {
    let there = tx.files().file_bytes(file)?.saturating_sub(offset);
    let length = usize::try_from(length.min(there)).unwrap_or(usize::MAX);
    allow(length)?;
    let mut bytes = vec![0; length];
    tx.files().read_file(file, offset, &mut bytes)?;
    Ok(bytes)
}

#[derive(Clone, Copy, Debug)]
enum FileProcedureKind {
    Write,
    Append,
    CreateFolder,
    Move,
    Remove,
    RemoveAll,
    List,
}

impl FileProcedureKind {
    const ALL: [Self; 7] = [
        Self::Write,
        Self::Append,
        Self::CreateFolder,
        Self::Move,
        Self::Remove,
        Self::RemoveAll,
        Self::List,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Write => "file.write",
            Self::Append => "file.append",
            Self::CreateFolder => "file.createFolder",
            Self::Move => "file.move",
            Self::Remove => "file.remove",
            Self::RemoveAll => "file.removeAll",
            Self::List => "file.list",
        }
    }
}

struct FileProcedure {
    kind: FileProcedureKind,
    signature: Arc<ProcedureSignature>,
}

fn signature(kind: FileProcedureKind) -> ProcedureSignature {
    let field = |name: &str, kind: StaticType| ProcedureField {
        name: name.into(),
        kind,
        nullable: false,
        default: None,
    };
    let parameters = match kind {
        FileProcedureKind::Write | FileProcedureKind::Append => {
            vec![
                field("path", StaticType::String),
                field("content", StaticType::Any),
            ]
        }
        FileProcedureKind::Move => vec![
            field("from", StaticType::String),
            field("to", StaticType::String),
        ],
        FileProcedureKind::List => vec![field("folder", StaticType::String)],
        FileProcedureKind::CreateFolder
        | FileProcedureKind::Remove
        | FileProcedureKind::RemoveAll => vec![field("path", StaticType::String)],
    };
    let (results, mode) = match kind {
        FileProcedureKind::List => (
            vec![
                field("name", StaticType::String),
                field("path", StaticType::String),
                field("kind", StaticType::String),
                field("bytes", StaticType::Integer),
                field("createdMs", StaticType::Integer),
                field("modifiedMs", StaticType::Integer),
            ],
            ProcedureMode::Read,
        ),
        _ => (Vec::new(), ProcedureMode::Write),
    };
    ProcedureSignature {
        name: kind.name().into(),
        parameters,
        results,
        mode,
    }
}

impl Procedure for FileProcedure {
    fn signature(&self) -> &Arc<ProcedureSignature> {
        &self.signature
    }

    fn call(&self, arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
        let name = &self.signature.name;
        let path = path_of(name, arguments.first())?;
        match self.kind {
            FileProcedureKind::Write => {
                let content = content_of(name, arguments.get(1))?;
                call.transaction().files_mut().put_file(path, content)?;
            }
            FileProcedureKind::Append => {
                let content = content_of(name, arguments.get(1))?;
                let tx = call.transaction();
                let file = match tx.files().file_metadata(path)? {
                    None => tx.files_mut().create_file(path)?,
                    Some(_) => tx.files().file(path)?,
                };
                let end = tx.files().file_bytes(file)?;
                tx.files_mut().write_file(file, end, content)?;
            }
            FileProcedureKind::CreateFolder => {
                call.transaction().files_mut().create_folders(path)?
            }
            FileProcedureKind::Move => {
                let to = path_of(name, arguments.get(1))?;
                call.transaction().files_mut().rename_path(path, to)?;
            }
            FileProcedureKind::Remove => call.transaction().files_mut().remove_path(path)?,
            FileProcedureKind::RemoveAll => drop(call.transaction().files_mut().remove_all(path)?),
            FileProcedureKind::List => list(path, call)?,
        }
        Ok(())
    }
}

fn list(folder: &str, call: &mut CallContext<'_>) -> Result<()> {
    let inside = folder.trim_end_matches('/');
    let mut after: Option<String> = None;
    loop {
        let page = call
            .transaction()
            .files()
            .list_folder(folder, after.as_deref(), PAGE)?;
        after = if page.len() == PAGE {
            page.last().map(|(name, _)| name.clone())
        } else {
            None
        };
        for (name, about) in page {
            call.emit(row(inside, &name, &about))?;
        }
        if after.is_none() {
            return Ok(());
        }
    }
}

fn row(folder: &str, name: &str, about: &FileMetadata) -> Vec<Value> {
    let kind = match about.kind {
        PathKind::File => "file",
        PathKind::Folder => "folder",
    };
    vec![
        Value::from(name),
        Value::from(format!("{folder}/{name}")),
        Value::from(kind),
        Value::Int(about.bytes as i64),
        Value::Int(about.created_ms as i64),
        Value::Int(about.modified_ms as i64),
    ]
}

fn path_of<'a>(name: &str, argument: Option<&'a Value>) -> Result<&'a str> {
    let path = argument.and_then(Value::as_str);
    path.ok_or_else(|| refused(name, "a path is a string".into()))
}

fn content_of<'a>(name: &str, argument: Option<&'a Value>) -> Result<&'a [u8]> {
    match argument.unwrap_or(&Value::Null) {
        Value::String(text) => Ok(text.as_bytes()),
        Value::Bytes(bytes) => Ok(bytes),
        other => Err(refused(
            name,
            format!("content is a string or bytes, not {}", shown(other)),
        )),
    }
}

fn refused(name: &str, reason: String) -> ExecError {
    ExecError::raised(
        ErrorClass::ProcedureError,
        "InvalidArgumentValue",
        format!("{name}: {reason}"),
    )
}
