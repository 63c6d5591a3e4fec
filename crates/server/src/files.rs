//! How many files the process may have open. Connections are files, too: a stranger's, before any login; and a database that can
//! open no file commits nothing.

/// No more files are asked for.
const MOST_FILES: u64 = 1 << 20;

/// How many connections there is room for, of those that are wanted: half of the files are for the databases, each table of which is
/// one. Asks the system for as many files as it allows, so it is called before databases are opened.
#[cfg(unix)]
pub fn room_for_connections(wanted: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let most = maximum.unwrap_or(MOST_FILES).min(MOST_FILES);
    if current.is_some_and(|current| current < most) {
        let more = Rlimit {
            current: Some(most),
            maximum,
        };
        // Where that is refused, it stays as it is.
        let _ = setrlimit(Resource::Nofile, more);
    }
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    wanted.min(usize::try_from(allowed / 2).unwrap_or(usize::MAX))
}

/// How many connections there is room for, of those that are wanted.
#[cfg(not(unix))]
pub fn room_for_connections(wanted: usize) -> usize {
    wanted
}
