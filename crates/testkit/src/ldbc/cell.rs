//! The values of answers and parameters.

use std::collections::BTreeMap;

/// A value of an answer, or of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Null.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(String),
    /// Milliseconds since 1970: an integer in the interactive workload, a `DATETIME` in the other one.
    Time(i64),
    /// Values in order.
    List(Vec<Cell>),
    /// Values in any order.
    Bag(Vec<Cell>),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<usize> for Cell {
    fn from(number: usize) -> Self {
        Self::Int(number as i64)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<bool> for Cell {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

/// Texts, or null if there are none: an empty list is not stored.
pub fn texts(texts: &[String]) -> Cell {
    match texts.is_empty() {
        true => Cell::Null,
        false => Cell::List(texts.iter().map(Cell::from).collect()),
    }
}

/// The rows of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// In order.
    pub rows: Vec<Vec<Cell>>,
    /// The column that alone decides the order: rows that are equal in it come in any order.
    pub tied_by: Option<usize>,
}

impl From<Vec<Vec<Cell>>> for Answer {
    fn from(rows: Vec<Vec<Cell>>) -> Self {
        Self {
            rows,
            tied_by: None,
        }
    }
}

/// The parameters of one run, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(BTreeMap<&'static str, Cell>);

impl Parameters {
    /// Of names and values.
    pub fn new<const N: usize>(given: [(&'static str, Cell); N]) -> Self {
        Self(given.into_iter().collect())
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Cell)> {
        self.0.iter().map(|(name, cell)| (*name, cell))
    }

    /// A parameter. Panics if there is none: the names are those of the published texts.
    pub fn get(&self, name: &str) -> &Cell {
        let found = self.0.get(name);
        found.unwrap_or_else(|| panic!("there is no parameter {name}"))
    }

    /// An integer.
    pub fn int(&self, name: &str) -> i64 {
        match self.get(name) {
            Cell::Int(number) => *number,
            other => panic!("{name} is an integer, not {other:?}"),
        }
    }

    /// A text.
    pub fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Cell::Text(text) => text,
            other => panic!("{name} is a text, not {other:?}"),
        }
    }

    /// A time.
    pub fn time(&self, name: &str) -> i64 {
        match self.get(name) {
            Cell::Time(time) => *time,
            other => panic!("{name} is a time, not {other:?}"),
        }
    }
}

impl FromIterator<(&'static str, Cell)> for Parameters {
    fn from_iter<I: IntoIterator<Item = (&'static str, Cell)>>(cells: I) -> Self {
        Self(cells.into_iter().collect())
    }
}
