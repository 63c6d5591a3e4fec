//! Which history a version belongs to: for what is kept outside the database and must not be taken for another's.
//!
//! Version numbers come again: after a crash that lost buffered commits, and in a copy that goes on by itself. So each
//! opening that writes begins an *era* with a name of its own, in the first commit that it makes; as commits reach the
//! disk in their order, an era that was lost has lost everything that was done in it. A pair of era and version then names
//! one state of the database for ever, and [`Lineage::holds`] says whether that state is in the past of what is open.
//!
//! The record is made when something is kept outside for the first time ([`Store::begin_era`]); from then on every
//! opening that writes enters its era. Layout, all numbers big endian:
//!
//! ```text
//! 01                  format
//! u8 n, then n times, oldest first:
//!   16 bytes          name of the era
//!   u64 first         the version that it began with
//!   u64 until         the last version that belongs to it, ff×8 for the newest
//! u64 untold          the change stream was trimmed up to and including this version
//! ```

use isomer_storage::{Durability, Read, Version};

use crate::{DataError, Store, keyspace::LINEAGE};

const FORMAT: u8 = 1;
/// Most eras that are remembered: what was kept in an older one is made again.
const MOST_ERAS: usize = 100;

/// The name of an era: random.
pub type EraId = [u8; 16];

/// A stretch of history that one opening wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Era {
    id: EraId,
    first: Version,
    until: Version,
}

/// The eras in the past of a database, and how far back its change stream reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    eras: Vec<Era>,
    untold: Version,
    /// The version of what is open.
    now: Version,
}

impl Lineage {
    /// Whether the state of `version` in the era `id` is in the past of this database.
    pub fn holds(&self, id: &EraId, version: Version) -> bool {
        let known = self.eras.iter().find(|era| era.id == *id);
        known.is_some_and(|era| (era.first..=era.until).contains(&version) && version <= self.now)
    }

    /// How many eras began after the one named; nothing where it is not known. What is kept in an old one should be made
    /// anew before it is forgotten, which it is after a hundred.
    pub fn age(&self, id: &EraId) -> Option<usize> {
        let newer = self.eras.iter().rev().position(|era| era.id == *id)?;
        Some(newer)
    }

    /// Whether the change stream tells everything that happened after `version`.
    pub fn tells_since(&self, version: Version) -> bool {
        self.untold <= version
    }

    fn decode(mut bytes: &[u8], now: Version) -> Option<Self> {
        fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
            let (head, rest) = bytes.split_first_chunk::<N>()?;
            *bytes = rest;
            Some(*head)
        }
        let [format, count] = take::<2>(&mut bytes)?;
        if format != FORMAT {
            return None;
        }
        let mut eras = Vec::with_capacity(count.into());
        for _ in 0..count {
            eras.push(Era {
                id: take(&mut bytes)?,
                first: u64::from_be_bytes(take(&mut bytes)?),
                until: u64::from_be_bytes(take(&mut bytes)?),
            });
        }
        let untold = u64::from_be_bytes(take(&mut bytes)?);
        bytes.is_empty().then_some(Self { eras, untold, now })
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT, self.eras.len() as u8];
        for era in &self.eras {
            bytes.extend_from_slice(&era.id);
            bytes.extend_from_slice(&era.first.to_be_bytes());
            bytes.extend_from_slice(&era.until.to_be_bytes());
        }
        bytes.extend_from_slice(&self.untold.to_be_bytes());
        bytes
    }

    /// Ends the newest era at `version` and begins another one there.
    fn begin(&mut self, version: Version) -> EraId {
        if let Some(newest) = self.eras.last_mut() {
            newest.until = newest.until.min(version);
        }
        if self.eras.len() == MOST_ERAS {
            self.eras.remove(0);
        }
        let id = *uuid::Uuid::now_v7().as_bytes();
        self.eras.push(Era {
            id,
            first: version,
            until: Version::MAX,
        });
        id
    }
}

/// What an opened store knows of its own era.
#[derive(Debug, Default)]
pub(crate) struct OwnEra {
    /// The version that was opened.
    pub(crate) opened: Version,
    /// Entered in the record.
    pub(crate) id: Option<EraId>,
    /// The record could not be changed when the store was opened: it says nothing about the present.
    pub(crate) lost: bool,
}

impl Store {
    /// The eras in the past of what is open.
    ///
    /// # Errors
    /// [`DataError::Corrupt`] for a record that cannot be read.
    pub fn lineage(&self) -> Result<Lineage, DataError> {
        if self.shared().era.lock().lost {
            return Ok(Lineage::default());
        }
        let snapshot = self.engine().snapshot()?;
        read(&*snapshot)
    }

    /// The name of the era of this opening, entered now unless it was before. What is named by it and a version is durable
    /// only once the version is ([`isomer_storage::Engine::sync`]).
    ///
    /// # Errors
    /// [`DataError::Denied`] in a store that only reads; those of a commit.
    pub fn begin_era(&self) -> Result<EraId, DataError> {
        if self.options().read_only {
            return Err(DataError::Denied(
                "the database is opened for reading only".into(),
            ));
        }
        let mut own = self.shared().era.lock();
        if let Some(id) = own.id {
            return Ok(id);
        }
        // Everything since the opening was committed by it.
        let id = self.enter(own.opened)?;
        (own.id, own.lost) = (Some(id), false);
        Ok(id)
    }

