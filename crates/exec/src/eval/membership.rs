//! `item IN list`, with a hash set for a long list that is used repeatedly.

use isomer_value::{Value, equality};

use super::last_list::is_scalar;
use crate::{
    context::Cx,
    error::{Result, not_a_list},
};

/// Minimum length of a list for which a repeated use builds a set.
const MIN_SET_ITEMS: usize = 32;

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
    match cx.run.caches.last_list.contains(items, item) {
        Some(found) => Ok(found),
        None => {
            cx.tick(items.len())?;
            Ok(search(items, item))
        }
    }
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
