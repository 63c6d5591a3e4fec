//! Why exchanges do not advance.

/// Why exchanges do not advance, by how that is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A state transfer is in progress or incomplete.
    Joining,
    /// Transactions have timestamps ahead of a clock.
    Clock,
    /// The two programs have incompatible versions.
    Version,
    /// The peer refuses this database.
    Denied,
    /// The peer's database, or a file of the peer's entry, cannot be opened.
    Opening,
    /// The peer cannot be reached.
    Unreachable,
    /// The peer sent something invalid, or something that cannot be applied here.
    Quarantined,
    /// Any other error.
    Other,
}

impl Cause {
    const ALL: [Self; 8] = [
        Self::Joining,
        Self::Clock,
        Self::Version,
        Self::Denied,
        Self::Opening,
        Self::Unreachable,
        Self::Quarantined,
        Self::Other,
    ];

    /// Its name in the database and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Clock => "clock",
            Self::Version => "version",
            Self::Denied => "denied",
            Self::Opening => "not opened",
            Self::Unreachable => "unreachable",
            Self::Quarantined => "quarantined",
            Self::Other => "failed",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.name() == name)
    }

    /// How it is resolved.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::Joining => {
                "run `isomer sync once`, here or at the peer: the join resumes or restarts by itself"
            }
            Self::Clock => {
                "correct the wrong clock, and exchange again; transactions with a later timestamp are held back until that time, or until the database that holds them back accepts them: `isomer replica accept-clock`"
            }
            Self::Version => {
                "upgrade both to the same version; exchanges then resume by themselves"
            }
            Self::Denied => {
                "see the peer's message: a token needs the role `replica` on its database (set another one by `isomer replica add` with `--token-file`)"
            }
            Self::Opening => {
                "try to open the peer's database (`isomer check`), with the same `--key-file` if it is encrypted; if a server has it open, use its URL"
            }
            Self::Unreachable => {
                "nothing, if it is known to be offline: it is retried. Otherwise check that its server runs and its address is right"
            }
            Self::Quarantined => {
                "fix the reported problem, then add the peer again with `isomer replica add`: nothing is exchanged before"
            }
            Self::Other => "fix the reported problem; it is retried",
        }
    }
}
