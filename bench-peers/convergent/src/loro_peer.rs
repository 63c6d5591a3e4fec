//! The crate `loro`: a map inside a map, its keys the elements.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use loro::{Container, ExportMode, LoroDoc, LoroMap, Subscription, VersionVector};

use crate::peer::Peer;

pub struct Loro {
    doc: LoroDoc,
    set: LoroMap,
    last_update: LastUpdate,
    _subscription: Subscription,
}

/// The update that the last commit sent to subscribers.
type LastUpdate = Arc<Mutex<Vec<u8>>>;

fn subscribe(doc: &LoroDoc) -> (LastUpdate, Subscription) {
    let last_update = LastUpdate::default();
    let kept = last_update.clone();
    let subscription = doc.subscribe_local_update(Box::new(move |bytes| {
        if let Ok(mut kept) = kept.lock() {
            kept.clone_from(bytes);
        }
        true
    }));
    (last_update, subscription)
}

impl Loro {
    fn take_update(&self) -> Result<Vec<u8>> {
        let mut last_update = self.last_update.lock().ok().context("a subscriber panicked")?;
        Ok(std::mem::take(&mut last_update))
    }
}

impl Peer for Loro {
    fn new() -> Result<Self> {
        let doc = LoroDoc::new();
        let set = doc.get_map("map").insert_container("set", LoroMap::new())?;
        doc.commit();
        let (last_update, subscription) = subscribe(&doc);
        Ok(Self {
            doc,
            set,
            last_update,
            _subscription: subscription,
        })
    }

    fn load(state: &[u8]) -> Result<Self> {
        let doc = LoroDoc::from_snapshot(state)?;
        let found = doc.get_map("map").get("set");
        let Some(Ok(Container::Map(set))) = found.map(loro::ValueOrContainer::into_container)
        else {
            anyhow::bail!("the set is gone");
        };
        let (last_update, subscription) = subscribe(&doc);
        Ok(Self {
            doc,
            set,
            last_update,
            _subscription: subscription,
        })
    }

    fn save(&mut self) -> Result<Vec<u8>> {
        Ok(self.doc.export(ExportMode::Snapshot)?)
    }

    fn add(&mut self, elements: &[String]) -> Result<Vec<u8>> {
        for element in elements {
            self.set.insert(element, true)?;
        }
        self.doc.commit();
        self.take_update()
    }

    fn remove(&mut self, element: &str) -> Result<Vec<u8>> {
        self.set.delete(element)?;
        self.doc.commit();
        self.take_update()
    }

    fn contains(&self, element: &str) -> Result<bool> {
        Ok(self.set.get(element).is_some())
    }

    fn read_all(&self) -> Result<Vec<String>> {
        Ok(self.set.keys().map(|key| key.to_string()).collect())
    }

    fn version(&mut self) -> Result<Vec<u8>> {
        Ok(self.doc.oplog_vv().encode())
    }

    fn news(&mut self, version: &[u8]) -> Result<Option<Vec<u8>>> {
        let seen = VersionVector::decode(version)?;
        Ok(Some(self.doc.export(ExportMode::updates(&seen))?))
    }

    fn apply(&mut self, news: &[u8]) -> Result<()> {
        self.doc.import(news)?;
        Ok(())
    }

    fn join(&mut self, state: &[u8]) -> Result<()> {
        self.apply(state)
    }

    fn count(each: u64) -> Result<Option<Vec<i64>>> {
        let replicas: Vec<LoroDoc> = (0..5).map(|_| LoroDoc::new()).collect();
        let mut sent = Vec::new();
        for (at, doc) in replicas.iter().enumerate() {
            let (last_update, _subscription) = subscribe(doc);
            let counter = doc.get_counter("n");
            for _ in 0..each {
                counter.increment(1.0)?;
                doc.commit();
                let mut last_update = last_update.lock().ok().context("a subscriber panicked")?;
                sent.push((at, std::mem::take(&mut *last_update)));
            }
        }
        let mut sums = Vec::new();
        for (at, doc) in replicas.iter().enumerate() {
            for (_, news) in sent.iter().filter(|(from, _)| *from != at) {
                doc.import(news)?;
            }
            sums.push(doc.get_counter("n").get() as i64);
        }
        Ok(Some(sums))
    }
}
