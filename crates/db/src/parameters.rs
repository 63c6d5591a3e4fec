//! Parameters of a query.

use std::sync::Arc;

use isomer_value::{Map, Value, limits::MAX_NESTING};

use crate::{Error, ErrorKind, Result};

/// Types that can be passed as the parameters of a query: `()`, a [`Map`], or pairs of names and values.
///
/// ```
/// use isomerdb::{Database, params};
///
/// let db = Database::open_in_memory()?;
/// db.query(("CREATE (:City {name: $name, people: $people})", params! { "name" => "Lucca", "people" => 89_000 }))?;
/// db.query(("CREATE (:City {name: $name})", [("name", "Pisa")]))?;
/// assert_eq!(db.query("MATCH (c:City) RETURN c.name")?.len(), 2);
/// # Ok::<(), isomerdb::Error>(())
/// ```
pub trait IntoParameters {
    /// Names and values.
    fn into_parameters(self) -> Map;
}

impl IntoParameters for () {
    fn into_parameters(self) -> Map {
        Map::new()
    }
}

impl IntoParameters for Map {
    fn into_parameters(self) -> Map {
        self
    }
}

impl IntoParameters for &Map {
    fn into_parameters(self) -> Map {
        self.clone()
    }
}

impl<V: Into<Value>, const N: usize> IntoParameters for [(&str, V); N] {
    fn into_parameters(self) -> Map {
        self.into_iter()
            .map(|(name, value)| (name, value.into()))
            .collect()
    }
}

impl<V: Into<Value>> IntoParameters for Vec<(String, V)> {
    fn into_parameters(self) -> Map {
        self.into_iter()
            .map(|(name, value)| (name, value.into()))
            .collect()
    }
}

/// The parameters of a query. Values that nest too deep are refused, and dropped without recursion.
pub(crate) fn checked(parameters: Map) -> Result<Map> {
    let deep = parameters
        .iter()
        .find(|(_, value)| value.nests_deeper(MAX_NESTING))
        .map(|(name, _)| name.clone());
    let Some(name) = deep else {
        return Ok(parameters);
    };
    let mut open: Vec<Value> = parameters.into_iter().map(|(_, value)| value).collect();
    while let Some(value) = open.pop() {
        match value {
            Value::List(items) => open.extend(Arc::into_inner(items).unwrap_or_default()),
            Value::Map(map) => {
                let entries = Arc::into_inner(map).unwrap_or_default();
                open.extend(entries.into_iter().map(|(_, value)| value));
            }
            _ => {}
        }
    }
    Err(Error::new(
        ErrorKind::Limit,
        format!(
            "the parameter ${name} has more than {MAX_NESTING} levels of nested lists and maps: flatten the value"
        ),
    ))
}

/// A map of names to values of any types that become a [`Value`]: `params! { "id" => 7, "name" => "Ada" }`.
///
/// ```
/// let map = isomerdb::params! { "id" => 7, "name" => "Ada" };
/// assert_eq!(map.get("id"), Some(&isomerdb::Value::Int(7)));
/// ```
#[macro_export]
macro_rules! params {
    ($($name:expr => $value:expr),* $(,)?) => {{
        #[allow(unused_mut)]
        let mut map = $crate::Map::new();
        $(map.insert($name, $crate::Value::from($value));)*
        map
    }};
}
