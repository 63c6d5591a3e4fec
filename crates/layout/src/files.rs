//! Records of files and folders, paths, and their limits.

use crate::{DataError, keyspace};

/// Bytes of a chunk.
pub const CHUNK_BYTES: u64 = 64 << 10;

/// Most bytes of a file.
pub const MAX_FILE_BYTES: u64 = 1 << 44;

/// Longest name of a file or folder.
pub const MAX_FILE_NAME_BYTES: usize = 255;

/// Most names of a path.
pub const MAX_PATH_NAMES: usize = 256;

/// The root folder; it has no entry.
pub const ROOT: u64 = 1;

/// The folder of files that are being written, without a path.
pub const UNNAMED: u64 = 0;

/// The stored record: size, created, modified, as ordered ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the row of `keyspace` says what each is
pub struct Stored {
    pub bytes: u64,
    pub created_ms: u64,
    pub modified_ms: u64,
}

impl Stored {
    /// The stored row.
    pub fn encode(self) -> Vec<u8> {
        let mut stored = Vec::with_capacity(20);
        for number in [self.bytes, self.created_ms, self.modified_ms] {
            keyspace::push_id(&mut stored, number);
        }
        stored
    }

    /// Reads a stored row.
    pub fn decode(stored: &[u8]) -> Result<Self, DataError> {
        let mut rest = stored;
        let mut take = || keyspace::take_id(&mut rest);
        let parsed = (|| {
            Some(Self {
                bytes: take()?,
                created_ms: take()?,
                modified_ms: take()?,
            })
        })();
        match parsed {
            Some(record) if rest.is_empty() => Ok(record),
            _ => Err(DataError::corrupt("the record of a file is malformed")),
        }
    }
}

/// The names of a path.
pub fn names(path: &str) -> Result<Vec<&str>, DataError> {
    let Some(rest) = path.strip_prefix('/') else {
        return Err(DataError::invalid(format!(
            "the path `{path}` does not begin with `/`: write paths from the root on"
        )));
    };
    if rest.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = rest.strip_suffix('/').unwrap_or(rest).split('/').collect();
    if names.len() > MAX_PATH_NAMES {
        return Err(DataError::Limit {
            what: "a path".into(),
            size: format!("{} names", names.len()),
            max: format!("{MAX_PATH_NAMES} names"),
            advice: "nest folders less deeply",
        });
    }
    for name in &names {
        if name.len() > MAX_FILE_NAME_BYTES {
            return Err(DataError::Limit {
                what: format!(
                    "the name `{}…` of a file",
                    name.chars().take(40).collect::<String>()
                ),
                size: format!("{} bytes", name.len()),
                max: format!("{MAX_FILE_NAME_BYTES} bytes"),
                advice: "use a shorter name",
            });
        }
        if name.is_empty() || *name == "." || *name == ".." || name.contains('\0') {
            return Err(DataError::invalid(format!(
                "the path `{path}` holds the name `{}`: names are not empty, not `.`, not `..`, and hold no zero",
                name.escape_debug()
            )));
        }
    }
    Ok(names)
}

/// The error for a path under which nothing exists.
pub fn not_there(path: &str) -> DataError {
    DataError::NotFound(format!("there is no file or folder `{path}`"))
}
