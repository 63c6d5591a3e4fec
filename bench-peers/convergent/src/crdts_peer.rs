//! The crate `crdts`: Riak's types in Rust. A map with an ORSWOT in it; replicas send operations, or whole states.

use anyhow::{Context, Result};
use crdts::{CmRDT, CvRDT, Map, Orswot, PNCounter, map, orswot};

use crate::peer::Peer;

type Set = Orswot<String, u64>;
type State = Map<String, Set, u64>;
type Op = map::Op<String, Set, u64>;

const FIELD: &str = "set";

pub struct Crdts {
    actor: u64,
    state: State,
}

impl Crdts {
    fn set(&self) -> Option<&Set> {
        self.state.values().next().map(|read| read.val)
    }

    fn perform(&mut self, op: Op) -> Result<Vec<u8>> {
        let bytes = bincode::serialize(&op)?;
        self.state.apply(op);
        Ok(bytes)
    }
}

impl Peer for Crdts {
    fn new() -> Result<Self> {
        Ok(Self {
            actor: 1,
            state: State::new(),
        })
    }

    fn load(state: &[u8]) -> Result<Self> {
        Ok(Self {
            actor: 2,
            state: bincode::deserialize(state)?,
        })
    }

    fn save(&mut self) -> Result<Vec<u8>> {
        Ok(bincode::serialize(&self.state)?)
    }

    fn add(&mut self, elements: &[String]) -> Result<Vec<u8>> {
        let context = self.state.read_ctx().derive_add_ctx(self.actor);
        let op = self.state.update(FIELD, context, |set, context| {
            set.add_all(elements.iter().cloned(), context)
        });
        self.perform(op)
    }

    fn remove(&mut self, element: &str) -> Result<Vec<u8>> {
        let context = self.state.read_ctx().derive_add_ctx(self.actor);
        let element = element.to_owned();
        let op = self.state.update(FIELD, context, |set, _| {
            let seen = set.contains(&element).derive_rm_ctx();
            orswot::Op::Rm {
                clock: seen.clock,
                members: vec![element],
            }
        });
        self.perform(op)
    }

    fn contains(&self, element: &str) -> Result<bool> {
        let set = self.set().context("the set is gone")?;
        Ok(set.contains(&element.to_owned()).val)
    }

    fn read_all(&self) -> Result<Vec<String>> {
        let set = self.set().context("the set is gone")?;
        Ok(set.iter().map(|read| read.val.clone()).collect())
    }

    fn version(&mut self) -> Result<Vec<u8>> {
        Ok(bincode::serialize(&self.state.read_ctx().add_clock)?)
    }

    fn news(&mut self, _: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn apply(&mut self, news: &[u8]) -> Result<()> {
        self.state.apply(bincode::deserialize(news)?);
        Ok(())
    }

    fn join(&mut self, state: &[u8]) -> Result<()> {
        self.state.merge(bincode::deserialize(state)?);
        Ok(())
    }

    fn count(each: u64) -> Result<Option<Vec<i64>>> {
        let mut replicas: Vec<PNCounter<u64>> = vec![PNCounter::new(); 5];
        let mut sent = Vec::new();
        for (actor, counter) in replicas.iter_mut().enumerate() {
            for _ in 0..each {
                let op = counter.inc(actor as u64);
                sent.push((actor, bincode::serialize(&op)?));
                counter.apply(op);
            }
        }
        for (at, counter) in replicas.iter_mut().enumerate() {
            for (_, op) in sent.iter().filter(|(actor, _)| *actor != at) {
                counter.apply(bincode::deserialize(op)?);
            }
        }
        let sums = replicas.iter().map(|counter| counter.read().try_into());
        let sums: Result<Vec<i64>, _> = sums.collect();
        Ok(Some(sums.ok().context("a sum is too large")?))
    }
}
