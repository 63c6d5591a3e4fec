//! What readers read: memtables and tables, swapped in one step, and which versions are still read.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

use isomer_storage::{KeyRange, Order, StorageError, Version, View, Visitor};
use parking_lot::{Mutex, RwLock};

use crate::{Cursor, Kind, memtable::Memtable};

/// Where everything is at one moment. Never changed: replaced.
#[derive(Clone)]
pub struct State {
    /// Takes what is committed.
    pub active: Arc<Memtable>,
    /// Full ones that are not in tables yet, newest first.
    pub sealed: Vec<Arc<Memtable>>,
}

impl State {
    /// The memtables, newest first.
    fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }

    fn get(&self, key: &[u8], at: Version) -> Result<Option<Vec<u8>>, StorageError> {
        // Each place holds only versions below those of the places before it: the first that knows the key decides.
        for memtable in self.memtables() {
            let erased = memtable.newest_erasure(key, at);
            match memtable.get(key, at) {
                Some((version, value)) if version >= erased => return Ok(value.map(<[u8]>::to_vec)),
                Some(_) => return Ok(None),
                None if erased > 0 => return Ok(None),
                None => {}
            }
        }
        Ok(None)
    }

    fn visit(
        &self,
        range: KeyRange<'_>,
        order: Order,
        at: Version,
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError> {
        // While there are no tables there is one memtable.
        let mut cursor = self.active.cursor();
        let erasures = self.active.erasures();
        match order {
            Order::Ascending => {
                cursor.seek(range.start, Version::MAX)?;
                let mut last: Vec<u8> = Vec::new();
                while cursor.valid() && range.end.is_none_or(|end| cursor.key() < end) {
                    let (key, version) = (cursor.key().to_vec(), cursor.version());
                    if version <= at && last != key {
                        let live = cursor.kind() == Kind::Put
                            && version >= erasures.newest_covering(&key, at);
                        if live && visit(&key, cursor.value()?).is_break() {
                            return Ok(());
                        }
                        last = key;
                    }
                    cursor.next()?;
                }
            }
            Order::Descending => {
                cursor.seek_before(range.end)?;
                while cursor.valid() && cursor.key() >= range.start {
                    let key = cursor.key().to_vec();
                    if let Some(value) = self.get(&key, at)?
                        && visit(&key, &value) == ControlFlow::Break(())
                    {
                        return Ok(());
                    }
                    cursor.seek_before(Some(&key))?;
                }
            }
        }
        Ok(())
    }
}

/// The state, and who reads what.
pub struct Shared {
    state: RwLock<Arc<State>>,
    readers: Mutex<Readers>,
}

#[derive(Default)]
struct Readers {
    /// Versions of views, with how many of each there are.
    live: BTreeMap<Version, usize>,
    /// Versions below it may have been collected, unless somebody reads them.
    floor: Version,
}

impl Shared {
    /// A first state.
    pub fn new(state: State, floor: Version) -> Self {
        Self {
            state: RwLock::new(Arc::new(state)),
            readers: Mutex::new(Readers {
                floor,
                ..Readers::default()
            }),
        }
    }

    /// The present state.
    pub fn state(&self) -> Arc<State> {
        self.state.read().clone()
    }

    /// Replaces the state by what `change` makes of it. The old one is dropped after the lock.
    pub fn change(&self, change: impl FnOnce(&State) -> State) {
        let mut state = self.state.write();
        let new = Arc::new(change(&state));
        let old = std::mem::replace(&mut *state, new);
        drop(state);
        drop(old);
    }

    /// A view of the last published version, which is `version` or later.
    pub fn view(self: &Arc<Self>, version: Version) -> Arc<StoreView> {
        *self.readers.lock().live.entry(version).or_default() += 1;
        Arc::new(StoreView {
            version,
            shared: self.clone(),
        })
    }

    /// A view of an earlier version, where it can still be read.
    pub fn view_at(self: &Arc<Self>, version: Version) -> Option<Arc<StoreView>> {
        let mut readers = self.readers.lock();
        if version < readers.floor && !readers.live.contains_key(&version) {
            return None;
        }
        *readers.live.entry(version).or_default() += 1;
        Some(Arc::new(StoreView {
            version,
            shared: self.clone(),
        }))
    }

    /// The oldest version that can be read for sure.
    pub fn floor(&self) -> Version {
        self.readers.lock().floor
    }
}

/// One version. What it reads stays readable while it lives.
pub struct StoreView {
    version: Version,
    shared: Arc<Shared>,
}

impl Drop for StoreView {
    fn drop(&mut self) {
        let mut readers = self.shared.readers.lock();
        if let Some(count) = readers.live.get_mut(&self.version) {
            *count -= 1;
            if *count == 0 {
                readers.live.remove(&self.version);
            }
        }
    }
}

impl View for StoreView {
    fn version(&self) -> Version {
        self.version
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.shared.state().get(key, self.version)
    }

    fn visit(
        &self,
        range: KeyRange<'_>,
        order: Order,
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError> {
        self.shared.state().visit(range, order, self.version, visit)
    }
}
