//! Procedures that drivers, libraries and tools of Neo4j call before or beside their queries.

use isomer_data::GraphRead;
use isomer_plan::{catalog::CHANGE_PASSWORD, schema::Listing};
use isomer_value::{Map, Value};

use super::{
    CallContext, Registry,
    schema_facts::{node_type_properties, rel_type_properties, visualization},
    settings::refused,
    table::{ProcedureRow, register_procedures},
};
use crate::{
    error::Result,
    host::{self, TRANSACTION_PREFIX},
};

/// The version of Neo4j whose answers and messages these procedures give: clients choose by it what they send.
const NEO4J_VERSION: &str = "5.26.0";
/// Seconds for which a routing table is valid.
const ROUTES_LAST_S: i64 = 300;
const SETTING_COLUMNS: &str = "name: STRING, description: STRING, value: STRING, dynamic: BOOLEAN, \
     defaultValue: STRING, startupValue: STRING, explicitlySet: BOOLEAN, validValues: STRING";
const DATABASE_COLUMNS: &str = "id: STRING, name: STRING, creationDate: STRING";

const PROCEDURES: &[ProcedureRow] = &[
    ProcedureRow::reads(
        "dbms.components",
        "",
        "name: STRING, versions: LIST, edition: STRING",
        "the version of Neo4j whose language and protocol this server speaks, and its own version",
        components,
    ),
    ProcedureRow::reads(
        "db.labels",
        "",
        "label: STRING",
        "the labels in use",
        labels,
    ),
    ProcedureRow::reads(
        "db.relationshipTypes",
        "",
        "relationshipType: STRING",
        "the relationship types in use",
        relationship_types,
    ),
    ProcedureRow::reads(
        "db.propertyKeys",
        "",
        "propertyKey: STRING",
        "the names of properties, also of those no longer in use",
        property_keys,
    ),
    ProcedureRow::reads(
        "db.info",
        "",
        DATABASE_COLUMNS,
        "the identity and name of the database",
        info,
    ),
    ProcedureRow::reads(
        "dbms.info",
        "",
        DATABASE_COLUMNS,
        "the identity and name of the database `system`",
        system_info,
    ),
    ProcedureRow::reads(
        "db.ping",
        "",
        "success: BOOLEAN",
        "true: the database answers",
        |_, call| call.emit(vec![Value::Bool(true)]),
    ),
    ProcedureRow::administers(
        "dbms.listConfig",
        "searchString: STRING = ''",
        SETTING_COLUMNS,
        "the settings of the server whose names contain a text",
        list_config,
    ),
    ProcedureRow::reads(
        "dbms.clientConfig",
        "",
        SETTING_COLUMNS,
        "the settings that clients need: the default database",
        client_config,
    ),
    ProcedureRow::reads(
        "dbms.routing.getRoutingTable",
        "context: MAP, database: STRING? = null",
        "ttl: INTEGER, servers: LIST",
        "the addresses for reading and writing a database",
        routing_table,
    ),
    ProcedureRow::reads(
        "dbms.cluster.routing.getRoutingTable",
        "context: MAP, database: STRING? = null",
        "ttl: INTEGER, servers: LIST",
        "the addresses for reading and writing a database",
        routing_table,
    ),
    ProcedureRow::reads(
        "tx.getMetaData",
        "",
        "metadata: MAP",
        "the metadata that the client gave to the transaction",
        |_, call| {
            let metadata = host::required(&call.host, "tx.getMetaData()")?.metadata();
            call.emit(vec![metadata.into()])
        },
    ),
    ProcedureRow::reads(
        "tx.setMetaData",
        "data: MAP",
        "",
        "gives metadata to the transaction",
        |arguments, call| {
            let metadata = arguments.first().and_then(Value::as_map);
            let metadata = metadata.cloned().unwrap_or_default();
            host::required(&call.host, "tx.setMetaData()")?.set_metadata(metadata);
            Ok(())
        },
    ),
    ProcedureRow::reads(
        "db.schema.nodeTypeProperties",
        "",
        "nodeType: STRING, nodeLabels: LIST, propertyName: STRING, propertyTypes: LIST, mandatory: BOOLEAN",
        "the properties of each combination of labels; reads all nodes",
        node_type_properties,
    ),
    ProcedureRow::reads(
        "db.schema.relTypeProperties",
        "",
        "relType: STRING, propertyName: STRING, propertyTypes: LIST, mandatory: BOOLEAN",
        "the properties of each relationship type; reads all relationships",
        rel_type_properties,
    ),
    ProcedureRow::reads(
        "db.schema.visualization",
        "",
        "nodes: LIST, relationships: LIST",
        "labels and the relationship types between them, as maps; reads all relationships",
        visualization,
    ),
    ProcedureRow::writes(
        "db.create.setNodeVectorProperty",
        "node: NODE, key: STRING, vector: LIST",
        "",
        "sets a property of a node to a list of numbers",
        set_node_vector,
    ),
    ProcedureRow::writes(
        "db.create.setRelationshipVectorProperty",
        "relationship: RELATIONSHIP, key: STRING, vector: LIST",
        "",
        "sets a property of a relationship to a list of numbers",
        set_relationship_vector,
    ),
    ProcedureRow::administers(
        "db.terminateTransactions",
        "ids: LIST",
        "transactionId: STRING, username: STRING, message: STRING",
        "cancels running queries by the ids of their transactions: TERMINATE TRANSACTIONS",
        terminate,
    ),
    ProcedureRow::administers(
        "dbms.administer",
        "command: MAP",
        "",
        "creates, changes or removes a user or database: CREATE USER and the like",
        administer,
    ),
    ProcedureRow::reads(
        CHANGE_PASSWORD,
        "change: MAP",
        "",
        "changes the password of the user that calls it: ALTER CURRENT USER",
        change_password,
    ),
];

