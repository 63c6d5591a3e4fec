//! Shared objects in memory.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use parking_lot::Mutex;

use super::faults::{Connection, Delivery, Failure, Faults, Hook};
use crate::{BlobError, Blobs, Created, Replaced, Tag, check_name};

/// A stale list lacks the objects of that many calls.
const STALE_CALLS: u64 = 16;

/// Objects in memory; clones share them. [`MemoryBlobs::with_faults`] gives a handle whose calls fail.
#[derive(Clone, Debug, Default)]
pub struct MemoryBlobs {
    objects: Arc<Mutex<Objects>>,
    connection: Arc<Connection>,
}

#[derive(Debug, Default)]
struct Objects {
    by_name: BTreeMap<String, Object>,
    writes: u64,
    /// Writes that take effect at a later call.
    delayed: Vec<(u64, Write)>,
    calls: u64,
}

#[derive(Debug)]
struct Object {
    tag: Tag,
    content: Vec<u8>,
    /// The call that created it.
    created_at: u64,
}

/// The creation of an object, or its replacement if the tag of the caller is given.
#[derive(Clone, Debug)]
struct Write {
    name: String,
    known: Option<Tag>,
    content: Vec<u8>,
}

impl Objects {
    /// Counts a call, and lets the delayed writes that are due take effect.
    fn advance(&mut self) {
        self.calls += 1;
        let calls = self.calls;
        let (due, rest) = std::mem::take(&mut self.delayed)
            .into_iter()
            .partition::<Vec<_>, _>(|(when, _)| *when <= calls);
        self.delayed = rest;
        for (_, write) in due {
            // No caller waits for the answer.
            let _ = self.write(write);
        }
    }

    /// Writes unless the object exists, or has another tag; returns the new tag if it did.
    fn write(&mut self, write: Write) -> Option<Tag> {
        let existing = self.by_name.get(&write.name);
        if existing.map(|object| &object.tag) != write.known.as_ref() {
            return None;
        }
        let created_at = existing.map_or(self.calls, |object| object.created_at);
        self.writes += 1;
        let tag = Tag(self.writes.to_string());
        let object = Object {
            tag: tag.clone(),
            content: write.content,
            created_at,
        };
        self.by_name.insert(write.name, object);
        Some(tag)
    }
}

impl From<Failure> for BlobError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unavailable => Self::Unavailable("an injected fault".into()),
            Failure::Crashed => Self::Refused("the node has crashed".into()),
        }
    }
}

/// The answer to a write: its outcome, or that it is not known.
enum Answer {
    Done(Option<Tag>),
    None(String),
}

impl MemoryBlobs {
    /// A handle whose calls have faults, in a sequence that `seed` determines, and call `hook`.
    pub fn with_faults(&self, faults: Faults, seed: u64, hook: Option<Hook>) -> Self {
        Self {
            objects: self.objects.clone(),
            connection: Arc::new(Connection::new(faults, seed, hook)),
        }
    }

    /// Whether the hook of this handle has let its node crash.
    pub fn is_crashed(&self) -> bool {
        self.connection.is_crashed()
    }

    /// Runs a call, or fails instead.
    fn call<T>(&self, run: impl FnOnce(&mut Objects) -> T) -> Result<T, BlobError> {
        self.connection.call(|| {
            let mut objects = self.objects.lock();
            objects.advance();
            Ok(run(&mut objects))
        })
    }

    fn write(&self, write: Write) -> Result<Answer, BlobError> {
        check_name(&write.name)?;
        let no_answer = || Answer::None("an injected fault".into());
        self.call(|objects| match self.connection.delivery() {
            Delivery::Lost => no_answer(),
            Delivery::Late(delay) => {
                objects.delayed.push((objects.calls + delay, write));
                no_answer()
            }
            Delivery::Now {
                again_after,
                is_answered,
            } => {
                if let Some(delay) = again_after {
                    let again = (objects.calls + delay, write.clone());
                    objects.delayed.push(again);
                }
                let outcome = Answer::Done(objects.write(write));
                if is_answered { outcome } else { no_answer() }
            }
        })
    }
}

