//! The limit on open files of the process. Connections are files, too, and unauthenticated clients can open them; but
//! a database that cannot open files cannot commit.

use isomer_vfs::process;

/// Most files requested of the system.
const MAX_FILES: u64 = 1 << 20;

/// How many of the `wanted` connections the limit on open files allows: half of the files are for the databases,
/// which open one per table. Raises the soft limit to the hard one, so call it before databases are opened.
pub fn room_for_connections(wanted: usize) -> usize {
    let allowed = process::raise_open_files(MAX_FILES).unwrap_or(u64::MAX);
    wanted.min(usize::try_from(allowed / 2).unwrap_or(usize::MAX))
}
