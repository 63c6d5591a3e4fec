//! The options map of a procedure: read by name; unknown names and values out of range are errors.

use std::{ops::RangeInclusive, sync::Arc};

#[cfg(feature = "algorithms")]
use isomer_value::NodeId;
use isomer_value::{Map, Value};

use crate::error::{ErrorClass, ExecError, Result, shown};

/// The options of one call.
pub(super) struct Settings<'a> {
    procedure: &'a str,
    map: Option<&'a Map>,
}

impl<'a> Settings<'a> {
    /// Options of `procedure`, given as a map or null; `known` lists all its options.
    pub(super) fn new(procedure: &'a str, given: &'a Value, known: &[&str]) -> Result<Self> {
        let map = match given {
            Value::Null => None,
            Value::Map(map) => Some(&**map),
            other => {
                return Err(refused(
                    procedure,
                    format!("options are a map, not {}", shown(other)),
                ));
            }
        };
        let settings = Self { procedure, map };
        let unknown = map
            .into_iter()
            .flat_map(Map::names)
            .find(|name| !known.contains(&&***name));
        match unknown {
            Some(name) => Err(refused(
                procedure,
                format!("there is no option `{name}`: it takes {}", known.join(", ")),
            )),
            None => Ok(settings),
        }
    }

    /// The value of an option; none if it is absent or null.
    fn get(&self, name: &str) -> Option<&'a Value> {
        let value = self.map?.get(name)?;
        (!value.is_null()).then_some(value)
    }

    /// The value of an option as it was given; none if it is absent or null.
    #[cfg(feature = "algorithms")]
    pub(super) fn any(&self, name: &str) -> Option<&'a Value> {
        self.get(name)
    }

    /// A map; empty if the option is not given.
    #[cfg(feature = "algorithms")]
    pub(super) fn map(&self, name: &str) -> Result<Map> {
        match self.get(name) {
            None => Ok(Map::new()),
            Some(Value::Map(map)) => Ok((**map).clone()),
            Some(other) => Err(self.wrong(name, "a map", other)),
        }
    }

    pub(super) fn is_given(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The error for an option with an invalid value.
    fn wrong(&self, name: &str, takes: &str, value: &Value) -> ExecError {
        refused(
            self.procedure,
            format!("`{name}` takes {takes}, not {}", shown(value)),
        )
    }

    /// One name or a list of names; none if the option is not given.
    pub(super) fn names(&self, name: &str) -> Result<Vec<Arc<str>>> {
        let text = |value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            other => Err(self.wrong(name, "a string or a list of strings", other)),
        };
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Value::List(items)) => items.iter().map(text).collect(),
            Some(value) => Ok(vec![text(value)?]),
        }
    }

    /// One name.
    pub(super) fn name(&self, name: &str) -> Result<Option<Arc<str>>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.wrong(name, "a string", other)),
        }
    }

    /// The index in `choices` of the given name; of the first if none is given.
    pub(super) fn choice(&self, name: &str, choices: &[&str]) -> Result<usize> {
        let Some(value) = self.get(name) else {
            return Ok(0);
        };
        let given = value.as_str();
        choices
            .iter()
            .position(|choice| Some(*choice) == given)
            .ok_or_else(|| self.wrong(name, &format!("one of '{}'", choices.join("', '")), value))
    }

    /// A number within a range; integers are accepted.
    pub(super) fn float(
        &self,
        name: &str,
        default: f64,
        range: RangeInclusive<f64>,
    ) -> Result<f64> {
        let Some(value) = self.get(name) else {
            return Ok(default);
        };
        value
            .to_f64()
            .filter(|number| range.contains(number))
            .ok_or_else(|| {
                let takes = match *range.end() {
                    f64::MAX => format!("a number from {}", range.start()),
                    end => format!("a number from {} to {end}", range.start()),
                };
                self.wrong(name, &takes, value)
            })
    }
}

/// Kinds of values that only the algorithms take.
#[cfg(feature = "algorithms")]
impl Settings<'_> {
    /// A list of finite numbers.
    pub(super) fn floats(&self, name: &str, default: &[f64]) -> Result<Vec<f64>> {
        let Some(value) = self.get(name) else {
            return Ok(default.to_vec());
        };
        let numbers = value.as_list().map(|items| {
            let number = |item: &Value| item.to_f64().filter(|number| number.is_finite());
            items.iter().map(number).collect::<Option<Vec<f64>>>()
        });
        let wrong = || self.wrong(name, "a list of finite numbers", value);
        numbers.flatten().ok_or_else(wrong)
    }

    /// An integer within a range.
    pub(super) fn integer(
        &self,
        name: &str,
        default: i64,
        range: RangeInclusive<i64>,
    ) -> Result<i64> {
        let Some(value) = self.get(name) else {
            return Ok(default);
        };
        value
            .as_int()
            .filter(|number| range.contains(number))
            .ok_or_else(|| {
                let takes = format!("an integer from {} to {}", range.start(), range.end());
                self.wrong(name, &takes, value)
            })
    }

    pub(super) fn boolean(&self, name: &str, default: bool) -> Result<bool> {
        match self.get(name) {
            None => Ok(default),
            Some(Value::Bool(value)) => Ok(*value),
            Some(other) => Err(self.wrong(name, "true or false", other)),
        }
    }

    /// One node or a list of nodes; none if the option is not given.
    pub(super) fn nodes(&self, name: &str) -> Result<Vec<NodeId>> {
        let node = |value: &Value| match value {
            Value::Node(node) => Ok(node.id),
            other => Err(self.wrong(name, "a node or a list of nodes", other)),
        };
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Value::List(items)) => items.iter().map(node).collect(),
            Some(value) => Ok(vec![node(value)?]),
        }
    }
}

/// The error for an invalid argument of a procedure.
pub(super) fn refused(procedure: &str, reason: impl std::fmt::Display) -> ExecError {
    ExecError::raised(
        ErrorClass::ProcedureError,
        "InvalidArgumentValue",
        format!("{procedure}: {reason}"),
    )
}
