//! Convergent fields in a dump: the kind of each and its value, from which a new field is created.
//!
//! ```text
//! {"path":["votes"],"kind":"COUNTER","value":7}
//! {"path":["tags"],"kind":"SET","value":["a","b"]}                      also GROW SET
//! {"path":["state"],"kind":"REGISTER","value":"open"}                   also MULTI REGISTER, of one value
//! {"path":["done"],"kind":"FLAG","value":true}
//! {"path":["seen"],"kind":"HLL","precision":14,"ranks":[[0,3],[17,1]]}  places that hold something, with their ranks
//! {"path":["m","likes"],"kind":"COUNTER","value":1}                     what is in a map; the map itself has no line
//! ```
//!
//! The metadata of replicas (dots, clocks, version vectors) is not in a dump.

use anyhow::{Result, anyhow, bail};
use isomer_db::{
    Map, Value,
    internals::data::{ConvergentKind, ConvergentOp, ConvergentOwner, Transaction},
    params,
};

use super::{field, integer, list, names, packed, unpacked};

/// Removes and returns a record's convergent fields.
pub(super) fn take(
    transaction: &Transaction,
    owner: ConvergentOwner,
    properties: &mut Map,
) -> Result<Vec<Value>> {
    let mut fields = Vec::new();
    if transaction.store().convergent_properties() == 0 {
        return Ok(fields);
    }
    let plain: Map = std::mem::take(properties);
    for (name, value) in plain.iter() {
        match transaction.fields().kind(owner, &[name])? {
            None => drop(properties.insert(name.clone(), value.clone())),
            Some(kind) => add(transaction, owner, &[name], kind, value, &mut fields)?,
        }
    }
    Ok(fields)
}

fn add(
    transaction: &Transaction,
    owner: ConvergentOwner,
    path: &[&str],
    kind: ConvergentKind,
    value: &Value,
    fields: &mut Vec<Value>,
) -> Result<()> {
    let names: Value = path.iter().map(|name| Value::from(*name)).collect();
    let mut one = params! { "path" => names, "kind" => kind.name() };
    match (kind, value) {
        (ConvergentKind::Map, Value::Map(inner)) => {
            for (name, value) in inner.iter() {
                let below = [path, &[&**name]].concat();
                let kind = transaction
                    .fields()
                    .kind(owner, &below)?
                    .ok_or_else(|| anyhow!("`{}` has no kind", below.join(".")))?;
                add(transaction, owner, &below, kind, value, fields)?;
            }
            return Ok(());
        }
        (ConvergentKind::MultiRegister, Value::List(values)) => bail!(
            "`{}` holds {} values that were set concurrently, which a dump cannot hold: set one of them first",
            path.join("."),
            values.len()
        ),
        (ConvergentKind::Sketch, _) => {
            let sketch = transaction
                .fields()
                .ranks(owner, path)?
                .ok_or_else(|| anyhow!("`{}` is not a sketch", path.join(".")))?;
            let pair = |(place, rank): (u16, u8)| {
                Value::from(vec![Value::Int(place.into()), Value::Int(rank.into())])
            };
            one.insert("precision", i64::from(sketch.precision).into());
            one.insert("ranks", sketch.ranks.into_iter().map(pair).collect());
        }
        (_, value) => drop(one.insert("value", packed(value)?)),
    }
    fields.push(one.into());
    Ok(())
}

/// Creates the fields in a record's line.
pub(super) fn make(
    transaction: &mut Transaction,
    owner: ConvergentOwner,
    fields: &[Value],
) -> Result<()> {
    for one in fields {
        let one = one
            .as_map()
            .ok_or_else(|| anyhow!("a convergent field is not an object"))?;
        let path = names(list(one, "path")?)?;
        let path: Vec<&str> = path.iter().map(|name| &**name).collect();
        for op in operations(one)? {
            transaction.fields_mut().converge(owner, &path, &op, None)?;
        }
    }
    Ok(())
}

fn operations(fields: &Map) -> Result<Vec<ConvergentOp>> {
    let kind = kind_of(fields)?;
    if kind == ConvergentKind::Sketch {
        return ranks(fields);
    }
    let value = unpacked(fields.get("value").unwrap_or(&Value::Null))?;
    let elements = || {
        value
            .as_list()
            .ok_or_else(|| anyhow!("the value of a set is not a list"))
    };
    Ok(match kind {
        ConvergentKind::Counter => vec![ConvergentOp::Count(integer(&value)?)],
        ConvergentKind::Set => elements()?
            .iter()
            .cloned()
            .map(ConvergentOp::Insert)
            .collect(),
        ConvergentKind::GrowSet => {
            let elements = elements()?.iter().cloned();
            elements.map(ConvergentOp::InsertGrowing).collect()
        }
        ConvergentKind::Register => vec![ConvergentOp::Assign(value)],
        ConvergentKind::MultiRegister => vec![ConvergentOp::AssignMulti(value)],
        ConvergentKind::Flag => vec![ConvergentOp::Enable],
        // A map and a sketch, among others.
        _ => bail!("a {} has no value", kind.name()),
    })
}

fn kind_of(fields: &Map) -> Result<ConvergentKind> {
    let name = field(fields, "kind")?;
    ConvergentKind::by_name(name)
        .ok_or_else(|| anyhow!("unknown kind of convergent field `{name}`"))
}

fn ranks(fields: &Map) -> Result<Vec<ConvergentOp>> {
    let precision = u8::try_from(integer(fields.get("precision").unwrap_or(&Value::Null))?)?;
    let pairs = list(fields, "ranks")?.iter();
    pairs
        .map(|pair| match pair.as_list() {
            Some([place, rank]) => Ok(ConvergentOp::Rank {
                precision,
                place: u16::try_from(integer(place)?)?,
                rank: u8::try_from(integer(rank)?)?,
            }),
            _ => bail!("`ranks` holds something else than pairs of a place and its rank"),
        })
        .collect()
}
