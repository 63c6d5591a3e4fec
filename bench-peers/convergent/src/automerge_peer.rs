//! The crate `automerge`: a map inside a map, its keys the elements.

use anyhow::{Context, Result};
use automerge::{
    AutoCommit, ChangeHash, ObjId, ObjType, ROOT, ReadDoc, ScalarValue, Value,
    transaction::Transactable,
};

use crate::peer::Peer;

pub struct Automerge {
    doc: AutoCommit,
    set: ObjId,
}

fn child(doc: &AutoCommit, of: &ObjId, name: &str) -> Result<ObjId> {
    let found = doc.get(of, name)?;
    Ok(found.with_context(|| format!("{name} is gone"))?.1)
}

impl Peer for Automerge {
    fn new() -> Result<Self> {
        let mut doc = AutoCommit::new();
        let map = doc.put_object(ROOT, "map", ObjType::Map)?;
        let set = doc.put_object(&map, "set", ObjType::Map)?;
        doc.commit();
        doc.save_incremental();
        Ok(Self { doc, set })
    }

    fn load(state: &[u8]) -> Result<Self> {
        let doc = AutoCommit::load(state)?;
        let map = child(&doc, &ROOT, "map")?;
        let set = child(&doc, &map, "set")?;
        Ok(Self { doc, set })
    }

    fn save(&mut self) -> Result<Vec<u8>> {
        Ok(self.doc.save())
    }

    fn add(&mut self, elements: &[String]) -> Result<Vec<u8>> {
        for element in elements {
            self.doc.put(&self.set, element.as_str(), true)?;
        }
        self.doc.commit();
        Ok(self.doc.save_incremental())
    }

    fn remove(&mut self, element: &str) -> Result<Vec<u8>> {
        self.doc.delete(&self.set, element)?;
        self.doc.commit();
        Ok(self.doc.save_incremental())
    }

    fn contains(&self, element: &str) -> Result<bool> {
        Ok(self.doc.get(&self.set, element)?.is_some())
    }

    fn read_all(&self) -> Result<Vec<String>> {
        Ok(self
            .doc
            .keys(&self.set)
            .map(|key| key.to_string())
            .collect())
    }

    fn version(&mut self) -> Result<Vec<u8>> {
        let heads = self.doc.get_heads();
        Ok(heads.iter().flat_map(|head| head.0).collect())
    }

    fn news(&mut self, version: &[u8]) -> Result<Option<Vec<u8>>> {
        let heads: Vec<ChangeHash> = version
            .as_chunks::<32>()
            .0
            .iter()
            .map(|hash| ChangeHash(*hash))
            .collect();
        Ok(Some(self.doc.save_after(&heads)))
    }

    fn apply(&mut self, news: &[u8]) -> Result<()> {
        self.doc.load_incremental(news)?;
        Ok(())
    }

    fn join(&mut self, state: &[u8]) -> Result<()> {
        let mut other = AutoCommit::load(state)?;
        self.doc.merge(&mut other)?;
        Ok(())
    }

    fn count(each: u64) -> Result<Option<Vec<i64>>> {
        let mut first = AutoCommit::new();
        first.put(ROOT, "n", ScalarValue::counter(0))?;
        first.commit();
        let mut replicas = vec![first];
        for _ in 1..5 {
            let copy = replicas[0].fork();
            replicas.push(copy);
        }
        let mut sent = Vec::new();
        for (at, doc) in replicas.iter_mut().enumerate() {
            doc.save_incremental();
            for _ in 0..each {
                doc.increment(ROOT, "n", 1)?;
                doc.commit();
                sent.push((at, doc.save_incremental()));
            }
        }
        let mut sums = Vec::new();
        for (at, doc) in replicas.iter_mut().enumerate() {
            for (_, news) in sent.iter().filter(|(from, _)| *from != at) {
                doc.load_incremental(news)?;
            }
            match doc.get(ROOT, "n")? {
                Some((Value::Scalar(sum), _)) => {
                    sums.push(sum.as_i64().context("the counter is not a number")?)
                }
                _ => anyhow::bail!("the counter is gone"),
            }
        }
        Ok(Some(sums))
    }
}
