//! Procedures that a scenario declares by a signature and a table of results.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use isomer_exec::{CallContext, ExecError, Procedure};
use isomer_plan::catalog::{ProcedureField, ProcedureMode, ProcedureSignature};
use isomer_plan::expr::StaticType;
use isomer_value::Value;

use super::notation;

/// A procedure that looks up its result.
#[derive(Debug)]
pub(super) struct TableProcedure {
    signature: Arc<ProcedureSignature>,
    /// Arguments and results of each row.
    rows: Vec<(Vec<Value>, Vec<Value>)>,
}

impl TableProcedure {
    /// Parses `name(in :: INTEGER?) :: (out :: STRING?):` and its table.
    pub(super) fn parse(declaration: &str, table: &[Vec<String>]) -> Result<Self> {
        let declaration = declaration.trim().trim_end_matches(':').trim();
        let open = declaration
            .find('(')
            .context("a procedure has parentheses")?;
        let close = declaration
            .find(')')
            .context("a procedure has parentheses")?;
        let name = declaration[..open].trim();
        let parameters = fields(&declaration[open + 1..close])?;
        let results = declaration[close + 1..]
            .trim()
            .strip_prefix("::")
            .context("a procedure has results")?
            .trim();
        let results = fields(results.trim_start_matches('(').trim_end_matches(')'))?;
        let mut rows = Vec::new();
        for row in table.iter().skip(1).filter(|row| !row.is_empty()) {
            let values = row
                .iter()
                .map(|cell| value(cell))
                .collect::<Result<Vec<Value>>>()?;
            if values.len() != parameters.len() + results.len() {
                bail!("a row of {name} has {} cells", values.len());
            }
            let (arguments, outputs) = values.split_at(parameters.len());
            rows.push((arguments.to_vec(), outputs.to_vec()));
        }
        let signature = ProcedureSignature {
            name: name.into(),
            parameters,
            results,
            mode: ProcedureMode::Read,
        };
        Ok(Self {
            signature: Arc::new(signature),
            rows,
        })
    }
}

fn value(cell: &str) -> Result<Value> {
    notation::parse(cell)?
        .to_value()
        .with_context(|| format!("{cell} cannot be given to a procedure"))
}

/// `a :: INTEGER?, b :: STRING?`
fn fields(text: &str) -> Result<Vec<ProcedureField>> {
    let fields = text
        .split(',')
        .map(str::trim)
        .filter(|field| !field.is_empty());
    fields
        .map(|field| {
            let (name, kind) = field
                .split_once("::")
                .with_context(|| format!("{field} has no type"))?;
            let kind = kind.trim();
            Ok(ProcedureField {
                name: name.trim().into(),
                kind: kind_of(kind.trim_end_matches('?'))?,
                nullable: kind.ends_with('?'),
                default: None,
            })
        })
        .collect()
}

fn kind_of(name: &str) -> Result<StaticType> {
    Ok(match name {
        "ANY" => StaticType::Any,
        "BOOLEAN" => StaticType::Boolean,
        "INTEGER" => StaticType::Integer,
        "FLOAT" => StaticType::Float,
        "NUMBER" => StaticType::Number,
        "STRING" => StaticType::String,
        "MAP" => StaticType::Map,
        "NODE" => StaticType::Node,
        "RELATIONSHIP" => StaticType::Relationship,
        "PATH" => StaticType::Path,
        _ => match name
            .strip_prefix("LIST<")
            .or_else(|| name.strip_prefix("LIST? OF "))
        {
            Some(element) => {
                StaticType::List(Box::new(kind_of(element.trim_end_matches(['>', '?']))?))
            }
            None => bail!("{name} is not a type"),
        },
    })
}

impl Procedure for TableProcedure {
    fn signature(&self) -> &Arc<ProcedureSignature> {
        &self.signature
    }

    fn call(
        &self,
        arguments: &[Value],
        call: &mut CallContext<'_>,
    ) -> std::result::Result<(), ExecError> {
        let fits = |given: &Value, asked: &Value| match (given.to_f64(), asked.to_f64()) {
            (Some(given), Some(asked)) => given == asked,
            _ => given == asked,
        };
        for (inputs, outputs) in &self.rows {
            if inputs
                .iter()
                .zip(arguments)
                .all(|(input, argument)| fits(input, argument))
            {
                call.emit(outputs.clone())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_read() {
        let table = [
            vec!["in".to_owned(), "out".to_owned()],
            vec!["null".to_owned(), "'nix'".to_owned()],
        ];
        let procedure =
            TableProcedure::parse("test.my.proc(in :: INTEGER?) :: (out :: STRING?):", &table)
                .expect("a procedure");
        assert_eq!(procedure.signature.name.as_ref(), "test.my.proc");
        assert_eq!(
            (
                procedure.signature.parameters.len(),
                procedure.signature.results.len(),
                procedure.rows.len()
            ),
            (1, 1, 1)
        );
        let nothing = TableProcedure::parse("test.doNothing() :: ():", &[]).expect("a procedure");
        assert!(nothing.signature.results.is_empty());
    }
}
