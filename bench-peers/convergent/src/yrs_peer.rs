//! The crate `yrs`: a map inside a map, its keys the elements.

use anyhow::{Context, Result};
use yrs::{
    Doc, Map, MapPrelim, MapRef, Out, ReadTxn, StateVector, Transact, Update, WriteTxn,
    updates::{decoder::Decode, encoder::Encode},
};

use crate::peer::Peer;

pub struct Yrs {
    doc: Doc,
    set: MapRef,
}

fn set_of(doc: &Doc) -> Result<MapRef> {
    let tx = doc.transact();
    let map = tx.get_map("map").context("the map is gone")?;
    match map.get(&tx, "set") {
        Some(Out::YMap(set)) => Ok(set),
        _ => anyhow::bail!("the set is gone"),
    }
}

impl Peer for Yrs {
    fn new() -> Result<Self> {
        let doc = Doc::new();
        let mut tx = doc.transact_mut();
        let map = tx.get_or_insert_map("map");
        let set = map.insert(&mut tx, "set", MapPrelim::default());
        drop(tx);
        Ok(Self { doc, set })
    }

    fn load(state: &[u8]) -> Result<Self> {
        let doc = Doc::new();
        let mut tx = doc.transact_mut();
        tx.get_or_insert_map("map");
        tx.apply_update(Update::decode_v1(state)?)?;
        drop(tx);
        let set = set_of(&doc)?;
        Ok(Self { doc, set })
    }

    fn save(&mut self) -> Result<Vec<u8>> {
        let all = StateVector::default();
        Ok(self.doc.transact().encode_state_as_update_v1(&all))
    }

    fn add(&mut self, elements: &[String]) -> Result<Vec<u8>> {
        let mut tx = self.doc.transact_mut();
        for element in elements {
            self.set.insert(&mut tx, element.as_str(), true);
        }
        Ok(tx.encode_update_v1())
    }

    fn remove(&mut self, element: &str) -> Result<Vec<u8>> {
        let mut tx = self.doc.transact_mut();
        self.set.remove(&mut tx, element);
        Ok(tx.encode_update_v1())
    }

    fn contains(&self, element: &str) -> Result<bool> {
        Ok(self.set.contains_key(&self.doc.transact(), element))
    }

    fn read_all(&self) -> Result<Vec<String>> {
        let tx = self.doc.transact();
        Ok(self.set.keys(&tx).map(str::to_owned).collect())
    }

    fn version(&mut self) -> Result<Vec<u8>> {
        Ok(self.doc.transact().state_vector().encode_v1())
    }

    fn news(&mut self, version: &[u8]) -> Result<Option<Vec<u8>>> {
        let seen = StateVector::decode_v1(version)?;
        Ok(Some(self.doc.transact().encode_diff_v1(&seen)))
    }

    fn apply(&mut self, news: &[u8]) -> Result<()> {
        let update = Update::decode_v1(news)?;
        Ok(self.doc.transact_mut().apply_update(update)?)
    }

    fn join(&mut self, state: &[u8]) -> Result<()> {
        self.apply(state)
    }

    fn count(_: u64) -> Result<Option<Vec<i64>>> {
        Ok(None)
    }
}
