//! The operations that the benchmark needs of a system.

use anyhow::Result;

/// An in-memory replica with one set inside a map. A change returns the bytes that another replica would
/// need, so that every system pays for the encoding.
pub trait Peer: Sized {
    /// An empty replica.
    fn new() -> Result<Self>;
    /// Another replica from the bytes of a whole one, with a new replica id.
    fn load(state: &[u8]) -> Result<Self>;
    /// The whole replica as bytes.
    fn save(&mut self) -> Result<Vec<u8>>;

    /// Adds elements in one transaction.
    fn add(&mut self, elements: &[String]) -> Result<Vec<u8>>;
    /// Removes an element.
    fn remove(&mut self, element: &str) -> Result<Vec<u8>>;
    /// Whether an element is in the set.
    fn contains(&self, element: &str) -> Result<bool>;
    /// All elements, as values of the caller.
    fn read_all(&self) -> Result<Vec<String>>;

    /// The version vector of this replica, with which another one can request the rest.
    fn version(&mut self) -> Result<Vec<u8>>;
    /// The updates that a replica at `version` lacks; `None` if the system keeps no log.
    fn news(&mut self, version: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Applies the result of [`Peer::add`], [`Peer::remove`] or [`Peer::news`].
    fn apply(&mut self, news: &[u8]) -> Result<()>;
    /// Merges the whole state of another replica.
    fn join(&mut self, state: &[u8]) -> Result<()>;

    /// Five replicas that each count to `each` and exchange; returns their totals. `None` without counters.
    fn count(each: u64) -> Result<Option<Vec<i64>>>;
}
