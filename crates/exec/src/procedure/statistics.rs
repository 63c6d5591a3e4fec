//! `db.statistics() YIELD kind, name, count, distinctCount, common, sampled`: the planner's statistics.
//!
//! | `kind` | `name` | `count` | `distinctCount` |
//! |---|---|---|---|
//! | `label` | `(:Person)` | nodes, exactly | – |
//! | `labels` | `(:Person:Admin)` | nodes with both, about | – |
//! | `property` | `(:Person).age` | nodes with a value, about | values, about |
//! | `index` | the index's name | entries, about | values of all its fields, about |
//! | `type` | `()-[:KNOWS]->()` | relationships, exactly | – |
//! | `ends` | `(:Person)-[:KNOWS]->()` | relationships between such nodes, about | – |
//!
//! `common` lists the most common values as `{value, count}`, `sampled` is the number of records that were sampled.
//! Missing and outdated statistics are sampled first. No footprint is recorded: statistics may lag behind what the
//! transaction sees.

use std::sync::Arc;

use isomer_data::{GraphRead, LabelStatistics, TypeStatistics, ValueStatistics};
use isomer_plan::{
    catalog::{ProcedureField, ProcedureMode, ProcedureSignature},
    expr::StaticType,
};
use isomer_value::{LabelId, Map, Value};

use super::{CallContext, Procedure, Registry};
use crate::error::Result;

/// Registers the procedure.
pub(super) fn register(registry: &mut Registry) {
    registry.add_procedure(Arc::new(Statistics(Arc::new(signature()))));
}

fn signature() -> ProcedureSignature {
    let field = |name: &str, kind: StaticType, nullable: bool| ProcedureField {
        name: name.into(),
        kind,
        nullable,
        default: None,
    };
    ProcedureSignature {
        name: "db.statistics".into(),
        parameters: Vec::new(),
        results: vec![
            field("kind", StaticType::String, false),
            field("name", StaticType::String, false),
            field("count", StaticType::Integer, false),
            field("distinctCount", StaticType::Integer, true),
            field("common", StaticType::Any, true),
            field("sampled", StaticType::Integer, true),
        ],
        mode: ProcedureMode::Read,
    }
}

struct Statistics(Arc<ProcedureSignature>);

impl Procedure for Statistics {
    fn signature(&self) -> &Arc<ProcedureSignature> {
        &self.0
    }

    fn call(&self, _arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
        let catalog = call.transaction().catalog();
        let name = |label: LabelId| catalog.label_name(label).unwrap_or_default();
        for (label, of) in catalog.labels() {
            let nodes = call.transaction().node_count(Some(label))?;
            let statistics = call.transaction().store().statistics().of_label(label)?;
            let sampled = statistics.as_ref().map(|one| one.sampled);
            emit(call, "label", format!("(:{of})"), nodes, None, sampled)?;
            if let Some(statistics) = statistics {
                of_label(call, &of, &statistics, &name)?;
            }
        }
        for (type_id, of) in catalog.types() {
            let count = call.transaction().relationship_count(Some(type_id))?;
            let statistics = call.transaction().store().statistics().of_type(type_id)?;
            let sampled = statistics.as_ref().map(|one| one.sampled);
            emit(
                call,
                "type",
                format!("()-[:{of}]->()"),
                count,
                None,
                sampled,
            )?;
            if let Some(statistics) = statistics {
                of_type(call, &of, &statistics, &name)?;
            }
        }
        Ok(())
    }
}

fn of_label(
    call: &mut CallContext<'_>,
    of: &str,
    statistics: &LabelStatistics,
    name: &dyn Fn(LabelId) -> Arc<str>,
) -> Result<()> {
    let sampled = Some(statistics.sampled);
    for (other, count) in &statistics.together {
        let both = format!("(:{of}:{})", name(*other));
        emit(call, "labels", both, *count, None, sampled)?;
    }
    for (path, values) in &statistics.properties {
        let path: Vec<&str> = path.0.iter().map(|name| &**name).collect();
        let of = format!("(:{of}).{}", path.join("."));
        emit(
            call,
            "property",
            of,
            values.present,
            Some((values.distinct, values)),
            sampled,
        )?;
    }
    for index in &statistics.indexes {
        let catalog = call.transaction().catalog();
        // The index was dropped since.
        let Some(known) = catalog.index(index.index) else {
            continue;
        };
        let distinct = index.distinct.last().copied().unwrap_or_default();
        let of = known.name.to_string();
        emit(
            call,
            "index",
            of,
            index.entries,
            Some((distinct, &index.first)),
            sampled,
        )?;
    }
    Ok(())
}

fn of_type(
    call: &mut CallContext<'_>,
    of: &str,
    statistics: &TypeStatistics,
    name: &dyn Fn(LabelId) -> Arc<str>,
) -> Result<()> {
    let sampled = Some(statistics.sampled);
    let sources = statistics
        .sources
        .iter()
        .map(|(label, count)| (format!("(:{})-[:{of}]->()", name(*label)), *count));
    let targets = statistics
        .targets
        .iter()
        .map(|(label, count)| (format!("()-[:{of}]->(:{})", name(*label)), *count));
    let both = statistics.both.iter().map(|((source, target), count)| {
        let ends = format!("(:{})-[:{of}]->(:{})", name(*source), name(*target));
        (ends, *count)
    });
    for (ends, count) in sources.chain(targets).chain(both) {
        emit(call, "ends", ends, count, None, sampled)?;
    }
    Ok(())
}

fn emit(
    call: &mut CallContext<'_>,
    kind: &str,
    name: String,
    count: u64,
    values: Option<(u64, &ValueStatistics)>,
    sampled: Option<u64>,
) -> Result<()> {
    let number = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let common = values.map(|(_, values)| {
        let entry = |(value, count): &(Value, u64)| {
            let entry: Map = [("value", value.clone()), ("count", number(*count))]
                .into_iter()
                .collect();
            Value::Map(Arc::new(entry))
        };
        Value::List(Arc::new(values.common.iter().map(entry).collect()))
    });
    call.emit(vec![
        Value::from(kind),
        Value::from(name),
        number(count),
        values.map_or(Value::Null, |(distinct, _)| number(distinct)),
        common.unwrap_or_default(),
        sampled.map_or(Value::Null, number),
    ])
}
