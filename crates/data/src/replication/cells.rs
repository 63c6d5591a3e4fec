//! Bucket entries as versioned cells: versions of one value a key, members of the sets that multi-value buckets
//! contain.
//!
//! The version that is read is stored under the entry's own key; its writer, and the other versions, under the cell's
//! (see `versions`; a value of a multi-value bucket has versions without a value, each a dot that added it). An entry
//! without a cell is older than replication.

use isomer_storage::{KeyRange, Order, Page, PageLimit};

use super::{
    codec::malformed,
    versions::{self, Stamp, Version, push_versions, take_versions},
};
use crate::{DataError, Dot, Transaction, keyspace};

/// Keys, in their order.
pub(super) type Keys = Vec<Vec<u8>>;

impl Transaction {
    /// The versions of the entry under a key.
    pub(super) fn cell_versions(&self, stored: &[u8]) -> Result<Vec<Version>, DataError> {
        let cell = keyspace::cell(stored);
        let mut found = self.read().get_many(&[&cell, stored])?;
        let (value, cell) = (found.pop().flatten(), found.pop().flatten());
        self.versions_in(cell.as_deref(), value.as_deref())
    }

    pub(super) fn versions_in(
        &self,
        cell: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<Vec<Version>, DataError> {
        match (cell, value) {
            (Some(mut cell), value) => {
                let versions = take_versions(&mut cell, value.unwrap_or_default());
                versions.ok_or_else(|| malformed("the metadata of an entry of a bucket"))
            }
            (None, Some(value)) => Ok(vec![Version {
                stamp: self.shared().replication.base()?,
                value: value.to_vec(),
            }]),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// Stores the versions of an entry and returns the index of the one that is read; the caller must put that one.
    pub(super) fn put_cell(
        &mut self,
        stored: &[u8],
        versions: &[Version],
    ) -> Result<Option<usize>, DataError> {
        let cell = keyspace::cell(stored);
        let read = versions::winner(versions, &self.shared().own_replica);
        if versions.is_empty() {
            self.delete(&cell)?;
        } else {
            let mut bytes = Vec::with_capacity(24);
            push_versions(&mut bytes, versions, read);
            self.put(&cell, &bytes)?;
        }
        let conflict = keyspace::conflict_in_cell(stored);
        match differ(versions) {
            true => self.put(&conflict, &[])?,
            false if self.read().get(&conflict)?.is_some() => self.delete(&conflict)?,
            false => {}
        }
        Ok(read)
    }

    /// A local transaction put an entry: it has seen all existing versions.
    pub(super) fn own_cell(&mut self, stored: &[u8], stamp: Stamp) -> Result<(), DataError> {
        let value = Vec::new(); // it is stored under the key itself
        self.put_cell(stored, &[Version { stamp, value }]).map(drop)
    }

    /// A local transaction deleted an entry.
    pub(super) fn drop_cell(&mut self, stored: &[u8]) -> Result<(), DataError> {
        self.put_cell(stored, &[]).map(drop)
    }

    /// Keys from `start` up to `end`, collected, so that the caller can change them.
    pub(crate) fn keys_between(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> Result<Vec<Vec<u8>>, DataError> {
        let mut keys = Vec::new();
        self.each_between(start, end, &mut |key, _| keys.push(key.to_vec()))?;
        Ok(keys)
    }

    /// As [`Transaction::keys_between`], at most `most`; returns where to continue.
    pub(super) fn some_keys(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        most: usize,
    ) -> Result<(Keys, Option<Vec<u8>>), DataError> {
        let mut page = Page::new();
        let limit = PageLimit {
            keys: most,
            bytes: 4 << 20,
        };
        let range = KeyRange { start, end };
        self.read()
            .scan(range, Order::Ascending, limit, &mut page)?;
        let keys = page.iter().map(|(key, _)| key.to_vec()).collect();
        Ok((keys, page.next().map(|next| next.start.to_vec())))
    }

    /// Calls back with the pairs from `start` on up to `end`.
    pub(super) fn each_between(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), DataError> {
        let mut page = Page::new();
        let mut rest = Some((start.to_vec(), end.map(<[u8]>::to_vec)));
        while let Some((start, end)) = rest.take() {
            let range = KeyRange {
                start: &start,
                end: end.as_deref(),
            };
            let limit = PageLimit {
                keys: 4096,
                bytes: 1 << 20,
            };
            self.read()
                .scan(range, Order::Ascending, limit, &mut page)?;
            page.iter().for_each(|(key, value)| visit(key, value));
            rest = page
                .next()
                .map(|next| (next.start.to_vec(), next.end.map(<[u8]>::to_vec)));
        }
        Ok(())
    }

    /// Removes the seen versions of an entry. Returns the versions before and after.
    pub(super) fn see_cell(
        &self,
        stored: &[u8],
        seen: &dyn Fn(Dot) -> bool,
    ) -> Result<(Vec<Version>, Vec<Version>), DataError> {
        let before = self.cell_versions(stored)?;
        let mut after = before.clone();
        versions::remove_seen(&mut after, seen);
        Ok((before, after))
    }
}

/// Whether there are several explicitly written values; values that are carried along (see `keep`) count only if
/// nothing else exists, and only if several transactions carried them.
pub(super) fn differ(versions: &[Version]) -> bool {
    let of = |dot: Dot| (dot.op > 0).then_some((dot.replica, dot.number));
    let Some(first) = versions.iter().map(|one| of(one.stamp.dot)).min() else {
        return false;
    };
    let mut counted = versions.iter().filter(|one| of(one.stamp.dot) == first);
    let one = counted.next();
    counted.any(|other| Some(&other.value) != one.map(|one| &one.value))
}
