//! The same histories on replicas of the crate `crdts`, which keeps whole objects in memory: an observed-remove set, a
//! set in a map that is reset, a multi-value register.

use std::collections::BTreeSet;

use crdts::{CmRDT, MVReg, Map, Orswot};
use isomer_value::{PropId, Value};

use super::world::{field, named, owner};
use crate::convergent::{
    clock::{ReplicaNo, Vector},
    effect::Action,
    place::{ConvergentKind, element, payload},
    testing::{Dice, MemoryRows, Parcel},
    value::OwnerReading,
};

type Actor = u8;
type Set = Orswot<i64, Actor>;

/// One of the oracle's operations.
#[derive(Clone)]
enum Oracle {
    Set(crdts::orswot::Op<i64, Actor>),
    Map(crdts::map::Op<u8, Set, Actor>),
    Register(crdts::mvreg::Op<i64, Actor>),
}

struct Replica {
    name: Actor,
    rows: MemoryRows,
    seen: Vector,
    made: u64,
    set: Set,
    map: Map<u8, Set, Actor>,
    register: MVReg<i64, Actor>,
}

const SET: (&[&str], ConvergentKind) = (&["1"], ConvergentKind::Set);
const INNER: (&[&str], ConvergentKind) = (&["7", "b"], ConvergentKind::Set);
const REGISTER: (&[&str], ConvergentKind) = (&["4"], ConvergentKind::MultiRegister);

impl Replica {
    fn new(name: Actor) -> Self {
        Self {
            name,
            rows: MemoryRows::default(),
            seen: Vector::new(),
            made: 0,
            set: Set::new(),
            map: Map::new(),
            register: MVReg::new(),
        }
    }

    /// One operation on both.
    fn make(&mut self, dice: &mut Dice) -> (Parcel, Oracle) {
        let value = dice.below(4) as i64;
        let (element, exact) = element(&Value::Int(value)).unwrap();
        let insert = Action::Insert {
            element: element.clone(),
            exact,
        };
        let remove = Action::Remove {
            element,
            context: None,
        };
        let (place, action, oracle) = match dice.below(8) {
            0 | 1 => {
                let context = self.set.read_ctx().derive_add_ctx(self.name);
                (
                    field(SET),
                    insert,
                    Oracle::Set(self.set.add(value, context)),
                )
            }
            2 => {
                let context = self.set.contains(&value).derive_rm_ctx();
                (field(SET), remove, Oracle::Set(self.set.rm(value, context)))
            }
            3 | 4 => {
                let context = self.map.read_ctx().derive_add_ctx(self.name);
                let op = self
                    .map
                    .update(0, context, |set, context| set.add(value, context));
                (field(INNER), insert, Oracle::Map(op))
            }
            5 => {
                let inner = self.map.get(&0).val.unwrap_or_default();
                let seen = inner.contains(&value).derive_rm_ctx();
                let context = self.map.read_ctx().derive_add_ctx(self.name);
                let op = self.map.update(0, context, |set, _| set.rm(value, seen));
                (field(INNER), remove, Oracle::Map(op))
            }
            6 => {
                let context = self.map.get(&0).derive_rm_ctx();
                let clear = Action::Clear { context: None };
                (named(INNER.0), clear, Oracle::Map(self.map.rm(0, context)))
            }
            _ => {
                let context = self.register.read_ctx().derive_add_ctx(self.name);
                let assign = Action::Assign(payload(&Value::Int(value)).unwrap());
                let op = self.register.write(value, context);
                (field(REGISTER), assign, Oracle::Register(op))
            }
        };
        self.made += 1;
        let parcel = Parcel {
            origin: ReplicaNo(self.name.into()),
            number: self.made,
            time: 0,
            seen: self.seen.clone(),
            operations: vec![(0, place, action)],
        };
        self.take(&parcel, &oracle);
        (parcel, oracle)
    }

    fn take(&mut self, parcel: &Parcel, oracle: &Oracle) {
        parcel.apply(&mut self.rows).unwrap();
        self.seen.advance(parcel.origin, parcel.number);
        match oracle.clone() {
            Oracle::Set(op) => self.set.apply(op),
            Oracle::Map(op) => self.map.apply(op),
            Oracle::Register(op) => self.register.apply(op),
        }
    }

    fn check(&self, seed: u64) {
        let mut reading = OwnerReading::default();
        for (key, value) in &self.rows.0 {
            reading.push(&key[owner().len()..], value).unwrap();
        }
        let values = reading.finish().unwrap();
        let own = |prop: u32| {
            let found = values.iter().find(|(own, _)| *own == PropId(prop));
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        let inner = match own(7) {
            Value::Map(map) => map.get("b").cloned().unwrap_or_default(),
            _ => Value::Null,
        };
        let theirs = self.map.get(&0).val.unwrap_or_default();
        assert_eq!(
            whole(own(1)),
            self.set.read().val.into_iter().collect(),
            "seed {seed}"
        );
        assert_eq!(
            whole(inner),
            theirs.read().val.into_iter().collect(),
            "seed {seed}"
        );
        assert_eq!(
            whole(own(4)),
            self.register.read().val.into_iter().collect(),
            "seed {seed}"
        );
    }
}

/// The integers of a list, or the one that it is.
fn whole(value: Value) -> BTreeSet<i64> {
    match value {
        Value::List(items) => items.iter().filter_map(Value::as_int).collect(),
        other => other.as_int().into_iter().collect(),
    }
}

#[test]
fn another_implementation_agrees() {
    for seed in 1..400 {
        let mut dice = Dice::new(seed);
        let mut replicas: Vec<Replica> = (0..3).map(Replica::new).collect();
        let mut history: Vec<(Parcel, Oracle)> = Vec::new();
        for _ in 0..60 {
            let at = dice.below(3);
            if history.is_empty() || dice.below(3) == 0 {
                history.push(replicas[at].make(&mut dice));
            } else {
                let (parcel, oracle) = &history[dice.below(history.len())];
                if parcel.follows(&replicas[at].seen) {
                    replicas[at].take(parcel, oracle);
                }
            }
            replicas[at].check(seed);
        }
    }
}
