//! Joining buckets, their entries and sequences of two states.

use xxhash_rust::xxh3::xxh3_128;

use super::{
    buckets::sequence_key,
    codec::{take_bytes, take_u32},
    join_records::Sides,
    snapshot::entry_versions,
    versions::{Version, join, take_versions},
    wire::{self, Incoming, Mapper},
};
use crate::{DataError, Transaction, catalog::NameKind, keyspace};

impl Transaction {
    /// Joins an entry of a bucket; returns its key.
    pub(super) fn join_entry(
        &mut self,
        map: &mut Incoming<'_>,
        tag: u8,
        content: &[u8],
        sides: &Sides<'_>,
    ) -> Result<u128, DataError> {
        let mut rest = content;
        let bucket = take_u32(&mut rest).ok_or_else(wire::bad_item)?;
        let bucket = map.name(NameKind::Bucket, bucket)?;
        self.store().check_bucket(bucket)?;
        let key = take_bytes(&mut rest).ok_or_else(wire::bad_item)?;
        let value = match tag {
            14 => &[],
            _ => take_bytes(&mut rest).ok_or_else(wire::bad_item)?,
        };
        let theirs = take_versions(&mut rest, &[]).ok_or_else(wire::bad_item)?;
        let theirs = entry_versions(map, &theirs)?;
        let stored = match tag {
            14 => keyspace::bucket_entry(bucket, key),
            _ => keyspace::bucket_pair(bucket, key, value),
        };
        let ours = self.cell_versions(&stored)?;
        let joined = join(&ours, sides.here, &theirs, sides.theirs);
        match tag {
            14 => self.materialize_entry(bucket, key, &ours, joined)?,
            _ => self.materialize_pair(bucket, key, value, &ours, joined)?,
        }
        Ok(xxh3_128(&stored))
    }

    /// Joins the definition of a bucket, or a sequence; returns its key.
    pub(super) fn join_bucket(
        &mut self,
        map: &mut Incoming<'_>,
        tag: u8,
        content: &[u8],
        sides: &Sides<'_>,
    ) -> Result<u128, DataError> {
        let mut rest = content;
        let bucket = take_u32(&mut rest).ok_or_else(wire::bad_item)?;
        let bucket = map.name(NameKind::Bucket, bucket)?;
        self.store().check_bucket(bucket)?;
        let name = match tag {
            16 => Some(take_bytes(&mut rest).ok_or_else(wire::bad_item)?),
            _ => None,
        };
        let theirs = take_versions(&mut rest, &[]).ok_or_else(wire::bad_item)?;
        let theirs = wire::versions(map, &theirs, |_, value| Ok(value.to_vec()))?;
        let is_bad = |version: &Version| match name {
            Some(_) => version.value.len() != 8,
            None => crate::BucketOptions::decode(&version.value).is_err(),
        };
        if theirs.iter().any(is_bad) {
            return Err(wire::bad_item());
        }
        let stored = match name {
            Some(name) => sequence_key(bucket, name)?,
            None => keyspace::bucket(bucket),
        };
        self.join_lives(bucket, name, &theirs, sides)?;
        Ok(xxh3_128(&stored))
    }

    pub(super) fn join_lives(
        &mut self,
        bucket: u32,
        sequence: Option<&[u8]>,
        theirs: &[Version],
        sides: &Sides<'_>,
    ) -> Result<(), DataError> {
        let stored = match sequence {
            Some(name) => sequence_key(bucket, name)?,
            None => keyspace::bucket(bucket),
        };
        let ours = self.lives(&stored)?;
        let joined = join(&ours, sides.here, theirs, sides.theirs);
        if joined == ours {
            return Ok(());
        }
        match sequence {
            Some(name) => self.materialize_sequence(bucket, name, joined),
            None => {
                self.touch_bucket(bucket)?;
                self.put_lives(&stored, joined)?;
                self.materialize_bucket(bucket, None)
            }
        }
    }
}