impl Blobs for MemoryBlobs {
    fn get(&self, name: &str) -> Result<Option<(Vec<u8>, Tag)>, BlobError> {
        check_name(name)?;
        self.call(|objects| {
            let found = objects.by_name.get(name);
            found.map(|object| (object.content.clone(), object.tag.clone()))
        })
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Option<Vec<u8>>, BlobError> {
        check_name(name)?;
        self.call(|objects| {
            objects.by_name.get(name).map(|object| {
                let len = object.content.len();
                let at = |offset: u64| usize::try_from(offset).map_or(len, |at| at.min(len));
                let (start, end) = (at(range.start), at(range.end));
                object.content[start..end.max(start)].to_vec()
            })
        })
    }

    fn create(&self, name: &str, content: &[u8]) -> Result<Created, BlobError> {
        let write = Write {
            name: name.to_owned(),
            known: None,
            content: content.to_vec(),
        };
        Ok(match self.write(write)? {
            Answer::Done(Some(tag)) => Created::Created(tag),
            Answer::Done(None) => Created::Exists,
            Answer::None(why) => Created::Unknown(why),
        })
    }

    fn replace(&self, name: &str, known: &Tag, content: &[u8]) -> Result<Replaced, BlobError> {
        let write = Write {
            name: name.to_owned(),
            known: Some(known.clone()),
            content: content.to_vec(),
        };
        Ok(match self.write(write)? {
            Answer::Done(Some(tag)) => Replaced::Replaced(tag),
            Answer::Done(None) => Replaced::Changed,
            Answer::None(why) => Replaced::Unknown(why),
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, BlobError> {
        let is_stale = self.connection.is_list_stale();
        self.call(|objects| {
            let calls = objects.calls;
            let is_listed = |object: &Object| !is_stale || object.created_at + STALE_CALLS <= calls;
            let names = objects.by_name.range(prefix.to_owned()..);
            names
                .take_while(|(name, _)| name.starts_with(prefix))
                .filter(|(_, object)| is_listed(object))
                .map(|(name, _)| name.clone())
                .collect()
        })
    }

    fn remove(&self, name: &str) -> Result<(), BlobError> {
        check_name(name)?;
        self.call(|objects| drop(objects.by_name.remove(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_write_takes_effect_once_and_only_if_nothing_changed() {
        let blobs = MemoryBlobs::default();
        let late = blobs.with_faults(
            Faults {
                late: 1000,
                ..Faults::default()
            },
            1,
            None,
        );
        let outcome = late.create("a", b"late");
        assert!(matches!(outcome, Ok(Created::Unknown(_))), "{outcome:?}");
        let mut calls = 0;
        while blobs.get("a").expect("an answer").is_none() {
            calls += 1;
            assert!(calls < 20);
        }
        let (_, tag) = blobs.get("a").expect("an answer").expect("it is there");
        let outcome = late.replace("a", &tag, b"later");
        assert!(matches!(outcome, Ok(Replaced::Unknown(_))), "{outcome:?}");
        let replaced = blobs.replace("a", &tag, b"first");
        assert!(matches!(
            replaced,
            Ok(Replaced::Replaced(_) | Replaced::Changed)
        ));
        let written = blobs.get("a").expect("an answer");
        for _ in 0..20 {
            assert_eq!(blobs.get("a"), Ok(written.clone()));
        }
    }

    #[test]
    fn a_stale_list_lacks_new_objects() {
        let blobs = MemoryBlobs::default();
        let stale = blobs.with_faults(
            Faults {
                stale_lists: 1000,
                ..Faults::default()
            },
            1,
            None,
        );
        blobs.create("a", b"").expect("an answer");
        assert_eq!(blobs.list(""), Ok(vec!["a".to_owned()]));
        assert_eq!(stale.list(""), Ok(vec![]));
        for _ in 0..STALE_CALLS {
            blobs.get("a").expect("an answer");
        }
        assert_eq!(stale.list(""), Ok(vec!["a".to_owned()]));
    }
}