/// Registers the procedures.
pub(super) fn register(registry: &mut Registry) {
    register_procedures(registry, PROCEDURES);
}

fn change_password(args: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    host::change_password(&call.host, &args[0])
}

fn administer(args: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    host::administer(&call.host, &args[0])
}

fn components(_: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    for (name, version, edition) in [
        ("Neo4j Kernel", NEO4J_VERSION, "community"),
        ("Cypher", "5", ""),
        ("IsomerDB", env!("CARGO_PKG_VERSION"), ""),
    ] {
        let versions = Value::from(vec![Value::from(version)]);
        call.emit(vec![name.into(), versions, edition.into()])?;
    }
    Ok(())
}

fn labels(_: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    for (id, name) in call.reader().catalog().labels() {
        if call.reader().node_count(Some(id))? > 0 {
            call.emit(vec![Value::String(name)])?;
        }
    }
    Ok(())
}

fn relationship_types(_: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    for (id, name) in call.reader().catalog().types() {
        if call.reader().relationship_count(Some(id))? > 0 {
            call.emit(vec![Value::String(name)])?;
        }
    }
    Ok(())
}

fn property_keys(_: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    for (_, name) in call.reader().catalog().props() {
        call.emit(vec![Value::String(name)])?;
    }
    Ok(())
}

/// The identity of the database in hexadecimal digits.
fn identity(call: &mut CallContext<'_>) -> String {
    let bytes = call.transaction().store().identity().0;
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn info(_: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let id = identity(call);
    let name = call.host.as_ref().map(|host| host.database_name());
    // The time of creation is not recorded.
    call.emit(vec![id.into(), name.into(), Value::Null])
}

fn system_info(_: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let id = identity(call);
    call.emit(vec![id.into(), "system".into(), Value::Null])
}

/// The row of a setting in the columns of these procedures, from that of `SHOW SETTINGS`.
fn setting(shown: &[Value]) -> Vec<Value> {
    let at = |at: usize| shown.get(at).cloned().unwrap_or_default();
    vec![at(0), at(4), at(1), at(2), at(3), at(1), at(5), Value::Null]
}

fn list_config(arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let wanted = arguments.first().and_then(Value::as_str);
    let wanted = wanted.unwrap_or_default().to_lowercase();
    for shown in host::listing(&call.host, Listing::Settings)? {
        let name = shown.first().and_then(Value::as_str).unwrap_or_default();
        if name.to_lowercase().contains(&wanted) {
            call.emit(setting(&shown))?;
        }
    }
    Ok(())
}

fn client_config(_: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let shown = host::listing(&call.host, Listing::DefaultDatabase)?;
    let name = shown.first().and_then(|row| row.first()).cloned();
    let name = name.unwrap_or_default();
    call.emit(vec![
        "initial.dbms.default_database".into(),
        "the database of clients that name none".into(),
        name.clone(),
        false.into(),
        Value::Null,
        name,
        false.into(),
        Value::Null,
    ])
}

fn routing_table(arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let context = arguments.first().and_then(Value::as_map);
    let own = context.and_then(|context| context.get("address")).cloned();
    let host = host::required(&call.host, "dbms.routing.getRoutingTable()")?;
    let addresses: Value = match own {
        Some(Value::String(address)) => vec![Value::String(address)].into(),
        _ => host.addresses().into_iter().map(Value::from).collect(),
    };
    let server = |role: &str| -> Value {
        Map::from_iter([("addresses", addresses.clone()), ("role", role.into())]).into()
    };
    let servers = vec![server("WRITE"), server("READ"), server("ROUTE")];
    call.emit(vec![Value::Int(ROUTES_LAST_S), servers.into()])
}

/// The numbers of a vector, as floats.
fn vector(procedure: &str, value: &Value) -> Result<Value> {
    let numbers = value.as_list().unwrap_or_default().iter();
    let floats = numbers.map(|number| number.to_f64().map(Value::Float));
    floats.collect::<Option<Vec<_>>>().map_or_else(
        || {
            Err(refused(
                procedure,
                "the vector must be a list of numbers".to_owned(),
            ))
        },
        |floats| Ok(floats.into()),
    )
}

fn set_node_vector(arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let [Value::Node(node), Value::String(key), given] = arguments else {
        return Ok(());
    };
    let floats = vector("db.create.setNodeVectorProperty", given)?;
    let mut graph = call.transaction().graph_mut();
    graph.set_node_property(node.id, &[key], floats)?;
    call.counters.properties_set += 1;
    Ok(())
}

fn set_relationship_vector(arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let [Value::Relationship(relationship), Value::String(key), given] = arguments else {
        return Ok(());
    };
    let floats = vector("db.create.setRelationshipVectorProperty", given)?;
    let mut graph = call.transaction().graph_mut();
    graph.set_relationship_property(relationship.id, &[key], floats)?;
    call.counters.properties_set += 1;
    Ok(())
}

fn terminate(arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let mut ids = Vec::new();
    for given in arguments
        .first()
        .and_then(Value::as_list)
        .unwrap_or_default()
    {
        match given {
            Value::List(list) => ids.extend(list.iter().cloned()),
            one => ids.push(one.clone()),
        }
    }
    for id in ids {
        let number = id
            .as_str()
            .and_then(|id| id.strip_prefix(TRANSACTION_PREFIX));
        let number = number.and_then(|number| number.parse().ok());
        let running = call.running.as_ref();
        let cancelled = running
            .zip(number)
            .is_some_and(|(running, number)| running.kill(&Value::Int(number)));
        let message = match cancelled {
            true => "Transaction terminated.",
            false => "Transaction not found.",
        };
        call.emit(vec![id, Value::Null, message.into()])?;
    }
    Ok(())
}
