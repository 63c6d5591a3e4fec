//! Notifications of commits.

use std::sync::Arc;

use isomer_db::{
    Database,
    internals::{
        DatabaseInternals as _,
        data::{CommitObserver, Version},
    },
};
use tokio::sync::watch;

use crate::Result;

/// The newest version that was announced. Does not keep the database open.
pub struct Feed {
    newest: watch::Sender<Newest>,
}

/// What a subscriber sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newest {
    /// The newest commit that is visible or about to be.
    Version(Version),
    /// The database was closed.
    Closed,
}

struct Observer(Arc<Feed>);

impl CommitObserver for Observer {
    fn committing(&self, version: Version, _: &[u8]) {
        // No thread is woken if there are no subscribers.
        self.0.newest.send_replace(Newest::Version(version));
    }

    fn abandoned(&self, from: Version) {
        self.0.take_back(from);
    }

    fn unsettled(&self, from: Version) {
        self.0.take_back(from);
    }
}

impl Feed {
    /// Subscribes to a database's commits.
    pub(crate) fn follow(db: &Database) -> Result<Arc<Self>> {
        let store = db.store()?;
        if !store.options().read_only {
            // From now on, the database records how far back its change stream reaches.
            store.eras().begin()?;
        }
        let feed = Arc::new(Self {
            newest: watch::Sender::new(Newest::Version(store.engine().version())),
        });
        store.observe(Arc::new(Observer(feed.clone())));
        Ok(feed)
    }

    /// Subscribes to notifications.
    pub fn subscribe(&self) -> watch::Receiver<Newest> {
        self.newest.subscribe()
    }

    /// Withdraws announced versions that will not be committed, so that subscribers do not wait for them.
    fn take_back(&self, from: Version) {
        let seen = from.saturating_sub(1);
        self.newest.send_if_modified(|newest| match newest {
            Newest::Version(version) if *version > seen => {
                *version = seen;
                true
            }
            _ => false,
        });
    }

    /// Notifies subscribers that the database was closed.
    pub(crate) fn close(&self) {
        self.newest.send_replace(Newest::Closed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_failed_is_not_waited_for() {
        let db = Database::open_in_memory().unwrap();
        let feed = Feed::follow(&db).unwrap();
        let observer = Observer(feed.clone());
        let newest = feed.subscribe();
        observer.committing(7, b"");
        observer.committing(8, b"");
        observer.abandoned(7);
        assert_eq!(*newest.borrow(), Newest::Version(6));
        observer.committing(7, b"");
        observer.unsettled(9);
        assert_eq!(*newest.borrow(), Newest::Version(7));
        feed.close();
        observer.abandoned(2);
        assert_eq!(*newest.borrow(), Newest::Closed);
    }
}
