//! The arena in which a plan is built: operators, slots, names and parameters, numbered in order of creation.

use std::cell::RefCell;
use std::sync::Arc;

use isomer_value::Value;
use rustc_hash::FxHashMap;

use crate::expr::{
    LabelRef, LocalId, ParamId, PropRef, RegisteredRef, SlotId, StaticType, TypeRef,
};
use crate::physical::{Op, OpId, Operator, PlanNames, SlotInfo};

/// Numbers names in order of first use.
#[derive(Debug, Default)]
struct Interner {
    numbers: FxHashMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
}

impl Interner {
    fn intern(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).expect("fewer names than bytes of text");
        let name: Arc<str> = name.into();
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }
}

/// A plan under construction.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    pub operators: Vec<Operator>,
    pub slots: Vec<SlotInfo>,
    pub local_count: u32,
    labels: Interner,
    types: Interner,
    properties: Interner,
    parameters: Interner,
    registered: Interner,
    /// Roots of sub-plans in expressions, and the slots of their rows that the expression reads.
    pub subplans: Vec<(OpId, Vec<SlotId>)>,
    /// Leaves on the right side of an apply, and the operator whose rows they return.
    pub outer_of: FxHashMap<OpId, OpId>,
    /// Whether the statement changes data: while it runs, nodes may violate constraints that are checked at its end.
    pub updates: bool,
    /// Whether optional optimiser rules are disabled.
    pub plain: bool,
    /// Parameters whose best plan may depend on their value: see [`Plan::skewed`](crate::Plan::skewed).
    pub skewed: RefCell<Vec<(ParamId, Vec<Value>)>>,
    /// Whether eager aggregation is applied wherever it is correct, even if it does not pay.
    pub group_always: bool,
}

impl Arena {
    pub fn push(&mut self, op: Op, rows: f64) -> OpId {
        let id =
            OpId(u32::try_from(self.operators.len()).expect("fewer operators than bytes of text"));
        self.operators.push(Operator {
            op,
            live: Vec::new(),
            rows,
        });
        id
    }

    /// Adds an operator whose rows have the slots and the estimate of `like`, after the live slots are known.
    pub fn push_like(&mut self, op: Op, like: &Operator) -> OpId {
        let id = self.push(op, like.rows);
        self.operators[id.index()].live.clone_from(&like.live);
        id
    }

    pub fn slot(&mut self, name: impl Into<Arc<str>>, kind: StaticType) -> SlotId {
        let id = SlotId(u32::try_from(self.slots.len()).expect("fewer slots than bytes of text"));
        self.slots.push(SlotInfo {
            name: name.into(),
            kind,
        });
        id
    }

    pub fn kind(&self, slot: SlotId) -> &StaticType {
        &self.slots[slot.index()].kind
    }

    pub fn local(&mut self) -> LocalId {
        self.local_count += 1;
        LocalId(self.local_count - 1)
    }

    pub fn label(&mut self, name: &str) -> LabelRef {
        LabelRef(self.labels.intern(name))
    }

    pub fn rel_type(&mut self, name: &str) -> TypeRef {
        TypeRef(self.types.intern(name))
    }

    pub fn property(&mut self, name: &str) -> PropRef {
        PropRef(self.properties.intern(name))
    }

    pub fn parameter(&mut self, name: &str) -> ParamId {
        ParamId(self.parameters.intern(name))
    }

    pub fn registered(&mut self, name: &str) -> RegisteredRef {
        RegisteredRef(self.registered.intern(name))
    }

    pub fn label_name(&self, label: LabelRef) -> &str {
        &self.labels.names[label.index()]
    }

    pub fn type_name(&self, rel_type: TypeRef) -> &str {
        &self.types.names[rel_type.index()]
    }

    pub fn property_name(&self, property: PropRef) -> &str {
        &self.properties.names[property.index()]
    }

    pub fn rows(&self, op: OpId) -> f64 {
        self.operators[op.index()].rows
    }

    pub fn names(&self) -> PlanNames {
        PlanNames {
            labels: self.labels.names.clone(),
            types: self.types.names.clone(),
            properties: self.properties.names.clone(),
        }
    }

    pub fn parameters(&self) -> Vec<Arc<str>> {
        self.parameters.names.clone()
    }

    pub fn registered_functions(&self) -> Vec<Arc<str>> {
        self.registered.names.clone()
    }
}