    /// At opening, before anything is committed: a new era, where eras are kept at all.
    pub(crate) fn open_era(&self) {
        let mut own = self.shared().era.lock();
        own.opened = self.engine().version();
        if self.options().read_only {
            return;
        }
        self.trim_as_entered();
        let kept = self
            .engine()
            .snapshot()
            .map_err(DataError::from)
            .and_then(|snapshot| Ok(!read(&*snapshot)?.eras.is_empty()));
        // A full disk is no reason not to open: what was kept outside is then made again.
        match kept {
            Ok(false) => {}
            Ok(true) => match self.enter(own.opened) {
                Ok(id) => own.id = Some(id),
                Err(_) => own.lost = true,
            },
            Err(_) => own.lost = true,
        }
    }

    /// What was entered as forgotten is, also where the process ended in between, or the engine did not note so formerly.
    fn trim_as_entered(&self) {
        let outcome = (|| {
            let untold = read(&*self.engine().snapshot()?)?.untold;
            if self.engine().stream_trimmed()? < untold {
                self.engine().trim_stream(untold)?;
            }
            Ok::<_, DataError>(())
        })();
        // Where that cannot be, more is told than need be: the entries are there, or the engine says that they are not.
        drop(outcome);
    }

    fn enter(&self, first: Version) -> Result<EraId, DataError> {
        let mut tx = self.engine().begin()?;
        let mut lineage = read(&*tx)?;
        let id = lineage.begin(first);
        tx.put(LINEAGE, &lineage.encode())?;
        tx.commit(Durability::Buffered)?;
        Ok(id)
    }

    /// Enters into a transaction that the change stream will be trimmed up to `version`.
    pub(crate) fn enter_trimmed(
        &self,
        tx: &mut dyn isomer_storage::Transaction,
        version: Version,
    ) -> Result<(), DataError> {
        let mut lineage = read(tx)?;
        if lineage.untold < version {
            lineage.untold = version;
            tx.put(LINEAGE, &lineage.encode())?;
        }
        Ok(())
    }
}

fn read(read: &(impl Read + ?Sized)) -> Result<Lineage, DataError> {
    let now = read.version();
    match read.get(LINEAGE)? {
        None => Ok(Lineage {
            now,
            ..Lineage::default()
        }),
        Some(bytes) => Lineage::decode(&bytes, now)
            .ok_or_else(|| DataError::corrupt("the record of eras is malformed")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use isomer_storage::{Engine, MemoryEngine};

    use super::*;
    use crate::{Access, StoreOptions};

    fn commit(store: &Store) -> Version {
        let mut tx = store.begin(Access::Write).unwrap();
        tx.create_node(&[], &isomer_value::Map::new()).unwrap();
        tx.commit().unwrap()
    }

    #[test]
    fn the_record_comes_back_and_no_bytes_make_it_panic() {
        let mut lineage = Lineage::default();
        for version in 0..2 * MOST_ERAS as u64 {
            lineage.begin(version);
        }
        lineage.untold = 7;
        assert_eq!(lineage.eras.len(), MOST_ERAS);
        let bytes = lineage.encode();
        assert_eq!(Lineage::decode(&bytes, 0), Some(lineage));
        for cut in 0..bytes.len() {
            assert_eq!(Lineage::decode(&bytes[..cut], 0), None);
        }
    }

    #[test]
    fn a_state_belongs_to_one_history_only() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let open = || Store::open(engine.clone(), StoreOptions::default()).unwrap();
        let store = open();
        let early = commit(&store);
        let first = store.begin_era().unwrap();
        assert_eq!(store.begin_era().unwrap(), first);
        let late = commit(&store);
        let lineage = store.lineage().unwrap();
        assert!(lineage.holds(&first, early) && lineage.holds(&first, late));
        assert!(!lineage.holds(&first, late + 1), "that is not yet");
        assert!(!lineage.holds(&[0; 16], early), "nobody's era");
        drop(store);

        // Another opening: what was, is; versions that come now are its own.
        let store = open();
        let now = commit(&store);
        let lineage = store.lineage().unwrap();
        assert!(lineage.holds(&first, late));
        assert!(!lineage.holds(&first, now));
        let second = store.begin_era().unwrap();
        assert_ne!(first, second);
        assert!(lineage.holds(&second, now));
        assert_eq!(
            (lineage.age(&first), lineage.age(&second)),
            (Some(1), Some(0))
        );
        assert_eq!(lineage.age(&[0; 16]), None);
    }

    #[test]
    fn nothing_is_written_where_nothing_is_kept_outside() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        drop(Store::open(engine.clone(), StoreOptions::default()).unwrap());
        let before = engine.version();
        drop(Store::open(engine.clone(), StoreOptions::default()).unwrap());
        assert_eq!(engine.version(), before);
    }
}
