//! `item IN list`, with a hash set for a long list that is used repeatedly.

use std::sync::Arc;

use isomer_value::{GroupKey, Value, equality};
use rustc_hash::FxHashSet;

use crate::{
    context::Cx,
    error::{Result, not_a_list},
};

/// Minimum length of a list for which a repeated use builds a set.
const MIN_SET_ITEMS: usize = 32;

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

/// Whether `=` between this value and another is decided by their hash keys alone.
fn is_scalar(value: &Value) -> bool {
    match value {
        Value::Null | Value::List(_) | Value::Map(_) | Value::Point(_) => false,
        Value::Float(float) => !float.is_nan(),
        _ => true,
    }
}

/// `item IN list`, three-valued.
pub(super) fn contains(list: &Value, item: &Value, cx: &mut Cx<'_>) -> Result<Value> {
    let items = match list {
        Value::Null => return Ok(Value::Null),
        Value::List(items) => items,
        other => return Err(not_a_list(other)),
    };
    if items.len() < MIN_SET_ITEMS || !is_scalar(item) {
        cx.tick(items.len())?;
        return Ok(search(items, item));
    }
    let last = &mut cx.run.last_list;
    let met = last
        .list
        .as_ref()
        .is_some_and(|known| Arc::ptr_eq(known, items));
    if !met {
        // The list is kept alive, so that its address stays unique.
        *last = LastList {
            list: Some(items.clone()),
            set: None,
        };
        cx.tick(items.len())?;
        return Ok(search(items, item));
    }
    let set = last.set.get_or_insert_with(|| ElementSet {
        scalars: items
            .iter()
            .filter(|one| is_scalar(one))
            .map(|one| GroupKey(one.clone()))
            .collect(),
        has_null: items.iter().any(Value::is_null),
    });
    // A scalar equals no list, map or NaN: only nulls make the result unknown.
    Ok(if set.scalars.contains(&GroupKey(item.clone())) {
        Value::Bool(true)
    } else if set.has_null {
        Value::Null
    } else {
        Value::Bool(false)
    })
}

fn search(items: &[Value], item: &Value) -> Value {
    let mut unknown = false;
    for candidate in items {
        match equality::equal(candidate, item) {
            Some(true) => return Value::Bool(true),
            Some(false) => {}
            None => unknown = true,
        }
    }
    if unknown {
        Value::Null
    } else {
        Value::Bool(false)
    }
}
