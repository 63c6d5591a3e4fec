//! Replicas that make transactions, exchange them over a bad network, fold, join states, and are restored from backups.

use isomer_value::{PropId, Value};

use super::naive;
use crate::{
    convergent::{
        clock::{ReplicaNo, Vector},
        counter,
        effect::Action,
        join::{State, join},
        place::{ConvergentKind, element, entry, payload, push_kind, push_name, push_property},
        rows::Rows,
        sketch,
        testing::{Dice, MemoryRows, Parcel},
        value::OwnerReading,
    },
    keyspace::{self, IdSpace},
};

pub(super) fn owner() -> Vec<u8> {
    keyspace::convergent_owner(IdSpace::Nodes, 300)
}

/// The fields of the histories: path, kind.
pub(super) const FIELDS: &[(&[&str], ConvergentKind)] = &[
    (&["0"], ConvergentKind::Counter),
    (&["1"], ConvergentKind::Set),
    (&["2"], ConvergentKind::GrowSet),
    (&["3"], ConvergentKind::Register),
    (&["4"], ConvergentKind::MultiRegister),
    (&["5"], ConvergentKind::Flag),
    (&["6"], ConvergentKind::Sketch),
    (&["7", "a"], ConvergentKind::Counter),
    (&["7", "a"], ConvergentKind::Set),
    (&["7", "b"], ConvergentKind::Set),
    (&["7", "c"], ConvergentKind::Register),
    (&["7", "d", "f"], ConvergentKind::Flag),
    (&["7", "d", "s"], ConvergentKind::Sketch),
    (&["7", "d", "x"], ConvergentKind::Counter),
    (&["7", "d", "y"], ConvergentKind::Set),
];

/// The place of a path without its last kind.
pub(super) fn named(path: &[&str]) -> Vec<u8> {
    let mut place = owner();
    let number = path[0].parse().expect("top names are numbers");
    push_property(&mut place, PropId(number));
    for name in &path[1..] {
        push_kind(&mut place, ConvergentKind::Map, 0);
        push_name(&mut place, name);
    }
    place
}

pub(super) fn field((path, kind): (&[&str], ConvergentKind)) -> Vec<u8> {
    let mut place = named(path);
    push_kind(&mut place, kind, 4);
    place
}

#[derive(Clone)]
struct Backup {
    rows: MemoryRows,
    seen: Vector,
    known: Vec<Vector>,
}

pub(super) struct Replica {
    pub(super) name: ReplicaNo,
    pub(super) rows: MemoryRows,
    pub(super) seen: Vector,
    /// What each replica was known to have seen when it made the last transaction that is here.
    known: Vec<Vector>,
    next: u64,
    inbox: Vec<usize>,
    backup: Option<Backup>,
}

pub(super) struct World {
    pub(super) replicas: Vec<Replica>,
    /// All transactions ever made.
    pub(super) history: Vec<Parcel>,
    /// Contexts that clients keep.
    contexts: Vec<Vector>,
    names: u32,
    time: u64,
    dice: Dice,
}

