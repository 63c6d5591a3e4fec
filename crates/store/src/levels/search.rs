//! Looking for one key in the runs.

use std::{iter::Flatten, ptr, slice, sync::Arc};

use isomer_storage::{StorageError, Version};

use super::{Levels, Run};
use crate::table::{Got, Near, Table, filter::filter_hash};

/// The commit that decided over a key, and the value where it put one. `None` where no commit did anything with the key.
pub(crate) type Found<'v> = Option<(Version, Option<&'v [u8]>)>;

/// The search for what a reader at a version finds under a key. It stands at a block that may hold the newest entry, in the
/// newest run that has such a block, and has not looked into it.
pub(crate) struct Search<'a> {
    levels: &'a Levels,
    key: &'a [u8],
    at: Version,
    /// The newest erasure that covers the key.
    erased: Version,
    hash: Option<u64>,
    /// The runs behind this one.
    runs: Flatten<slice::Iter<'a, Vec<Arc<Run>>>>,
    here: Option<(&'a Table, Near)>,
    /// Runs that might have held it, and did not.
    passed: u32,
}

impl<'a> Search<'a> {
    /// A search that has not begun.
    #[inline]
    pub(crate) fn new(levels: &'a Levels, key: &'a [u8], at: Version) -> Self {
        Self {
            levels,
            key,
            at,
            erased: levels.erasures.newest_covering(key, at),
            hash: None,
            runs: levels.levels.iter().flatten(),
            here: None,
            passed: 0,
        }
    }

    /// Begins it; one that has begun for another key may stand where this one goes.
    #[inline]
    pub(crate) fn begin(&mut self, other: Option<&Self>) -> Result<(), StorageError> {
        self.advance(other.and_then(|other| other.here.as_ref()))
    }

    /// Goes to the next run with a block that may hold an entry; that may be a `known` one.
    fn advance(&mut self, known: Option<&(&'a Table, Near)>) -> Result<(), StorageError> {
        self.here = None;
        for run in self.runs.by_ref() {
            let Some(part) = run.part_of(self.key) else {
                continue;
            };
            let properties = &part.table.properties;
            if properties.oldest > self.at || properties.newest < self.erased {
                continue;
            }
            if let Some((table, near)) = known
                && ptr::eq(*table, &*part.table)
                && let Some(near) = near.also_of(self.key)
            {
                self.here = Some((&part.table, near));
                break;
            }
            let hash = *self.hash.get_or_insert_with(|| filter_hash(self.key));
            if let Some(near) = part.table.near(self.key, self.at, hash)? {
                self.here = Some((&part.table, near));
                break;
            }
            self.passed += 1;
        }
        Ok(())
    }

    /// See [`Near::touch`].
    #[inline]
    pub(crate) fn touch(&self) {
        if let Some((_, near)) = &self.here {
            near.touch();
        }
    }

    /// See [`Near::touch_entry`].
    #[inline]
    pub(crate) fn touch_entry(&self) {
        if let Some((_, near)) = &self.here {
            near.touch_entry(self.key);
        }
    }

    /// Looks on to the end, and calls `then` once with what was found.
    pub(crate) fn tell(&mut self, mut then: impl FnMut(Found<'_>)) -> Result<(), StorageError> {
        while let Some((table, near)) = &self.here {
            let told = table.look(near, self.key, self.at, |version, got| {
                if version < self.erased {
                    return Ok(false);
                }
                match got {
                    Got::Value(value) => then(Some((version, Some(value)))),
                    Got::Deletion => then(Some((version, None))),
                    Got::Apart(reference) => {
                        let value = self.levels.blobs.read(&reference)?;
                        then(Some((version, Some(&value))));
                    }
                }
                Ok(true)
            })?;
            match told {
                Some(true) => {
                    self.levels.detours.add(self.passed);
                    return Ok(());
                }
                Some(false) => break,
                None => {
                    self.passed += 1;
                    self.advance(None)?;
                }
            }
        }
        // That it is nowhere one run would have to say, too.
        self.levels.detours.add(self.passed.saturating_sub(1));
        then((self.erased > 0).then_some((self.erased, None)));
        Ok(())
    }
}
