//! Peers: whom this database exchanges with, kept for `isomer_sync`.

use isomer_storage::Durability;

use crate::{DataError, Store, keyspace, read::each_pair};

impl Store {
    /// Peers by name, with what is kept of them.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn replica_peers(&self) -> Result<Vec<(String, Vec<u8>)>, DataError> {
        let snapshot = self.engine().snapshot()?;
        let mut peers = Vec::new();
        each_pair(&*snapshot, keyspace::PEERS, |key, value| {
            let name = String::from_utf8_lossy(&key[keyspace::PEERS.len()..]);
            peers.push((name.into_owned(), value.to_vec()));
            Ok(())
        })?;
        Ok(peers)
    }

    /// Keeps something of a peer.
    ///
    /// # Errors
    /// [`DataError::Limit`] for a name that is too long; those of a commit.
    pub fn put_replica_peer(&self, name: &str, kept: &[u8]) -> Result<(), DataError> {
        crate::store::check_name("peer", name)?;
        let mut tx = self.engine().begin()?;
        tx.put(&keyspace::peer(name), kept)?;
        tx.commit(Durability::Synced)?;
        Ok(())
    }

    /// Forgets a peer; answers whether it was there.
    ///
    /// # Errors
    /// Those of a commit.
    pub fn remove_replica_peer(&self, name: &str) -> Result<bool, DataError> {
        let mut tx = self.engine().begin()?;
        let was = tx.get(&keyspace::peer(name))?.is_some();
        tx.delete(&keyspace::peer(name))?;
        tx.commit(Durability::Synced)?;
        Ok(was)
    }
}
