//! The list of the last `IN`, as a set if it is used repeatedly.

use std::sync::Arc;

use isomer_value::{GroupKey, Value};
use rustc_hash::FxHashSet;

/// The list that was used last, and its elements as a set after the second use.
#[derive(Default)]
pub(crate) struct LastList {
    list: Option<Arc<Vec<Value>>>,
    set: Option<ElementSet>,
}

struct ElementSet {
    /// The elements that have a hash key: all but nulls, NaN, lists and maps.
    scalars: FxHashSet<GroupKey>,
    has_null: bool,
}

impl LastList {
    /// `item IN items` of a scalar, three-valued; `None` for a list that is not the last one, which it becomes.
    pub(super) fn contains(&mut self, items: &Arc<Vec<Value>>, item: &Value) -> Option<Value> {
        let met = self
            .list
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, items));
        if !met {
            // The list is kept alive, so that its address stays unique.
            *self = Self {
                list: Some(items.clone()),
                set: None,
            };
            return None;
        }
        let set = self.set.get_or_insert_with(|| ElementSet {
            scalars: items
                .iter()
                .filter(|one| is_scalar(one))
                .map(|one| GroupKey(one.clone()))
                .collect(),
            has_null: items.iter().any(Value::is_null),
        });
        // A scalar equals no list, map or NaN: only nulls make the result unknown.
        Some(if set.scalars.contains(&GroupKey(item.clone())) {
            Value::Bool(true)
        } else if set.has_null {
            Value::Null
        } else {
            Value::Bool(false)
        })
    }
}

/// Whether `=` between this value and another is decided by their hash keys alone.
pub(super) fn is_scalar(value: &Value) -> bool {
    match value {
        Value::Null | Value::List(_) | Value::Map(_) | Value::Point(_) => false,
        Value::Float(float) => !float.is_nan(),
        _ => true,
    }
}
