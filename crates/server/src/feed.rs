//! Who waits for commits of a database is woken by each.

use std::sync::Arc;

use isomer_db::{
    Database,
    data::{CommitObserver, Version},
};
use tokio::sync::watch;

use crate::Result;

/// The newest version that was told of. Holds nothing of the database.
pub struct Feed {
    newest: watch::Sender<Newest>,
}

/// What a waiter sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newest {
    /// The newest commit that is, or is about to be, visible.
    Version(Version),
    /// The database was closed.
    Closed,
}

struct Observer(Arc<Feed>);

impl CommitObserver for Observer {
    fn committing(&self, version: Version, _: &[u8]) {
        // Wakes nobody where nobody waits.
        self.0.newest.send_replace(Newest::Version(version));
    }
}

impl Feed {
    /// Follows a database.
    pub(crate) fn follow(db: &Database) -> Result<Arc<Self>> {
        let store = db.store()?;
        if !store.options().read_only {
            // From now on the database tells how far back its change stream reaches.
            store.begin_era()?;
        }
        let feed = Arc::new(Self {
            newest: watch::Sender::new(Newest::Version(store.engine().version())),
        });
        store.observe(Arc::new(Observer(feed.clone())));
        Ok(feed)
    }

    /// Waits for commits.
    pub fn subscribe(&self) -> watch::Receiver<Newest> {
        self.newest.subscribe()
    }

    /// Tells all who wait that nothing more will come.
    pub(crate) fn close(&self) {
        self.newest.send_replace(Newest::Closed);
    }
}
