//! The code of the scalar functions of the language.
//!
//! The table of functions is `isomer_plan::function`. [`Function::of`] maps each of its rows to a body, which is in one
//! of the files here. Bodies see values and an [`Environment`], but neither plan nor rows. `coalesce`, `range` inside
//! `UNWIND` and other functions that must not evaluate all their arguments are handled by the evaluator; their plain
//! forms are here.

mod body;
mod convergent;
mod convert;
mod environment;
mod files;
mod graph;
mod list;
mod math;
mod normal_form;
mod spatial;
mod string;
mod temporal;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use isomer_plan::function::Function as Builtin;
use isomer_value::{Crs, Duration, Point, Value, jiff};

use crate::error::{ExecError, Result};

pub(crate) use body::Function;
pub(crate) use convert::float_text;
pub use environment::{Environment, FieldQuery};
pub(crate) use graph::{computed_names, node_value};
pub(crate) use list::IntegerRange;
pub(crate) use spatial::point_distance;
pub(crate) use temporal::arithmetic as temporal_arithmetic;

impl Function {
    /// The body of a built-in function.
    pub(crate) fn of(builtin: Builtin) -> Result<Self> {
        [
            string::find,
            list::find,
            math::find,
            convert::find,
            graph::find,
            files::find,
            convergent::find,
            temporal::find,
            spatial::find,
        ]
        .iter()
        .find_map(|find| find(builtin))
        .ok_or_else(|| {
            ExecError::Unsupported(format!(
                "the function {}() is not available in this version",
                builtin.name()
            ))
        })
    }
}

/// `value.name` of a temporal value or point; none for other values.
pub(crate) fn field_of(value: &Value, name: &str) -> Option<Result<Value>> {
    temporal::field(value, name).or_else(|| spatial::field(value, name))
}

/// Whether some temporal value or point has a component of this name: `n.born.year` may read one, or a map entry.
pub fn is_component(name: &str) -> bool {
    let epoch = jiff::Timestamp::UNIX_EPOCH.to_zoned(jiff::tz::TimeZone::UTC);
    let point = |crs| {
        let (x, y, z) = (1.0, 1.0, 1.0);
        Value::Point(Arc::new(Point { crs, x, y, z }))
    };
    let samples = [
        Value::from(epoch),
        Value::from(Duration::default()),
        point(Crs::Wgs84Height),
        point(Crs::Cartesian3d),
    ];
    let has =
        |sample: &Value| matches!(field_of(sample, name), Some(Ok(found)) if !found.is_null());
    samples.iter().any(has)
}
