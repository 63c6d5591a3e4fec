//! What the benchmark asks of a system.

use anyhow::Result;

/// A replica, wholly in memory, with one set inside a map. What changes it gives the bytes that another replica would have to
/// hear of it: nobody is spared the encoding.
pub trait Peer: Sized {
    /// An empty replica.
    fn new() -> Result<Self>;
    /// Another replica from the bytes of a whole one, under a name of its own.
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

    /// What this replica has seen, for another one to be asked for the rest.
    fn version(&mut self) -> Result<Vec<u8>>;
    /// What somebody lacks who has seen `version`; `None` where the system keeps no log of it.
    fn news(&mut self, version: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Applies what [`Peer::add`], [`Peer::remove`] or [`Peer::news`] gave.
    fn apply(&mut self, news: &[u8]) -> Result<()>;
    /// Merges the whole state of another replica.
    fn join(&mut self, state: &[u8]) -> Result<()>;

    /// Five replicas that each count to `each` and hear of one another; the sums that they then hold. `None` without counters.
    fn count(each: u64) -> Result<Option<Vec<i64>>>;
}
