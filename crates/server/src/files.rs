//! How many files the process may have open. Connections are files, too: a stranger's, before any login; and a database that can
//! open no file commits nothing.

/// For databases and all else.
const OTHER_FILES: u64 = 1_000;

/// How many connections there is room for beside the databases, of those that are wanted: half of the files at least. Asks the
/// system for more files where it allows them.
#[cfg(unix)]
pub fn room_for_connections(wanted: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let files = u64::try_from(wanted)
        .unwrap_or(u64::MAX)
        .saturating_add(OTHER_FILES);
    if current.is_some_and(|current| current < files) {
        // Only who is privileged gets more than the maximum.
        let most = [Some(files), maximum.map(|most| most.min(files))];
        most.into_iter().flatten().any(|files| {
            let raised = Rlimit {
                current: Some(files),
                maximum: maximum.map(|most| most.max(files)),
            };
            setrlimit(Resource::Nofile, raised).is_ok()
        });
    }
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let room = allowed.saturating_sub(OTHER_FILES).max(allowed / 2);
    wanted.min(usize::try_from(room).unwrap_or(usize::MAX))
}

/// How many connections there is room for, of those that are wanted.
#[cfg(not(unix))]
pub fn room_for_connections(wanted: usize) -> usize {
    wanted
}
