//! `isomer files`: the files of a database.

use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use isomer_db::{Copied, Database, FileMetadata, FolderError, PathKind, Value, jiff, to_value};

use crate::{
    open,
    style::{bytes, count, line},
};

/// Options of `isomer files`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  isomer files people.db put photos /photos
  isomer files people.db ls /photos
  isomer files people.db get /photos/ada.jpg .")]
pub struct FilesOptions {
    /// The database
    pub db: PathBuf,
    #[command(subcommand)]
    pub action: Action,
}

/// Actions on files.
#[derive(Clone, Debug, Subcommand)]
pub enum Action {
    /// Lists a folder, or shows a file's metadata
    Ls {
        /// The path
        #[arg(default_value = "/")]
        path: String,
        /// As JSON, one object per line
        #[arg(long)]
        json: bool,
    },
    /// Copies a file or folder into the database, replacing existing files
    Put {
        /// The file or folder; - for standard input
        from: PathBuf,
        /// Its path in the database; in that folder, if it ends with /
        to: String,
    },
    /// Copies a file or folder out of the database
    Get {
        /// Its path in the database
        from: String,
        /// The target; into that folder, if it is one; - for standard output
        to: PathBuf,
    },
    /// Writes a file to standard output
    Cat {
        /// Its path in the database
        path: String,
    },
    /// Creates a folder and its missing parents
    Mkdir {
        /// Its path in the database
        path: String,
    },
    /// Moves a file or folder
    Mv {
        /// Its path in the database
        from: String,
        /// The new path
        to: String,
    },
    /// Removes a file, or an empty folder
    Rm {
        /// Its path in the database
        path: String,
        /// Removes a folder with its content, too
        #[arg(short, long)]
        recursive: bool,
    },
}

/// Runs the command.
pub fn command(options: &FilesOptions) -> Result<()> {
    let makes = matches!(options.action, Action::Put { .. } | Action::Mkdir { .. });
    let db = if makes {
        open::open(&options.db)?
    } else {
        open::open_existing(&options.db)?
    };
    match &options.action {
        Action::Ls { path, json } => list(&db, path, *json)?,
        Action::Put { from, to } => put(&db, from, to)?,
        Action::Get { from, to } if to == Path::new("-") => cat(&db, from)?,
        Action::Get { from, to } => get(&db, from, to)?,
        Action::Cat { path } => cat(&db, path)?,
        Action::Mkdir { path } => db.transact(|tx| tx.files().create_folders(path))?,
        Action::Mv { from, to } => db.transact(|tx| {
            let into = to.ends_with('/')
                || tx
                    .files()
                    .metadata(to)?
                    .is_some_and(|to| to.kind == PathKind::Folder);
            let to = if into {
                inside(to, last_name(from))
            } else {
                to.clone()
            };
            tx.files().rename(from, &to)
        })?,
        Action::Rm {
            path,
            recursive: false,
        } => db.transact(|tx| tx.files().remove(path))?,
        Action::Rm {
            path,
            recursive: true,
        } => {
            let removed = db.transact(|tx| tx.files().remove_all(path))?;
            report!("{} files and folders removed", count(removed));
        }
    }
    Ok(db.close()?)
}

fn list(db: &Database, path: &str, json: bool) -> Result<()> {
    let tx = db.begin_read()?;
    let Some(metadata) = tx.files().metadata(path)? else {
        bail!("there is no file or folder `{path}`");
    };
    if metadata.kind == PathKind::File {
        return print_metadata(last_name(path), metadata, json);
    }
    let mut after: Option<String> = None;
    loop {
        let page = tx.files().list_page(path, after.as_deref(), 1000)?;
        for (name, metadata) in &page {
            print_metadata(name, *metadata, json)?;
        }
        match page.into_iter().next_back() {
            Some((name, _)) => after = Some(name),
            None => return Ok(()),
        }
    }
}

fn print_metadata(name: &str, metadata: FileMetadata, json: bool) -> Result<()> {
    let folder = metadata.kind == PathKind::Folder;
    if json {
        let metadata: Value = to_value(&serde_json::json!({
            "name": name,
            "kind": if folder { "folder" } else { "file" },
            "bytes": metadata.bytes,
            "created": time_text(metadata.created_ms)?,
            "modified": time_text(metadata.modified_ms)?,
        }))?;
        return Ok(line(&isomer_db::json::to_string(&metadata)?)?);
    }
    let size = if folder {
        "folder".to_owned()
    } else {
        bytes(metadata.bytes)
    };
    let slash = if folder { "/" } else { "" };
    Ok(line(&format!(
        "{size:>12}  {:24}  {name}{slash}",
        time_text(metadata.modified_ms)?.unwrap_or_default()
    ))?)
}

/// A time, always with three decimals, so that columns are aligned. (A folder that exists only because of its content
/// has no creation time.)
fn time_text(ms: u64) -> Result<Option<String>> {
    let stamp = jiff::Timestamp::from_millisecond(i64::try_from(ms)?)?;
    Ok((ms > 0).then(|| format!("{stamp:.3}")))
}

fn put(db: &Database, from: &Path, to: &str) -> Result<()> {
    if from == Path::new("-") {
        if to.ends_with('/') {
            bail!("`{to}` is a folder: give standard input the path of a file");
        }
        let mut file = db.create_file(to)?;
        io::copy(&mut io::stdin().lock(), &mut file).context("cannot copy standard input")?;
        file.finish()?;
        return Ok(());
    }
    let to = if to.ends_with('/') {
        let name = from.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{} has no valid file name", from.display()))?;
        inside(to, name)
    } else {
        to.to_owned()
    };
    print_summary(db.import_folder(from, &to)?);
    Ok(())
}

fn get(db: &Database, from: &str, to: &Path) -> Result<()> {
    let into = to.is_dir() && !last_name(from).is_empty();
    let to = if into {
        let path = to.join(last_name(from));
        if path.is_symlink() {
            // The caller named the parent folder, not this one.
            return Err(FolderError::Exists { path, what: "link" }.into());
        }
        path
    } else {
        to.to_owned()
    };
    print_summary(db.export_folder(from, to)?);
    Ok(())
}

fn print_summary(copied: Copied) {
    if io::stderr().is_terminal() {
        report!(
            "{} files in {} folders, {}",
            count(copied.files),
            count(copied.folders),
            bytes(copied.bytes)
        );
    }
}

fn cat(db: &Database, path: &str) -> Result<()> {
    let mut file = db.open_file(path)?;
    let mut out = io::stdout().lock();
    io::copy(&mut file, &mut out)?;
    Ok(out.flush()?)
}

fn last_name(path: &str) -> &str {
    path.trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default()
}

fn inside(folder: &str, name: &str) -> String {
    format!("{}/{name}", folder.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::time_text;

    #[test]
    fn times_are_all_of_one_width() {
        let texts = [0, 1, 1_000, 1_480].map(|ms| time_text(ms).expect("a time"));
        let expected = [
            None,
            Some("1970-01-01T00:00:00.001Z"),
            Some("1970-01-01T00:00:01.000Z"),
            Some("1970-01-01T00:00:01.480Z"),
        ];
        assert_eq!(texts.each_ref().map(Option::as_deref), expected);
    }
}
