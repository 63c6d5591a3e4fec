//! Procedures and functions that are rows of a table: a name, parameters and results as text, and a body.
//!
//! Parameters are written `name: TYPE`, separated by commas; a type with `?` accepts null, and `= value` is the default
//! of one that may be left out: `null`, `true`, `false`, `''`, `{}`, `[]`, or an integer.

use std::sync::Arc;

use isomer_plan::{
    catalog::{FunctionSignature, ProcedureField, ProcedureMode, ProcedureSignature},
    expr::StaticType,
};
use isomer_value::{Map, Value};

use super::{CallContext, Procedure, Registry, ScalarFunction};
use crate::error::Result;

/// The body of a procedure.
pub(super) type Body = fn(&[Value], &mut CallContext<'_>) -> Result<()>;

/// A procedure of a table.
pub(super) struct ProcedureRow {
    pub name: &'static str,
    pub parameters: &'static str,
    pub results: &'static str,
    pub mode: ProcedureMode,
    pub description: &'static str,
    pub body: Body,
}

impl ProcedureRow {
    /// A procedure that reads.
    pub const fn reads(
        name: &'static str,
        parameters: &'static str,
        results: &'static str,
        description: &'static str,
        body: Body,
    ) -> Self {
        Self {
            name,
            parameters,
            results,
            mode: ProcedureMode::Read,
            description,
            body,
        }
    }

    /// A procedure that may write: a transaction that only reads refuses it.
    pub const fn writes(
        name: &'static str,
        parameters: &'static str,
        results: &'static str,
        description: &'static str,
        body: Body,
    ) -> Self {
        let row = Self::reads(name, parameters, results, description, body);
        Self {
            mode: ProcedureMode::Write,
            ..row
        }
    }

    /// A procedure of administrators.
    pub const fn administers(
        name: &'static str,
        parameters: &'static str,
        results: &'static str,
        description: &'static str,
        body: Body,
    ) -> Self {
        let row = Self::reads(name, parameters, results, description, body);
        Self {
            mode: ProcedureMode::Admin,
            ..row
        }
    }
}

/// A function of a table; null is passed to its body.
pub(super) struct FunctionRow {
    pub name: &'static str,
    pub parameters: &'static str,
    pub result: StaticType,
    pub description: &'static str,
    pub body: fn(&[Value]) -> Result<Value>,
}

impl FunctionRow {
    /// A function of values.
    pub const fn new(
        name: &'static str,
        parameters: &'static str,
        result: StaticType,
        description: &'static str,
        body: fn(&[Value]) -> Result<Value>,
    ) -> Self {
        Self {
            name,
            parameters,
            result,
            description,
            body,
        }
    }
}

/// Registers the procedures of a table.
pub(super) fn register_procedures(registry: &mut Registry, rows: &'static [ProcedureRow]) {
    for row in rows {
        let signature = Arc::new(ProcedureSignature {
            name: row.name.into(),
            parameters: fields(row.parameters),
            results: fields(row.results),
            mode: row.mode,
        });
        registry.add_procedure(Arc::new(TableProcedure { signature, row }));
    }
}

/// Registers the functions of a table.
pub(super) fn register_functions(registry: &mut Registry, rows: &'static [FunctionRow]) {
    for row in rows {
        let signature = Arc::new(FunctionSignature {
            name: row.name.into(),
            parameters: fields(row.parameters),
            result: row.result.clone(),
            deterministic: true,
        });
        registry.add_function(Arc::new(TableFunction { signature, row }));
    }
}

struct TableProcedure {
    signature: Arc<ProcedureSignature>,
    row: &'static ProcedureRow,
}

impl Procedure for TableProcedure {
    fn signature(&self) -> &Arc<ProcedureSignature> {
        &self.signature
    }

    fn call(&self, arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
        (self.row.body)(arguments, call)
    }

    fn description(&self) -> Option<&'static str> {
        Some(self.row.description)
    }
}

struct TableFunction {
    signature: Arc<FunctionSignature>,
    row: &'static FunctionRow,
}

impl ScalarFunction for TableFunction {
    fn signature(&self) -> &Arc<FunctionSignature> {
        &self.signature
    }

    fn call(&self, arguments: &[Value]) -> Result<Value> {
        (self.row.body)(arguments)
    }

    fn description(&self) -> Option<&'static str> {
        Some(self.row.description)
    }
}

/// The fields that a text declares. Panics for an invalid one: the tables are constants, and a test reads all.
fn fields(text: &str) -> Vec<ProcedureField> {
    let declared = text.split(',').map(str::trim);
    let declared = declared.filter(|field| !field.is_empty());
    declared.map(field).collect()
}

fn field(text: &str) -> ProcedureField {
    let (declaration, default) = match text.split_once(" = ") {
        Some((declaration, default)) => (declaration, Some(constant(default))),
        None => (text, None),
    };
    let (name, kind) = declaration
        .split_once(": ")
        .expect("a field of a table is `name: TYPE`");
    let (word, nullable) = match kind.strip_suffix('?') {
        Some(word) => (word, true),
        None => (kind, kind == "ANY"),
    };
    ProcedureField {
        name: name.into(),
        kind: kind_of(word),
        nullable,
        default,
    }
}

fn kind_of(word: &str) -> StaticType {
    match word {
        "ANY" => StaticType::Any,
        "BOOLEAN" => StaticType::Boolean,
        "FLOAT" => StaticType::Float,
        "INTEGER" => StaticType::Integer,
        "LIST" => StaticType::List(Box::new(StaticType::Any)),
        "MAP" => StaticType::Map,
        "NODE" => StaticType::Node,
        "NUMBER" => StaticType::Number,
        "RELATIONSHIP" => StaticType::Relationship,
        "STRING" => StaticType::String,
        other => panic!("`{other}` is not a type of a table"),
    }
}

fn constant(text: &str) -> Value {
    match text {
        "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "{}" => Map::new().into(),
        "[]" => Value::empty_list(),
        text => match text
            .strip_prefix('\'')
            .and_then(|text| text.strip_suffix('\''))
        {
            Some(text) => text.into(),
            None => Value::Int(text.parse().expect("a default of a table is a constant")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_from_text() {
        let declared = fields("name: STRING, config: MAP? = {}, at: INTEGER = -1, any: ANY");
        let names: Vec<&str> = declared.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["name", "config", "at", "any"]);
        assert_eq!(declared[1].default, Some(Map::new().into()));
        assert!(declared[1].nullable && !declared[0].nullable && declared[3].nullable);
        assert_eq!(declared[2].default, Some(Value::Int(-1)));
        assert_eq!(declared[2].kind, StaticType::Integer);
    }
}
