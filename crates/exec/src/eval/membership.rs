//! `item IN list`, quick where the same long list is looked into again and again.

use std::sync::Arc;

use isomer_value::{GroupKey, Value, equality};
use rustc_hash::FxHashSet;

use crate::{
    context::Cx,
    error::{ExecError, Result, shown},
};

/// From this length on a list that is met again gets a set.
const LONG: usize = 32;

/// The list that was looked into last, and its elements as a set once it was met twice.
#[derive(Default)]
pub(crate) struct LastList {
    list: Option<Arc<Vec<Value>>>,
    set: Option<ElementSet>,
}

struct ElementSet {
    /// The elements that are found by their group: all but nulls, NaN, lists and maps.
    scalars: FxHashSet<GroupKey>,
    has_null: bool,
}

/// Whether `=` between this value and another is told by their groups alone.
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
        other => {
            return Err(ExecError::type_mismatch(format!(
                "IN looks into a list, not into {}",
                shown(other)
            )));
        }
    };
    if items.len() < LONG || !is_scalar(item) {
        cx.tick(items.len())?;
        return Ok(search(items, item));
    }
    let last = &mut cx.run.last_list;
    let met = last
        .list
        .as_ref()
        .is_some_and(|known| Arc::ptr_eq(known, items));
    if !met {
        // The list is kept, so that its address stays its own.
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
    // A scalar equals no list, map or NaN: only nulls leave the answer open.
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
