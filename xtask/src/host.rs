//! Calls that differ between operating systems. This program cannot use those of `vfs`: it is built before all else.

use std::{io, path::Path, process::Command};

/// Makes the program and its children a process group, which can be killed as a whole. Windows has no such groups:
/// there only the program itself is killed.
#[cfg(unix)]
pub fn in_own_group(command: &mut Command) -> &mut Command {
    std::os::unix::process::CommandExt::process_group(command, 0)
}

/// Does nothing: Windows has no process groups.
#[cfg(not(unix))]
pub fn in_own_group(command: &mut Command) -> &mut Command {
    command
}

/// Makes `link` a symbolic link to a folder.
pub fn link_folder(folder: &Path, link: &Path) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::symlink(folder, link);
    #[cfg(windows)]
    return std::os::windows::fs::symlink_dir(folder, link);
}
