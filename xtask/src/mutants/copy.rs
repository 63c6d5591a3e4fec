//! The copy of the crates into which faults are planted: its own workspace in the build folder.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};

use super::{GUARD, Planted, faults, planted};
use crate::workspace;

/// Folder of the copied crates. Cargo names what it builds after a crate's path in its workspace: under the same path
/// the copy and the checkout would overwrite each other's libraries in the build folder.
const FOLDER: &str = "planted";
/// The copied crates: those with faults, and those that they or their tests use.
const CRATES: [&str; 11] = [
    "value",
    "storage",
    "vfs",
    "shared-log",
    "lsm",
    "storage-redb",
    "layout",
    "data",
    "bulk",
    "check",
    "replication",
];

/// Brings the copy up to date and returns its manifest. Files that do not change keep their time, so that cargo builds
/// only what changed.
pub fn make() -> Result<PathBuf> {
    let Planted {
        texts: patched,
        problems,
    } = planted(&faults()?)?;
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    let copy = workspace::target_dir().join("mutants");
    let mut written = BTreeSet::new();
    let mut write = |file: &Path, bytes: &[u8]| {
        let file = match file.starts_with("crates") {
            true => copy.join(FOLDER).join(file),
            false => copy.join(file),
        };
        written.insert(file.clone());
        write_if_changed(&file, bytes)
    };
    let guarded = patched.iter().map(|(file, _)| crate_of(file));
    let guarded: BTreeSet<&str> = guarded.collect::<Result<_>>()?;
    for name in CRATES {
        let folder = Path::new("crates").join(name);
        for file in files_in(&folder)? {
            let bytes = fs::read(workspace::root().join(&file))?;
            let patched = patched.iter().find(|(path, _)| Path::new(path) == file);
            let mut bytes = patched.map_or(bytes, |(_, text)| text.clone().into_bytes());
            if guarded.contains(name) && file == folder.join("src/lib.rs") {
                bytes.extend_from_slice(b"\nmod fault;\n");
            }
            write(&file, &bytes)?;
        }
        if guarded.contains(name) {
            write(&folder.join("src/fault.rs"), GUARD.as_bytes())?;
        }
    }
    write(Path::new("Cargo.toml"), manifest()?.as_bytes())?;
    write(
        Path::new("Cargo.lock"),
        &fs::read(workspace::root().join("Cargo.lock"))?,
    )?;
    remove_others(&copy.join(FOLDER), &written)?;
    Ok(copy.join("Cargo.toml"))
}

/// The crate of a patched file.
fn crate_of(file: &str) -> Result<&'static str> {
    let of = |name: &&str| Path::new(file).starts_with(Path::new("crates").join(name));
    let found = CRATES.into_iter().find(of);
    found.with_context(|| {
        format!(
            "{file} is in none of the copied crates: {}",
            CRATES.join(", ")
        )
    })
}

/// The manifest of the workspace, with the copied crates as members.
fn manifest() -> Result<String> {
    let text = fs::read_to_string(workspace::root().join("Cargo.toml"))?;
    let members = CRATES
        .map(|name| format!("\"{FOLDER}/crates/{name}\""))
        .join(", ");
    let mut copied = String::new();
    for line in text.lines() {
        match line.split_once(" = ") {
            Some(("members", _)) => copied.push_str(&format!("members = [{members}]")),
            Some(("exclude" | "default-members", _)) => {}
            _ => copied
                .push_str(&line.replace("path = \"crates/", &format!("path = \"{FOLDER}/crates/"))),
        }
        copied.push('\n');
    }
    ensure!(
        copied.contains(&members),
        "Cargo.toml has no line `members = …`"
    );
    Ok(copied)
}

/// All files in a folder of the checkout, by their paths in it.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(workspace::root().join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            match entry.file_type()?.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    Ok(files)
}

fn write_if_changed(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, bytes)
}

/// Removes files of an earlier copy that the checkout no longer has.
fn remove_others(folder: &Path, written: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, written)?;
        } else if !written.contains(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
