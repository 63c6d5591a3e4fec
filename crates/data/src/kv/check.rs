//! Checks derived data of buckets against its source: reverse entries and expiry entries.

use isomer_layout::{
    DataError,
    keyspace::{self, TAG_BUCKET},
    kv::{
        content::BucketEntry,
        options::{BucketKind, BucketOptions, decode_options},
    },
    pairs::each_pair,
};
use isomer_storage::Read;

use super::reverse;
use crate::DataStore;

impl DataStore {
    /// Reads all buckets of the last version and returns the inconsistencies, at most 100 findings.
    pub fn check_buckets(&self) -> Result<Vec<String>, DataError> {
        let snapshot = self.engine().snapshot()?;
        let read: &dyn Read = &*snapshot;
        let catalog = self.catalog();
        let mut findings = Vec::new();
        let mut buckets = Vec::new();
        each_pair(read, &[TAG_BUCKET], |key, value| {
            let id = keyspace::sole_id(&key[1..], "the number of a bucket")? as u32;
            buckets.push((id, decode_options(value)?));
            Ok(())
        })?;
        for (id, options) in buckets {
            let name = catalog
                .bucket_name(id)
                .unwrap_or_else(|| format!("number {id}").into());
            let mut find = |what: String| {
                if findings.len() < 100 {
                    findings.push(format!("bucket `{name}`: {what}"));
                }
            };
            if options.kind == BucketKind::Map {
                check_map(read, id, options, &mut find)?;
            } else {
                check_multi(read, id, &mut find)?;
            }
        }
        Ok(findings)
    }
}

fn check_map(
    read: &dyn Read,
    id: u32,
    options: BucketOptions,
    find: &mut dyn FnMut(String),
) -> Result<(), DataError> {
    let prefix = keyspace::bucket_entry(id, b"");
    let mut expected = 0_u64;
    each_pair(read, &prefix, |stored_key, stored| {
        let key = &stored_key[prefix.len()..];
        let Ok(entry) = BucketEntry::decode(stored) else {
            find(format!("the entry of key {} is malformed", shown(key)));
            return Ok(());
        };
        if let Some(time) = entry.expires
            && read.get(&keyspace::bucket_expiry(time, id, key))?.is_none()
        {
            find(format!(
                "key {} expires, but has no expiry entry",
                shown(key)
            ));
        }
        if reverse::has_reverse(options, key, entry.value) {
            expected += 1;
            let found = read.get(&keyspace::bucket_reverse(id, entry.value, key))?;
            let expires = found.map(|found| reverse::expires_at(&found)).transpose();
            if !matches!(expires, Ok(Some(expires)) if expires == entry.expires) {
                find(format!(
                    "the value of key {} does not lead back to it",
                    shown(key)
                ));
            }
        }
        Ok(())
    })?;
    let mut reverses = 0_u64;
    each_pair(read, &keyspace::bucket_reverses(id), |_, _| {
        reverses += 1;
        Ok(())
    })?;
    if reverses != expected {
        find(format!(
            "{reverses} values lead back to a key, {expected} should"
        ));
    }
    Ok(())
}

fn check_multi(read: &dyn Read, id: u32, find: &mut dyn FnMut(String)) -> Result<(), DataError> {
    let prefix = keyspace::bucket_pairs(id);
    each_pair(read, &prefix, |stored_key, _| {
        let mut rest = &stored_key[prefix.len()..];
        if keyspace::take_terminated(&mut rest).is_none() {
            find(format!("the key {} is malformed", shown(stored_key)));
        }
        Ok(())
    })
}

fn shown(key: &[u8]) -> String {
    format!("`{}`", key[..key.len().min(40)].escape_ascii())
}
