//! The meaning of a history, computed from the whole history: an entry lives unless some transaction that had seen it
//! removed it.

use std::collections::BTreeMap;
use std::sync::Arc;

use isomer_value::{Map, Value, order::cmp_order};

use super::world::{FIELDS, field, named};
use crate::convergent::{
    clock::Dot,
    effect::Action,
    place::{ConvergentKind, from_payload},
    sketch::Ranks,
    testing::Parcel,
};

struct Made<'a> {
    parcel: &'a Parcel,
    op: u32,
    place: &'a [u8],
    action: &'a Action,
}

impl Made<'_> {
    fn dot(&self) -> Dot {
        Dot {
            replica: self.parcel.origin,
            number: self.parcel.number,
            op: self.op,
        }
    }

    /// Whether this operation removes what `other` put.
    fn takes(&self, other: &Made<'_>) -> bool {
        let saw = |context: &Option<_>| match context {
            None => self.parcel.saw(self.op, other.dot()),
            Some(context) => crate::convergent::clock::Vector::covers(context, other.dot()),
        };
        let same = self.place == other.place;
        match (self.action, other.action) {
            (Action::Clear { context }, _) => other.place.starts_with(self.place) && saw(context),
            (Action::Insert { element: a, .. }, Action::Insert { element: b, .. }) => {
                same && a == b && saw(&None)
            }
            (
                Action::Remove {
                    element: a,
                    context,
                },
                Action::Insert { element: b, .. },
            ) => same && a == b && saw(context),
            (Action::Assign(_), Action::Assign(_)) | (Action::Enable, Action::Enable) => {
                same && saw(&None)
            }
            (Action::Disable { context }, Action::Enable) => same && saw(context),
            _ => false,
        }
    }
}

/// The values of all properties.
pub(super) fn interpret(history: &[&Parcel]) -> Vec<(u32, Value)> {
    let made: Vec<Made<'_>> = history
        .iter()
        .flat_map(|parcel| {
            parcel
                .operations
                .iter()
                .map(move |(op, place, action)| Made {
                    parcel,
                    op: *op,
                    place,
                    action,
                })
        })
        .collect();
    let lives = |one: &&Made<'_>| {
        !matches!(
            one.action,
            Action::Remove { .. } | Action::Disable { .. } | Action::Clear { .. }
        ) && !made.iter().any(|other| other.takes(one))
    };
    let living: Vec<&Made<'_>> = made.iter().filter(lives).collect();

    let mut properties: BTreeMap<u32, Value> = BTreeMap::new();
    for &(path, kind) in FIELDS {
        debug_assert!(field((path, kind)).starts_with(&named(path)));
        let place = field((path, kind));
        let own: Vec<&&Made<'_>> = living.iter().filter(|one| one.place == place).collect();
        if own.is_empty() {
            continue;
        }
        set(&mut properties, path, value(kind, &own));
    }
    properties.into_iter().collect()
}

fn value(kind: ConvergentKind, own: &[&&Made<'_>]) -> Value {
    match kind {
        ConvergentKind::Counter => Value::Int(
            own.iter()
                .map(|one| match one.action {
                    Action::Count(by) => *by,
                    _ => 0,
                })
                .sum(),
        ),
        ConvergentKind::Set | ConvergentKind::GrowSet => {
            let mut elements: Vec<Value> = own
                .iter()
                .filter_map(|one| match one.action {
                    Action::Insert { element, .. } => isomer_value::key::decode(element).ok(),
                    _ => None,
                })
                .collect();
            elements.sort_by(cmp_order);
            elements.dedup();
            Value::List(Arc::new(elements))
        }
        ConvergentKind::Register => {
            let last = own.iter().max_by_key(|one| match one.action {
                Action::Assign(value) => (one.parcel.time, value.clone()),
                _ => (0, Vec::new()),
            });
            assigned(last.expect("not empty"))
        }
        ConvergentKind::MultiRegister => {
            let mut values: Vec<Value> = own.iter().map(|one| assigned(one)).collect();
            values.sort_by(cmp_order);
            values.dedup();
            match values.len() {
                1 => values.remove(0),
                _ => Value::List(Arc::new(values)),
            }
        }
        ConvergentKind::Flag => Value::Bool(true),
        ConvergentKind::Sketch => {
            let mut ranks = Ranks::new(4);
            for one in own {
                if let Action::Sketch { place, rank } = one.action {
                    ranks.note(*place, *rank);
                }
            }
            Value::Int(ranks.estimate())
        }
        ConvergentKind::Map => Value::Null,
    }
}

fn assigned(one: &Made<'_>) -> Value {
    match one.action {
        Action::Assign(value) => from_payload(value).expect("a payload"),
        _ => Value::Null,
    }
}

/// Puts a value under a path; of two kinds under one name the first stays.
fn set(properties: &mut BTreeMap<u32, Value>, path: &[&str], value: Value) {
    let top: u32 = path[0].parse().expect("top names are numbers");
    let [way @ .., last] = &path[1..] else {
        properties.entry(top).or_insert(value);
        return;
    };
    let empty = || Value::Map(Arc::new(Map::new()));
    let mut at = properties.entry(top).or_insert_with(empty);
    for name in way {
        let Value::Map(map) = at else { return };
        let map = Arc::make_mut(map);
        if !map.contains(name) {
            map.insert(*name, empty());
        }
        at = map.get_mut(name).expect("just inserted");
    }
    if let Value::Map(map) = at {
        let map = Arc::make_mut(map);
        if !map.contains(last) {
            map.insert(*last, value);
        }
    }
}
