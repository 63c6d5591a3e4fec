//! Backups over the network, into a configured folder, and databases restored from them.
//!
//! `backups_folder/DATABASE/NAME` holds the backups of one database under one name, as `isomer backup` makes them: a
//! full one, then incremental ones. An administrator of one database can access only its folder.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::http::{StatusCode, header};
use isomer_db::{Database, EngineKind, Map, RestorePoint, Value, params};

use super::{call::Call, reply::Reply};
use crate::{
    Result, ServerError,
    access::{DatabaseAccess, ServerAccess, check_name},
    core::{Core, make_folder},
    operations::{BACKUP, READING, RESTORE},
};

fn number(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Prefixes of incomplete copies and of backups that are being removed; they are not valid names of backups.
const COPYING: &str = ".copying-";
const REMOVED: &str = ".removed-";

/// The folder of a database's backups.
fn folder_of(core: &Core, database: &str) -> Result<PathBuf> {
    let folder = core.config.backups_folder.as_ref().ok_or_else(|| {
        ServerError::Invalid(
            "backups over the network are disabled: start the server with `backups_folder`".into(),
        )
    })?;
    check_name(database)?;
    Ok(folder.join(database))
}

/// Validates a name: it becomes part of paths.
fn check_backup_name(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > 100 || name.starts_with('.') || !name.chars().all(allowed) {
        return Err(ServerError::Invalid(
            "the name of a backup must be 1 to 100 letters, digits, `_`, `-` or `.`, and must not begin with a dot".into(),
        ));
    }
    Ok(())
}

/// `POST …/backups`
pub async fn make(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
    let mut fields = call.fields(&["backup", "keep", "copy"]).await?;
    let name = fields.needed_text("backup")?;
    let (keep, copy) = (fields.number("keep")?, fields.switch("copy")?);
    check_backup_name(&name)?;
    call.audit(|details| details.target = Some(name.clone()));
    if keep == Some(0) || (copy && keep.is_some()) {
        return Err(ServerError::Invalid(
            "`keep` is the number of backups under this name that are kept, at least 1; it does not apply to a copy".into(),
        ));
    }
    let folder = folder_of(&call.core, access.name())?;
    let core = call.core.clone();
    let user = access.principal().name.clone();
    let made = call
        .core
        .blocking(move || {
            let operation = core.operations.begin(BACKUP, access.name(), &user, &name)?;
            make_folder(&folder)?;
            sweep(&folder);
            let target = folder.join(&name);
            if copy {
                if target.symlink_metadata().is_ok() {
                    return Err(ServerError::Exists(format!(
                        "the backup `{name}` already exists"
                    )));
                }
                copy_to(&access, &folder, &target, &name)?;
                let made = params! { "backup" => name, "copy" => true };
                return Reply::value_with(StatusCode::CREATED, &made.into());
            }
            let made =
                access.backup(&target, &mut |done, total| operation.progress(done, total))?;
            let forgotten = match keep {
                Some(keep) => {
                    Database::keep_backups(&target, usize::try_from(keep).unwrap_or(usize::MAX))?
                }
                None => 0,
            };
            let made = params! {
                "backup" => name,
                "number" => number(made.number),
                "version" => number(made.version),
                "copied_bytes" => number(made.copied_bytes),
                "shared_bytes" => number(made.shared_bytes),
                "forgotten" => number(forgotten as u64),
            };
            Reply::value_with(StatusCode::CREATED, &made.into())
        })
        .await;
    call.core.metrics.backed_up(made.is_ok());
    made
}

/// Makes a copy under a temporary name, and renames it when complete.
fn copy_to(access: &DatabaseAccess, folder: &Path, target: &Path, name: &str) -> Result<()> {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_ms = since_1970.map_or(0, |time| time.as_millis());
    let unnamed = folder.join(format!("{COPYING}{name}-{now_ms}"));
    let copied = access.checkpoint(&unnamed).and_then(|()| {
        std::fs::rename(&unnamed, target).map_err(|error| not_written(target, &error))?;
        // If the new name could not be synced, the client gets an error, and the name is free again.
        keep_names(folder).inspect_err(|_| drop(std::fs::rename(target, &unnamed)))
    });
    if copied.is_err() {
        // On failure it takes space until the next copy.
        let _ = std::fs::remove_dir_all(&unnamed);
    }
    copied
}

/// Removes what interrupted copies and removals left. None must be in progress in the folder.
fn sweep(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if (name.starts_with(COPYING) || name.starts_with(REMOVED))
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            tracing::warn!(folder = %entry.path().display(), %error, "the remains of a backup could not be removed");
        }
    }
}

fn not_written(path: &Path, error: &std::io::Error) -> ServerError {
    ServerError::Unavailable(format!("{} cannot be written: {error}", path.display()))
}

fn keep_names(folder: &Path) -> Result<()> {
    isomer_vfs::sync_folder(folder).map_err(|error| not_written(folder, &error))
}

