//! The workload on the storage contract alone, with granules as `data` would declare them.

use std::sync::Arc;

use anyhow::Result;
use isomer_storage::{
    Durability, Engine, EngineTransaction, Granule, GuardMode, KeyRange, Order, Page, PageLimit,
    StorageError,
};
use isomer_testkit::isolation::{
    Element,
    workload::{Access, Failure, Kind, Steps, Subject},
};

/// Objects as keys: kind, object and, for members of sets, the element.
pub struct Contract(pub Arc<dyn Engine>);

impl Subject for Contract {
    fn prepare(&self, _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    fn begin(&self, _: Access) -> Result<Box<dyn Steps + '_>> {
        Ok(Box::new(OpenTransaction(self.0.begin()?)))
    }
}

struct OpenTransaction(Box<dyn EngineTransaction>);

fn key(kind: Kind, object: u64) -> Vec<u8> {
    let mut key = vec![kind as u8];
    key.extend_from_slice(&object.to_be_bytes());
    key
}

fn member(kind: Kind, object: u64, element: Element) -> Vec<u8> {
    let mut key = key(kind, object);
    key.extend_from_slice(&element.to_be_bytes());
    key
}

fn granule(kind: Kind, object: u64) -> Granule {
    Granule(u128::from(object) << 8 | kind as u128)
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|chunk| u64::from_be_bytes(*chunk))
        .collect()
}

fn failure(error: StorageError) -> Failure {
    match error {
        StorageError::Conflict { .. } => Failure::Retry,
        StorageError::CommitUnknown(_) => Failure::Unknown,
        other => Failure::Broken(other.into()),
    }
}

impl Steps for OpenTransaction {
    fn list(&mut self, kind: Kind, object: u64) -> Result<Vec<Element>, Failure> {
        self.0.guard(granule(kind, object), GuardMode::Read);
        let value = self.0.get(&key(kind, object)).map_err(failure)?;
        Ok(numbers(&value.unwrap_or_default()))
    }

    fn put_list(&mut self, kind: Kind, object: u64, elements: &[Element]) -> Result<(), Failure> {
        self.0.guard(granule(kind, object), GuardMode::Write);
        let bytes: Vec<u8> = elements
            .iter()
            .flat_map(|element| element.to_be_bytes())
            .collect();
        self.0.put(&key(kind, object), &bytes).map_err(failure)
    }

    fn register(&mut self, kind: Kind, object: u64) -> Result<Option<Element>, Failure> {
        Ok(self.list(kind, object)?.first().copied())
    }

    fn put_register(&mut self, kind: Kind, object: u64, value: Element) -> Result<(), Failure> {
        self.0.guard(granule(kind, object), GuardMode::Add);
        self.0
            .put(&key(kind, object), &value.to_be_bytes())
            .map_err(failure)
    }

    fn members(&mut self, kind: Kind, object: u64) -> Result<Vec<Element>, Failure> {
        self.0.guard(granule(kind, object), GuardMode::Read);
        let (start, end) = (key(kind, object), key(kind, object + 1));
        let mut range = Some((start, Some(end)));
        let mut seen = Vec::new();
        let mut page = Page::new();
        while let Some((start, end)) = range.take() {
            let limit = PageLimit {
                keys: 7,
                bytes: 1 << 20,
            };
            self.0
                .scan(
                    KeyRange {
                        start: &start,
                        end: end.as_deref(),
                    },
                    Order::Ascending,
                    limit,
                    &mut page,
                )
                .map_err(failure)?;
            seen.extend(page.iter().flat_map(|(key, _)| numbers(&key[9..])));
            range = page
                .next()
                .map(|rest| (rest.start.to_vec(), rest.end.map(<[u8]>::to_vec)));
        }
        Ok(seen)
    }

    fn add(&mut self, kind: Kind, object: u64, element: Element) -> Result<(), Failure> {
        self.0.guard(granule(kind, object), GuardMode::Add);
        self.0
            .put(&member(kind, object, element), b"")
            .map_err(failure)
    }

    fn remove(&mut self, kind: Kind, object: u64, element: Element) -> Result<(), Failure> {
        self.0.guard(granule(kind, object), GuardMode::Add);
        self.0
            .delete(&member(kind, object, element))
            .map_err(failure)
    }

    fn commit(self: Box<Self>) -> Result<(), Failure> {
        self.0
            .commit(Durability::Buffered)
            .map(drop)
            .map_err(failure)
    }
}
