//! The workload in the query language, through the public API: every operation is a query.

use anyhow::Result;
use isomer_db::{
    Database, Error, ErrorKind, Map, Value, WriteTransaction,
    internals::{DatabaseInternals as _, data::Access as Mode},
    params,
};
use isomer_testkit::isolation::{
    Element,
    workload::{Access, Failure, Kind, Steps, Subject},
};

/// A database with an index for the workload's items.
pub struct Language(Database);

impl Language {
    pub fn new(db: Database) -> Result<Self> {
        db.query("CREATE INDEX item_group FOR (i:Item) ON (i.group)")?;
        db.query("CREATE INDEX part_group FOR ()-[r:PART]-() ON (r.group)")?;
        Ok(Self(db))
    }
}

impl Subject for Language {
    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        let range = params! { "from" => from as i64, "to" => to as i64 - 1 };
        self.0.query((
            "UNWIND range($from, $to) AS i CREATE (:Shared {_key: i, list: []})",
            range,
        ))?;
        Ok(())
    }

    fn begin(&self, access: Access) -> Result<Box<dyn Steps + '_>> {
        let access = match access {
            Access::Read => Mode::Read,
            Access::Write => Mode::Write,
        };
        Ok(Box::new(OpenTransaction(self.0.begin_with(access)?)))
    }
}

struct OpenTransaction(WriteTransaction);

fn failure(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Retry => Failure::Retry,
        ErrorKind::OutcomeUnknown => Failure::Unknown,
        _ => Failure::Broken(error.into()),
    }
}

impl OpenTransaction {
    /// The first column of a query's rows.
    fn column(&mut self, text: &str, parameters: Map) -> Result<Vec<Value>, Failure> {
        let result = self.0.query((text, parameters)).map_err(failure)?;
        Ok(result
            .into_rows()
            .into_iter()
            .map(|row| row.into_values().swap_remove(0))
            .collect())
    }

    fn run(&mut self, text: &str, parameters: Map) -> Result<(), Failure> {
        self.0.query((text, parameters)).map(drop).map_err(failure)
    }
}

fn object_parameters(object: u64) -> Map {
    params! { "o" => object as i64 }
}

fn parameters(object: u64, element: Element) -> Map {
    params! { "o" => object as i64, "e" => element as i64 }
}

fn elements(values: &[Value]) -> Vec<Element> {
    values
        .iter()
        .map(|value| value.as_int().expect("the workload stores integers alone") as Element)
        .collect()
}

impl Steps for OpenTransaction {
    fn list(&mut self, kind: Kind, object: u64) -> Result<Vec<Element>, Failure> {
        let text = match kind {
            Kind::BucketList => "RETURN kv.get('lists', toString($o))",
            _ => "MATCH (s:Shared {_key: $o}) RETURN s.list",
        };
        let found = self.column(text, object_parameters(object))?;
        Ok(found
            .first()
            .and_then(Value::as_list)
            .map(elements)
            .unwrap_or_default())
    }

    fn put_list(&mut self, kind: Kind, object: u64, elements: &[Element]) -> Result<(), Failure> {
        let list: Value = elements
            .iter()
            .map(|element| Value::Int(*element as i64))
            .collect();
        let text = match kind {
            Kind::BucketList => "CALL kv.put('lists', toString($o), $list)",
            _ => "MATCH (s:Shared {_key: $o}) SET s.list = $list",
        };
        self.run(text, params! { "o" => object as i64, "list" => list })
    }

    fn register(&mut self, kind: Kind, object: u64) -> Result<Option<Element>, Failure> {
        let text = match kind {
            Kind::BucketRegister => "RETURN kv.get('registers', toString($o))",
            _ => "MATCH (s:Shared {_key: $o}) RETURN s.register",
        };
        let found = self.column(text, object_parameters(object))?;
        Ok(found
            .first()
            .and_then(Value::as_int)
            .map(|value| value as Element))
    }

    fn put_register(&mut self, kind: Kind, object: u64, value: Element) -> Result<(), Failure> {
        let text = match kind {
            Kind::BucketRegister => "CALL kv.put('registers', toString($o), $e)",
            _ => "MATCH (s:Shared {_key: $o}) SET s.register = $e",
        };
        self.run(text, parameters(object, value))
    }

    fn members(&mut self, kind: Kind, object: u64) -> Result<Vec<Element>, Failure> {
        let text = match kind {
            Kind::BucketRange => format!("CALL kv.scan('range{object}') YIELD value RETURN value"),
            Kind::Adjacency => "MATCH (:Shared {_key: $o})-[h:HAS]->() RETURN h.element".to_owned(),
            Kind::Index => "MATCH (i:Item) WHERE i.group = $o RETURN i.element".to_owned(),
            Kind::RelationshipIndex => {
                "MATCH ()-[r:PART]->() WHERE r.group = $o RETURN r.element".to_owned()
            }
            Kind::Label => format!("MATCH (m:L{object}) RETURN m.element"),
            _ => "MATCH (m:Member) WHERE m.group = $o RETURN m.element".to_owned(),
        };
        Ok(elements(&self.column(&text, object_parameters(object))?))
    }

    fn add(&mut self, kind: Kind, object: u64, element: Element) -> Result<(), Failure> {
        let text = match kind {
            Kind::BucketRange => format!("CALL kv.put('range{object}', toString($e), $e)"),
            Kind::Adjacency => {
                "MATCH (s:Shared {_key: $o}) CREATE (s)-[:HAS {element: $e}]->(s)".to_owned()
            }
            Kind::Index => "CREATE (:Item {group: $o, element: $e})".to_owned(),
            Kind::RelationshipIndex => "CREATE ()-[:PART {group: $o, element: $e}]->()".to_owned(),
            Kind::Label => format!("CREATE (:L{object} {{element: $e}})"),
            _ => "CREATE (:Member {group: $o, element: $e})".to_owned(),
        };
        self.run(&text, parameters(object, element))
    }

    fn remove(&mut self, kind: Kind, object: u64, element: Element) -> Result<(), Failure> {
        let text = match kind {
            Kind::BucketRange => format!("CALL kv.delete('range{object}', toString($e))"),
            Kind::Adjacency => {
                "MATCH (:Shared {_key: $o})-[h:HAS {element: $e}]->() DELETE h".to_owned()
            }
            Kind::Index => "MATCH (i:Item {group: $o, element: $e}) SET i.group = -1".to_owned(),
            Kind::RelationshipIndex => {
                "MATCH ()-[r:PART {group: $o, element: $e}]->() DELETE r".to_owned()
            }
            Kind::Label => format!("MATCH (m:L{object} {{element: $e}}) REMOVE m:L{object}"),
            _ => "MATCH (m:Member {group: $o, element: $e}) DELETE m".to_owned(),
        };
        self.run(&text, parameters(object, element))
    }

    fn commit(self: Box<Self>) -> Result<(), Failure> {
        self.0.commit().map(drop).map_err(failure)
    }
}