/// Most replica names, epochs included.
const NAMES: usize = 12;

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let count = 3 + dice.below(3);
        let replica = |at: usize| Replica {
            name: ReplicaNo(at as u32),
            rows: MemoryRows::default(),
            seen: Vector::new(),
            known: vec![Vector::new(); NAMES],
            next: 1,
            inbox: Vec::new(),
            backup: None,
        };
        Self {
            replicas: (0..count).map(replica).collect(),
            history: Vec::new(),
            contexts: Vec::new(),
            names: count as u32,
            time: 0,
            dice,
        }
    }

    /// One random event.
    pub(super) fn step(&mut self) {
        let at = self.dice.below(self.replicas.len());
        match self.dice.below(20) {
            0..=6 => self.transact(at),
            7 => self.transact_concurrently(at),
            8..=13 => self.deliver(at),
            14 => {
                let fields: Vec<_> = FIELDS
                    .iter()
                    .filter(|f| f.1 == ConvergentKind::Counter)
                    .collect();
                let chosen = *fields[self.dice.below(fields.len())];
                self.fold(at, chosen);
            }
            15 => {
                let other = self.dice.below(self.replicas.len());
                self.join_state(at, other);
            }
            16 => {
                let seen = self.replicas[at].seen.clone();
                self.contexts.push(seen);
            }
            17 => self.replicas[at].backup = Some(self.replicas[at].back_up()),
            18 if self.dice.below(4) == 0 => self.restore(at),
            _ => self.send(at),
        }
    }

    fn transact(&mut self, at: usize) {
        let count = 1 + self.dice.below(4);
        let seen = self.replicas[at].seen.clone();
        let operations = (0..count)
            .map(|op| self.operation(at, op as u32, false))
            .collect();
        self.commit(at, seen, operations);
    }

    /// Two concurrent transactions: neither sees the other. Only commuting operations both commit.
    fn transact_concurrently(&mut self, at: usize) {
        let before = self.replicas[at].seen.clone();
        let first = self.replicas[at].next;
        let one = vec![self.operation(at, 0, true)];
        let two = vec![self.operation(at, 0, true), self.operation(at, 1, true)];
        self.commit(at, before.clone(), one);
        let mut concurrent = before;
        let name = self.replicas[at].name;
        concurrent.set(name, first, vec![first]);
        self.commit(at, concurrent, two);
    }

    fn commit(&mut self, at: usize, seen: Vector, operations: Vec<(u32, Vec<u8>, Action)>) {
        // Clocks that stop and go back.
        self.time = (self.time + self.dice.below(3) as u64).saturating_sub(1);
        let replica = &mut self.replicas[at];
        let parcel = Parcel {
            origin: replica.name,
            number: replica.next,
            time: self.time,
            seen,
            operations,
        };
        replica.next += 1;
        replica.take(&parcel);
        self.history.push(parcel);
    }

    fn operation(&mut self, at: usize, op: u32, blind: bool) -> (u32, Vec<u8>, Action) {
        if !blind && self.dice.below(8) == 0 {
            // Clears a field, a nested field, or a whole map.
            let paths: &[&[&str]] = &[
                &["0"],
                &["1"],
                &["2"],
                &["4"],
                &["6"],
                &["7"],
                &["7", "a"],
                &["7", "d"],
                &["7", "d", "y"],
            ];
            let place = named(paths[self.dice.below(paths.len())]);
            let context = self.context(at, &place);
            return (op, place, Action::Clear { context });
        }
        let chosen = FIELDS[self.dice.below(FIELDS.len())];
        let place = field(chosen);
        let value = Value::Int(self.dice.below(5) as i64);
        let removes = !blind && self.dice.below(3) == 0;
        let action = match chosen.1 {
            ConvergentKind::Counter => Action::Count(self.dice.below(20) as i64 - 6),
            ConvergentKind::Set if removes => Action::Remove {
                element: element(&value).unwrap().0,
                context: self.context(at, &place),
            },
            ConvergentKind::Set | ConvergentKind::GrowSet => {
                let (element, exact) = element(&value).unwrap();
                Action::Insert { element, exact }
            }
            ConvergentKind::Register | ConvergentKind::MultiRegister if blind => {
                return self.operation(at, op, blind);
            }
            ConvergentKind::Register | ConvergentKind::MultiRegister => {
                Action::Assign(payload(&value).unwrap())
            }
            ConvergentKind::Flag if removes => Action::Disable {
                context: self.context(at, &place),
            },
            ConvergentKind::Flag => Action::Enable,
            ConvergentKind::Sketch => {
                let value = Value::Int(self.dice.below(60) as i64);
                let (place, rank) = sketch::noted(&value, 4).unwrap();
                Action::Sketch { place, rank }
            }
            ConvergentKind::Map => unreachable!("no map in the list"),
        };
        (op, place, action)
    }

    /// A context of a client, if the replica would accept it there.
    fn context(&mut self, at: usize, place: &[u8]) -> Option<Vector> {
        if self.contexts.is_empty() || self.dice.below(2) == 0 {
            return None;
        }
        let context = self.contexts[self.dice.below(self.contexts.len())].clone();
        let replica = &self.replicas[at];
        // Other replicas may have folded what this replica has acknowledged.
        let acknowledged = replica.acknowledged(&self.history);
        let lacks = |dot| acknowledged.covers(dot) && !context.covers(dot);
        let mut accepted = replica.seen.includes(&context);
        replica
            .rows
            .scan(place, &[], 1, &mut |key, _| {
                let parts = entry(&key[owner().len()..])?;
                accepted &= parts.kind != ConvergentKind::Counter || !lacks(parts.dot);
                Ok(true)
            })
            .unwrap();
        accepted.then_some(context)
    }

    fn send(&mut self, at: usize) {
        if !self.history.is_empty() {
            let chosen = self.dice.below(self.history.len());
            self.replicas[at].inbox.push(chosen);
        }
    }

    /// A transaction arrives: one that was sent, or any that has not; once or twice, early or late.
    fn deliver(&mut self, at: usize) {
        if self.history.is_empty() {
            return;
        }
        let replica = &mut self.replicas[at];
        let chosen = if !replica.inbox.is_empty() && self.dice.below(2) == 0 {
            let which = self.dice.below(replica.inbox.len());
            match self.dice.below(3) {
                0 => replica.inbox[which],
                _ => replica.inbox.swap_remove(which),
            }
        } else {
            let near = self.dice.below(3) > 0;
            let from = if near {
                self.history.len().saturating_sub(12)
            } else {
                0
            };
            from + self.dice.below(self.history.len() - from)
        };
        if self.history[chosen].follows(&self.replicas[at].seen) {
            let parcel = self.history[chosen].clone();
            self.replicas[at].take(&parcel);
        }
    }

    fn fold(&mut self, at: usize, chosen: (&[&str], ConvergentKind)) {
        let names: Vec<_> = self.replicas.iter().map(|replica| replica.name).collect();
        let keep = self.dice.below(2);
        let replica = &mut self.replicas[at];
        let stable = replica.stable(&names);
        counter::fold(&mut replica.rows, &field(chosen), &stable, keep).unwrap();
    }

    fn join_state(&mut self, at: usize, other: usize) {
        let (one, two) = (&self.replicas[at], &self.replicas[other]);
        let (ours, theirs) = (one.state(), two.state());
        let joined = join(
            State {
                seen: &one.seen,
                rows: &ours,
            },
            State {
                seen: &two.seen,
                rows: &theirs,
            },
        )
        .unwrap();
        let joined: Vec<_> = joined.into_iter().cloned().collect();
        let (seen, known) = (two.seen.clone(), two.known.clone());
        let replica = &mut self.replicas[at];
        replica.seen.join(&seen);
        for (own, other) in replica.known.iter_mut().zip(&known) {
            own.join(other);
        }
        let prefix = owner();
        replica.rows = MemoryRows(
            joined
                .into_iter()
                .map(|(key, value)| ([&prefix[..], &key].concat(), value))
                .collect(),
        );
    }

    /// A replica is restored from its backup. What it wrote since stays under its old name, among the replicas that
    /// have it.
    fn restore(&mut self, at: usize) {
        if self.names as usize == NAMES {
            return;
        }
        let Some(backup) = self.replicas[at].backup.take() else {
            return;
        };
        let replica = &mut self.replicas[at];
        (replica.rows, replica.seen, replica.known) = (backup.rows, backup.seen, backup.known);
        replica.name = ReplicaNo(self.names);
        replica.next = 1;
        self.names += 1;
    }

    /// Everything reaches all replicas.
    pub(super) fn quiesce(&mut self) {
        for replica in &mut self.replicas {
            loop {
                let before = replica.seen.clone();
                for parcel in &self.history {
                    if parcel.follows(&replica.seen) {
                        replica.take(parcel);
                    }
                }
                if replica.seen == before {
                    break;
                }
            }
        }
    }

    /// Compares every replica with the interpreter of the transactions that it has seen.
    pub(super) fn check(&self, settled: bool) -> Result<(), String> {
        for replica in &self.replicas {
            let seen = |parcel: &&Parcel| settled || replica.seen.saw(parcel.origin, parcel.number);
            let known: Vec<&Parcel> = self.history.iter().filter(seen).collect();
            let expected = naive::interpret(&known);
            let found = replica.value();
            if found != expected {
                return Err(format!(
                    "replica {:?}: {found:?}, should be {expected:?}",
                    replica.name
                ));
            }
        }
        if settled {
            let first = self.replicas[0].canonical();
            for other in &self.replicas[1..] {
                if other.canonical() != first {
                    return Err(format!(
                        "the states of {:?} and {:?} differ",
                        self.replicas[0].name, other.name
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Replica {
    pub(super) fn take(&mut self, parcel: &Parcel) {
        parcel.apply(&mut self.rows).unwrap();
        self.seen.advance(parcel.origin, parcel.number);
        let mut known = parcel.seen.clone();
        known.advance(parcel.origin, parcel.number);
        self.known[parcel.origin.0 as usize].join(&known);
    }

    /// What every member is known to have seen. A replica under a new name is known by that name.
    fn stable(&self, members: &[ReplicaNo]) -> Vector {
        let mut stable = Vector::new();
        for replica in 0..NAMES as u32 {
            let replica = ReplicaNo(replica);
            let seen_by = |member: &ReplicaNo| match *member == self.name {
                true => self.seen.upto(replica),
                false => self.known[member.0 as usize].upto(replica),
            };
            stable.set(
                replica,
                members.iter().map(seen_by).min().unwrap_or(0),
                Vec::new(),
            );
        }
        stable
    }

    /// What this replica has acknowledged to others: with every transaction that it has made.
    fn acknowledged(&self, history: &[Parcel]) -> Vector {
        let mut acknowledged = Vector::new();
        for parcel in history.iter().filter(|parcel| parcel.origin == self.name) {
            acknowledged.join(&parcel.seen);
            acknowledged.advance(parcel.origin, parcel.number);
        }
        acknowledged
    }

    fn back_up(&self) -> Backup {
        Backup {
            rows: self.rows.clone(),
            seen: self.seen.clone(),
            known: self.known.clone(),
        }
    }

    /// The rows without their owner.
    pub(super) fn state(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let owner = owner().len();
        self.rows
            .0
            .iter()
            .map(|(key, value)| (key[owner..].to_vec(), value.clone()))
            .collect()
    }

    /// The rows with the increments of each replica folded.
    fn canonical(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows = self.rows.clone();
        let all: Vector = {
            let mut all = Vector::new();
            (0..NAMES as u32).for_each(|replica| all.advance(ReplicaNo(replica), u64::MAX >> 1));
            all
        };
        for chosen in FIELDS.iter().filter(|f| f.1 == ConvergentKind::Counter) {
            counter::fold(&mut rows, &field(*chosen), &all, 0).unwrap();
        }
        let sum = |(key, value): (Vec<u8>, Vec<u8>)| {
            let kind = entry(&key[owner().len()..]).unwrap().kind;
            match kind {
                ConvergentKind::Counter => {
                    let amount = counter::amount(&value).unwrap().0;
                    (key, amount.to_be_bytes().to_vec())
                }
                _ => (key, value),
            }
        };
        rows.0.into_iter().map(sum).collect()
    }

    pub(super) fn value(&self) -> Vec<(u32, Value)> {
        let mut reading = OwnerReading::default();
        for (key, value) in self.state() {
            reading.push(&key, &value).unwrap();
        }
        reading
            .finish()
            .unwrap()
            .into_iter()
            .map(|(prop, value)| (prop.0, value))
            .collect()
    }
}