/// `DELETE …/backups/{backup}`
pub async fn remove(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let name = call.path_param("backup").to_owned();
    check_backup_name(&name)?;
    let folder = folder_of(&call.core, access.name())?;
    let core = call.core.clone();
    let user = access.principal().name.clone();
    call.core
        .blocking(move || {
            // Excludes backups to this name and restores from it.
            let _operation = core.operations.begin(BACKUP, access.name(), &user, &name)?;
            let target = folder.join(&name);
            let is_there = target.symlink_metadata().is_ok_and(|about| about.is_dir());
            if !is_there {
                return Err(ServerError::NotFound(format!(
                    "no backup `{name}` of `{}`",
                    access.name()
                )));
            }
            // It disappears at once, even if removing its files fails.
            let gone = folder.join(format!("{REMOVED}{name}"));
            sweep(&folder);
            std::fs::rename(&target, &gone).map_err(|error| not_written(&target, &error))?;
            keep_names(&folder).inspect_err(|_| drop(std::fs::rename(&gone, &target)))?;
            std::fs::remove_dir_all(&gone).map_err(|error| not_written(&gone, &error))?;
            Ok(Reply::done())
        })
        .await
}

/// `GET …/backups`
pub async fn list(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let folder = folder_of(&call.core, access.name())?;
    call.core
        .blocking(move || {
            let mut found: Vec<Value> = Vec::new();
            for name in names_in(&folder)? {
                let path = folder.join(&name);
                if !path.join("BACKUP").is_file() {
                    if !path.is_dir() {
                        // It was removed concurrently.
                        continue;
                    }
                    // A first backup in progress, or an interrupted one, is not a database.
                    let what = match EngineKind::at(&path) {
                        Some(_) if !path.join("RESTORING").exists() => "copy",
                        _ => "unfinished",
                    };
                    let mut about = params! { "backup" => name };
                    about.insert(what, true.into());
                    found.push(about.into());
                    continue;
                }
                let backups = match Database::backups(&path) {
                    Err(_) if !path.join("BACKUP").is_file() => continue,
                    backups => backups?,
                };
                for one in backups {
                    let about = params! {
                        "backup" => name.as_str(),
                        "number" => number(one.number),
                        "version" => number(one.version),
                        "time_ms" => number(one.time_ms),
                        "bytes" => number(one.bytes),
                    };
                    found.push(about.into());
                }
            }
            Reply::object(params! { "backups" => found })
        })
        .await
}

/// The backups in a folder, by name; empty if there was no backup yet.
fn names_in(folder: &Path) -> Result<Vec<String>> {
    let unreadable = |error: std::io::Error| {
        ServerError::Unavailable(format!("{} cannot be read: {error}", folder.display()))
    };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        let is_folder = entry.file_type().map_err(unreadable)?.is_dir();
        let name = entry.file_name();
        names.extend(
            name.to_str()
                .filter(|name| is_folder && check_backup_name(name).is_ok())
                .map(str::to_owned),
        );
    }
    names.sort_unstable();
    Ok(names)
}

/// The backup that a new database is restored from: the field `restore` of its description.
pub(super) struct Source {
    folder: PathBuf,
    database: Arc<str>,
    backup: String,
    about: String,
    point: RestorePoint,
}

impl Source {
    pub(super) fn of(core: &Core, mut said: Map) -> Result<Self> {
        let mut text = |name: &str| match said.remove(name) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(ServerError::Invalid(format!(
                "`restore` needs the text `{name}`: {{\"database\": …, \"backup\": …}}"
            ))),
        };
        let (database, backup) = (text("database")?, text("backup")?);
        check_backup_name(&backup)?;
        let folder = folder_of(core, &database)?.join(&*backup);
        let mut point = RestorePoint::Newest;
        for name in ["version", "time_ms"] {
            let Some(value) = said.remove(name).filter(|value| !value.is_null()) else {
                continue;
            };
            let number = value.as_int().and_then(|value| u64::try_from(value).ok());
            match number {
                Some(number) if point == RestorePoint::Newest => {
                    point = match name {
                        "version" => RestorePoint::Version(number),
                        _ => RestorePoint::Time(number),
                    }
                }
                _ => {
                    return Err(ServerError::Invalid(
                        "`restore` takes one of `version` and `time_ms`, at least 0".into(),
                    ));
                }
            }
        }
        if let Some(name) = said.names().next() {
            return Err(ServerError::Invalid(format!(
                "unknown field `{name}` in `restore`: expected database, backup, version, time_ms"
            )));
        }
        if !folder.join("BACKUP").is_file() {
            return Err(ServerError::NotFound(format!(
                "no backup `{backup}` of `{database}` to restore from: copies are opened in place"
            )));
        }
        Ok(Self {
            folder,
            about: format!("{database}/{backup}"),
            backup: backup.to_string(),
            database: (&*database).into(),
            point,
        })
    }

    /// Restores a new database from it.
    pub(super) async fn restore(
        self,
        core: Arc<Core>,
        access: ServerAccess,
        name: String,
    ) -> Result<Reply> {
        let location = format!("/v1/databases/{name}");
        core.clone()
            .blocking(move || {
                let database: Arc<str> = name.as_str().into();
                let user = access.principal().name.clone();
                let operation = core
                    .operations
                    .begin(RESTORE, &database, &user, &self.about)?;
                // Excludes writing and removing backups under its name.
                let _reading =
                    core.operations
                        .begin(READING, &self.database, &user, &self.backup)?;
                let restored = access.restore_database(&name, |target| {
                    Database::restore(&self.folder, target)
                        .point(self.point)
                        .key(core.key.clone())
                        .progress(|done, total| operation.progress(done, total))
                })?;
                let made = params! {
                    "database" => name,
                    "version" => number(restored.version),
                };
                Ok(Reply::value_with(StatusCode::CREATED, &made.into())?
                    .with(header::LOCATION, location))
            })
            .await
    }
}
