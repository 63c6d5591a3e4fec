//! The statements that public libraries and tools send, against what Neo4j 5.26 Community answers to them.
//!
//! The list is outside of the repository, in `../shared/compat/statements.tsv`; without it, the test says so and ends.
//! `cargo test -p isomer-server --test server compat_statements -- --nocapture` prints every difference.

use std::path::Path;

use isomer_db::{Map, Value, params};

use crate::{
    driver::{Answer, Driver, PULL, RUN},
    support::Server,
};

/// Statements that Neo4j accepts and this server does. A statement more is a success: raise the number.
const ACCEPTED: usize = 112;
/// Those of them whose columns have the same names in the same order. `YIELD *` of indexes and constraints has more.
const SAME_COLUMNS: usize = 110;

/// A line of the list.
struct Statement {
    text: String,
    /// The columns of Neo4j's result as the list writes them; none if Neo4j refuses the statement.
    columns: Option<String>,
}

fn statements(list: &str) -> Vec<Statement> {
    let lines = list.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines
        .filter_map(|line| {
            let mut fields = line.split('\t');
            let text = fields.next()?.to_owned();
            let accepted = fields.next()? == "ok";
            let columns = fields.next().unwrap_or_default().to_owned();
            Some(Statement {
                text,
                columns: accepted.then_some(columns),
            })
        })
        .collect()
}

/// The columns in the notation of the list, or the error.
fn answer(driver: &mut Driver, statement: &str) -> Result<String, String> {
    let parameters = params! {
        "l" => "A",
        "ls" => vec![Value::from("A")],
        "k" => "z",
        "t" => "R",
        "name" => "nm",
    };
    let on = params! { "db" => "people" };
    let fields = [statement.into(), parameters.into(), on.into()];
    driver.send(RUN, &fields);
    driver.send(PULL, &[params! { "n" => -1 }.into()]);
    let run = driver.summary().expect("an answer");
    let pull = driver.summary().expect("an answer");
    let columns = match (run, pull) {
        (Answer::Success(about), Answer::Success(_)) => about,
        (Answer::Failure { code, message }, _) | (_, Answer::Failure { code, message }) => {
            driver.reset();
            return Err(format!("{code}: {message}"));
        }
        (run, pull) => panic!("{statement}: {run:?}, {pull:?}"),
    };
    let fields = columns.get("fields").and_then(Value::as_list);
    let fields = fields.unwrap_or_default().iter();
    let quoted = fields.map(|field| {
        let field = field.as_str().unwrap_or_default();
        match field.contains('\'') {
            true => format!("\"{field}\""),
            false => format!("'{field}'"),
        }
    });
    Ok(format!("[{}]", quoted.collect::<Vec<_>>().join(", ")))
}

#[test]
fn statements_of_libraries_are_accepted() {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let Ok(list) = std::fs::read_to_string(shared.join("compat/statements.tsv")) else {
        println!("skipped: there is no ../shared/compat/statements.tsv");
        return;
    };
    let server = Server::new();
    let mut driver = Driver::of(&server, "admin");
    let (mut accepted, mut same, mut of_neo4j) = (0, 0, 0);
    for statement in statements(&list) {
        let Some(expected) = &statement.columns else {
            continue;
        };
        of_neo4j += 1;
        match answer(&mut driver, &statement.text) {
            Err(error) => println!("refused: {}\n    {error}", statement.text),
            Ok(columns) => {
                accepted += 1;
                // Some columns of the list are cut.
                if columns.starts_with(expected.as_str()) {
                    same += 1;
                } else {
                    println!("columns: {}\n    {columns}\n    {expected}", statement.text);
                }
            }
        }
    }
    println!("{accepted} of {of_neo4j} statements accepted, {same} with the same columns");
    assert!(accepted >= ACCEPTED, "{accepted} accepted");
    assert!(same >= SAME_COLUMNS, "{same} with the same columns");
}

fn rows(driver: &mut Driver, database: &str, statement: &str) -> Vec<Vec<Value>> {
    let (rows, answer) = driver.run(statement, params! { "db" => database });
    assert!(
        matches!(answer, Answer::Success(_)),
        "{statement}: {answer:?}"
    );
    rows
}

#[test]
fn the_server_lists_its_databases_users_and_settings() {
    let server = Server::new();
    server.user("ada", "{\"people\":\"reader\"}");
    let mut admin = Driver::of(&server, "admin");
    let mut reader = Driver::of(&server, "ada");
    let text = |text: &str| Value::from(text);

    let names = "SHOW DATABASES YIELD name, home ORDER BY name RETURN collect(name) AS names";
    assert_eq!(
        rows(&mut admin, "people", names),
        [[vec![text("other"), text("people"), text("system")].into()]]
    );
    assert_eq!(
        rows(&mut reader, "people", names),
        [[vec![text("people"), text("system")].into()]]
    );
    let one = "SHOW DATABASE people YIELD name, type, aliases, currentStatus, home";
    assert_eq!(
        rows(&mut reader, "system", one),
        [[
            text("people"),
            text("standard"),
            vec![text("neo4j")].into(),
            text("online"),
            true.into()
        ]]
    );
    // A condition may use the name before `AS`, which `RETURN *` does not return.
    let renamed = "SHOW PROCEDURES YIELD name AS procedure ORDER BY procedure DESC WHERE name STARTS WITH 'db.p' RETURN *";
    assert_eq!(
        rows(&mut reader, "people", renamed),
        [[text("db.propertyKeys")], [text("db.ping")]]
    );
    let current = "SHOW CURRENT USER YIELD user, roles, home";
    let roles: Value = vec![text("reader on people")].into();
    assert_eq!(
        rows(&mut reader, "people", current),
        [[text("ada"), roles, text("people")]]
    );
    let users = "SHOW USERS YIELD user RETURN count(*) AS n";
    assert_eq!(rows(&mut admin, "people", users), [[Value::Int(2)]]);
    let refused = reader.run(users, params! { "db" => "people" }).1;
    assert_eq!(refused.code(), "Neo.ClientError.Security.Forbidden");
    reader.reset();
    let setting = "SHOW SETTINGS 'limits.users' , 'listen' YIELD name, isDynamic";
    assert_eq!(
        rows(&mut admin, "people", setting),
        [[text("listen"), false.into()]]
    );
    let config = "CALL dbms.listConfig('LISTEN') YIELD name RETURN name";
    assert_eq!(rows(&mut admin, "people", config), [[text("listen")]]);
    let info = "CALL db.info() YIELD name RETURN name";
    assert_eq!(rows(&mut reader, "people", info), [[text("people")]]);
}

#[test]
fn neo4j_is_the_default_database_and_system_has_no_data() {
    let server = Server::new();
    server.user("ada", "{\"people\":\"editor\"}");
    let mut driver = Driver::of(&server, "ada");
    rows(&mut driver, "people", "CREATE (:A)");
    let count = "MATCH (n) RETURN count(n) AS n";
    assert_eq!(rows(&mut driver, "neo4j", count), [[Value::Int(1)]]);
    assert_eq!(rows(&mut driver, "system", count), [[Value::Int(0)]]);
    let written = driver.run("CREATE (:A)", params! { "db" => "system" }).1;
    assert_ne!(written.code(), "success");
    driver.reset();
    // `USE` names the database of a statement.
    assert_eq!(
        rows(
            &mut driver,
            "system",
            "USE people MATCH (n) RETURN count(n) AS n"
        ),
        [[Value::Int(1)]]
    );
    driver
        .ask(crate::driver::BEGIN, &[params! { "db" => "people" }.into()])
        .success();
    let own = driver.run("USE neo4j RETURN 1", Map::new()).1;
    assert_eq!(own.code(), "success", "{own:?}");
    let other = driver.run("USE system RETURN 1", Map::new()).1;
    assert_eq!(other.code(), "Neo.ClientError.Statement.ArgumentError");
    driver.reset();
    // An administrator of the server may use every class of statements there, and still write nothing.
    let mut admin = Driver::of(&server, "admin");
    let written = admin.run("CREATE (:A)", params! { "db" => "system" }).1;
    assert_eq!(
        written.code(),
        "Neo.ClientError.Statement.NotSystemDatabaseError"
    );
    admin.reset();
    assert_eq!(rows(&mut admin, "system", count), [[Value::Int(0)]]);
}

/// Administrators of the server manage users and databases in statements; other users cannot.
#[test]
fn users_and_databases_are_administered_in_statements() {
    let server = Server::new();
    server.user("ada", "{\"people\":\"admin\"}");
    let mut admin = Driver::of(&server, "admin");
    let password = crate::support::PASSWORD;
    let create = format!("CREATE USER bob SET PASSWORD '{password}' CHANGE NOT REQUIRED");
    let named = || params! { "db" => "system" };
    rows(&mut admin, "system", &create);
    let twice = admin.run(&create, named()).1;
    assert_ne!(twice.code(), "success", "bob already exists");
    admin.reset();
    rows(
        &mut admin,
        "people",
        &create.replace("bob", "bob IF NOT EXISTS"),
    );
    let names = "SHOW USERS YIELD user ORDER BY user RETURN collect(user) AS users";
    let listed =
        |users: &[&str]| -> Value { users.iter().map(|user| Value::from(*user)).collect() };
    assert_eq!(
        rows(&mut admin, "system", names),
        [[listed(&["ada", "admin", "bob"])]]
    );
    // A new user can log in, and has no rights.
    let mut bob = Driver::of(&server, "bob");
    let read = bob.run("RETURN 1", params! { "db" => "people" }).1;
    assert_eq!(read.code(), "Neo.ClientError.Security.Forbidden");
    // Neither has the administrator of one database, nor may a transaction show the password.
    let mut ada = Driver::of(&server, "ada");
    for statement in [
        "DROP USER bob",
        "CREATE DATABASE other2",
        create.replace("bob", "eve").as_str(),
    ] {
        let refused = ada.run(statement, params! { "db" => "people" }).1;
        assert_eq!(
            refused.code(),
            "Neo.ClientError.Security.Forbidden",
            "{statement}"
        );
        ada.reset();
    }
    let changed = admin.run_with(
        "ALTER USER bob SET PASSWORD $password",
        params! { "password" => "another password" },
        named(),
    );
    assert_eq!(changed.1.code(), "success", "{:?}", changed.1);
    rows(&mut admin, "system", "DROP USER bob");
    rows(&mut admin, "system", "DROP USER bob IF EXISTS");
    assert_eq!(
        rows(&mut admin, "system", names),
        [[listed(&["ada", "admin"])]]
    );
    rows(
        &mut admin,
        "system",
        "CREATE DATABASE fresh IF NOT EXISTS WAIT",
    );
    rows(&mut admin, "system", "CREATE DATABASE fresh IF NOT EXISTS");
    rows(&mut admin, "fresh", "CREATE (:A)");
    let databases = "SHOW DATABASES YIELD name WHERE name = 'fresh' RETURN count(*) AS n";
    assert_eq!(rows(&mut admin, "system", databases), [[Value::Int(1)]]);
    rows(&mut admin, "system", "DROP DATABASE fresh");
    assert_eq!(rows(&mut admin, "system", databases), [[Value::Int(0)]]);
    for statement in [
        "DROP DATABASE fresh",
        "USE people DROP DATABASE people",
        "CREATE USER x SET PASSWORD 'abcabcabc' CHANGE REQUIRED",
    ] {
        let refused = admin.run(statement, named()).1;
        assert_ne!(refused.code(), "success", "{statement}");
        admin.reset();
    }
}

/// Every user may change the own password, with the current one; guesses count as failed logins.
#[test]
fn a_user_changes_the_own_password_in_a_statement() {
    let server = Server::new();
    server.user("ada", "{\"people\":\"reader\"}");
    let old = crate::support::PASSWORD;
    let new = "another long password";
    let change =
        |from: &str, to: &str| format!("ALTER CURRENT USER SET PASSWORD FROM '{from}' TO '{to}'");
    let on = |name: &str| params! { "db" => name };
    let mut ada = Driver::of(&server, "ada");
    for (database, from, to) in [("system", new, old), ("people", "wrong", new)] {
        let refused = ada.run(&change(from, to), on(database)).1;
        assert_eq!(refused.code(), "Neo.ClientError.Security.Forbidden");
        ada.reset();
    }
    for to in [old, "short"] {
        let refused = ada.run(&change(old, to), on("system")).1;
        assert_ne!(refused.code(), "success", "{to}");
        ada.reset();
    }
    assert_eq!(rows(&mut ada, "people", "RETURN 1"), [[Value::Int(1)]]);
    rows(&mut ada, "system", &change(old, new));
    // The connection belongs to the old password, as after a change over HTTP.
    assert_ne!(ada.run("RETURN 1", on("people")).1.code(), "success");
    let login = |password: &str| {
        let body = format!("{{\"user\":\"ada\",\"password\":\"{password}\"}}");
        server.client("").json("POST", "/v1/login", &body).status
    };
    assert_eq!(login(new), 200);
    assert_eq!(login(old), 401);
    let parameters = "ALTER CURRENT USER SET PASSWORD FROM $a TO $b";
    let mut admin = Driver::of(&server, "admin");
    let refused = admin.run(parameters, on("system")).1;
    assert_ne!(refused.code(), "success", "the parameters have no values");
}

/// Every user has access to `system` for reading, by every route: a route that writes or administers is refused.
#[test]
fn no_route_writes_in_system() {
    let server = Server::new();
    let reader = server.client(&server.user("ada", "{\"people\":\"reader\"}"));
    for client in [reader, server.admin()] {
        for (method, path, body) in [
            ("PUT", "buckets/b/keys/k", "1"),
            ("POST", "collections/A", "{\"_key\": 1}"),
            ("POST", "nodes", "{\"labels\": [\"A\"]}"),
            ("POST", "query", "{\"query\": \"CREATE (:A)\"}"),
            (
                "POST",
                "query",
                "{\"query\": \"CREATE INDEX i FOR (n:A) ON (n.x)\"}",
            ),
        ] {
            let path = format!("/v1/databases/system/{path}");
            let answer = client.json(method, &path, body);
            assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text());
        }
        let nodes = client.rows("system", "MATCH (n) RETURN count(n) AS n");
        assert_eq!(nodes.to_string(), "[[0]]");
    }
}

#[test]
fn transactions_are_listed_ended_and_have_metadata() {
    let server = Server::new();
    let mut driver = Driver::of(&server, "admin");
    let shown = "SHOW TRANSACTIONS YIELD database, currentQuery, status \
                 WHERE currentQuery STARTS WITH 'SHOW' RETURN database, status";
    assert_eq!(
        rows(&mut driver, "people", shown),
        [[Value::from("people"), Value::from("Running")]]
    );
    let ended = "TERMINATE TRANSACTIONS 'db-transaction-99999', 'x' YIELD transactionId, message";
    assert_eq!(
        rows(&mut driver, "people", ended),
        [
            [
                Value::from("db-transaction-99999"),
                Value::from("Transaction not found.")
            ],
            [Value::from("x"), Value::from("Transaction not found.")],
        ]
    );
    // Of the message that begins a transaction, and set later.
    let mut begin: Map = params! { "db" => "people" };
    begin.insert("tx_metadata", params! { "app" => "shop" }.into());
    driver.ask(crate::driver::BEGIN, &[begin.into()]).success();
    let get = "CALL tx.getMetaData()";
    let app = |name: &str| -> Value { params! { "app" => name }.into() };
    assert_eq!(driver.run(get, Map::new()).0, [[app("shop")]]);
    driver.run("CALL tx.setMetaData({app: 'till'})", Map::new());
    assert_eq!(driver.run(get, Map::new()).0, [[app("till")]]);
    driver.ask(crate::driver::ROLLBACK, &[]).success();
    assert_eq!(
        rows(&mut driver, "people", get),
        [[Value::from(Map::new())]]
    );
}

#[test]
fn older_versions_of_the_protocol_are_spoken() {
    let server = Server::new();
    for minor in 1..=4 {
        let mut driver = Driver::connect(server.bolt_address(), (4, minor));
        let hello = params! {
            "user_agent" => "test/1.0",
            "scheme" => "basic",
            "principal" => "admin",
            "credentials" => crate::support::PASSWORD,
        };
        driver.ask(crate::driver::HELLO, &[hello.into()]).success();
        let (rows, answer) = driver.run("RETURN 1", params! { "db" => "people" });
        assert_eq!(rows, [[Value::Int(1)]], "{answer:?}");
        if minor == 3 {
            // The database is a field of its own.
            let fields = [Map::new().into(), Value::empty_list(), "people".into()];
            let table = driver.ask(crate::driver::ROUTE, &fields).success();
            assert!(table.get("rt").is_some(), "{table:?}");
        }
        let routes = "CALL dbms.routing.getRoutingTable($context, $database)";
        let parameters = params! {
            "context" => params! { "address" => "localhost:7687" },
            "database" => "people",
        };
        let on = params! { "db" => "system" };
        let (rows, answer) = driver.run_with(routes, parameters, on);
        assert_eq!(rows.len(), 1, "{answer:?}");
        assert_eq!(rows[0][0], Value::Int(300));
    }
}

/// Neo4j's HTTP interface: name and password, its form of values, and of errors.
#[test]
fn the_query_api_answers_clients_without_bolt() {
    use serde_json::{Value as Json, json};

    let server = Server::new();
    server.user("ada", "{\"people\":\"reader\"}");
    let client = crate::support::Client::at(server.address());
    let basic = |name: &str| {
        let pair = format!("{name}:{}", crate::support::PASSWORD);
        format!("Basic {}", base64_of(pair.as_bytes()))
    };
    let ask = |name: &str, database: &str, body: Json| {
        let path = format!("/db/{database}/query/v2");
        let client = client.with("authorization", &basic(name));
        let answer = client.json("POST", &path, &body.to_string());
        (answer.status, answer.value())
    };
    let create = json!({
        "statement": "CREATE (a:A {d: date('2024-01-02'), p: point({x: 1, y: 2})})-[r:R {n: $n}]->(b:B) \
                      RETURN a, r, 1.5 AS f, duration('P1D') AS d",
        "parameters": {"n": 7},
        "includeCounters": true,
    });
    let (status, created) = ask("admin", "people", create.clone());
    assert_eq!(status, 202, "{created}");
    assert_eq!(created["data"]["fields"], json!(["a", "r", "f", "d"]));
    let row = &created["data"]["values"][0];
    assert_eq!(row[0]["labels"], json!(["A"]));
    let properties = json!({"d": "2024-01-02", "p": "SRID=7203;POINT (1.0 2.0)"});
    assert_eq!(row[0]["properties"], properties);
    assert_eq!(row[1]["type"], "R");
    assert_eq!(row[1]["properties"], json!({"n": 7}));
    assert_eq!(row[1]["startNodeElementId"], row[0]["elementId"]);
    assert_eq!((&row[2], &row[3]), (&json!(1.5), &json!("P1D")));
    assert_eq!(created["counters"]["nodesCreated"], 2);
    assert!(created["bookmarks"][0].is_string());
    let count = json!({"statement": "MATCH (n) RETURN count(n) AS n"});
    let (status, counted) = ask("ada", "neo4j", count.clone());
    assert_eq!((status, &counted["data"]["values"]), (202, &json!([[2]])));
    for (name, database, body, status, code) in [
        (
            "ada",
            "people",
            &create,
            403,
            "Neo.ClientError.Security.Forbidden",
        ),
        (
            "ada",
            "other",
            &count,
            403,
            "Neo.ClientError.Security.Forbidden",
        ),
        (
            "eve",
            "people",
            &count,
            401,
            "Neo.ClientError.Security.Unauthorized",
        ),
        (
            "ada",
            "people",
            &json!({"statement": "RETURN"}),
            400,
            "Neo.ClientError.Statement.SyntaxError",
        ),
    ] {
        let (found, answer) = ask(name, database, body.clone());
        assert_eq!(found, status, "{name} on {database}: {answer}");
        assert_eq!(answer["errors"][0]["code"], code, "{answer}");
    }
    let mut reads = create;
    reads["accessMode"] = "READ".into();
    assert_eq!(ask("admin", "people", reads).0, 403);
    let used = json!({"statement": "USE people MATCH (n:A) RETURN count(n) AS n"});
    assert_eq!(ask("ada", "system", used).1["data"]["values"], json!([[1]]));
    let (status, _) = ask("admin", "system", json!({"statement": "CREATE (:A)"}));
    assert_eq!(status, 403);
}

/// Neo4j's JDBC driver translates SQL on the client: what it sends for the kinds of statements that its documentation
/// describes. Parameters are numbered, names are quoted or not.
#[test]
fn statements_translated_from_sql_are_accepted() {
    let server = Server::new();
    let mut driver = Driver::of(&server, "admin");
    let parameters = || params! { "1" => "The Matrix", "2" => 1999, "3" => "Keanu" };
    for statement in [
        "CREATE (movie:`Movie` {title: $1, released: $2})",
        "UNWIND [{title: 'A', released: 1}, {title: 'B', released: 2}] AS properties \
         CREATE (movie:`Movie`) SET movie = properties",
        "MERGE (person:Person {name: $3}) ON CREATE SET person.born = $2 ON MATCH SET person.seen = true",
        "MATCH (p:Person), (m:Movie) WHERE p.name = $3 AND m.title = $1 \
         CREATE (p)-[:ACTED_IN {roles: ['Neo']}]->(m)",
        "MATCH (movie:Movie) RETURN elementId(movie) AS `v$id`, movie.title AS title, movie.released AS released",
        "MATCH (m:`Movie`) WHERE m.title = $1 RETURN m.title, m.released",
        "MATCH (m:Movie) WHERE (m.released >= $2 AND m.title IS NOT NULL) OR m.title =~ '.*trix.*' RETURN m.title",
        "MATCH (p:Person)-[acted_in:ACTED_IN]->(m:Movie) RETURN p.name AS name, acted_in.roles AS roles, m.title AS title",
        "MATCH (p:Person) RETURN DISTINCT p.name AS name ORDER BY p.name ASC SKIP 0 LIMIT 10",
        "MATCH (p:Person)-[:ACTED_IN]->(m:Movie) RETURN p.name, count(*) AS cnt, avg(m.released), stDev(m.released)",
        "MATCH (m:Movie) WITH m.released AS __with_col_0, count(*) AS __with_col_1 WHERE __with_col_1 > 0 \
         RETURN __with_col_0, __with_col_1 ORDER BY __with_col_1",
        "MATCH (m:Movie) RETURN CASE WHEN m.released > 1990 THEN 'new' ELSE coalesce(toUpper(m.title), trim(BOTH ' ' FROM 'x')) END AS c",
        "MATCH (m:Movie) WHERE NOT (m.title IN ['A', $1]) RETURN percentileCont(m.released, 0.5), left('abc', 2), 1 AS one",
        "MATCH (m:Movie) WHERE m.title = 'A' SET m.released = $2, m.title = 'C'",
        "MATCH (m:Movie) WHERE m.title = 'B' DELETE m",
        "MATCH (m:Movie) DETACH DELETE m",
        "RETURN 1",
        "CALL db.labels() YIELD label AS TABLE_NAME RETURN '' AS TABLE_CAT, TABLE_NAME ORDER BY TABLE_NAME",
    ] {
        let on = params! { "db" => "people" };
        let outcome = driver.run_with(statement, parameters(), on).1;
        assert_eq!(outcome.code(), "success", "{statement}: {outcome:?}");
    }
}

/// The Query API with typed JSON: what it answers can be sent as parameters.
#[test]
fn the_query_api_has_typed_values() {
    use serde_json::{Value as Json, json};

    const TYPED: &str = "application/vnd.neo4j.query";
    let server = Server::new();
    let pair = format!("admin:{}", crate::support::PASSWORD);
    let basic = format!("Basic {}", base64_of(pair.as_bytes()));
    let client = crate::support::Client::at(server.address())
        .with("authorization", &basic)
        .with("accept", TYPED);
    let path = "/db/people/query/v2";
    let scalars = "RETURN null AS a, true AS b, 7 AS c, 1.5 AS d, 'x' AS e, [1, 'y'] AS f, {k: 0.5} AS g, \
                   date('2024-01-02') AS h, time('12:00:02+01:00') AS i, localtime('12:00:01') AS j, \
                   localdatetime('2024-01-02T03:04:05') AS k, datetime('2024-01-02T03:04:05+02:00') AS l, \
                   datetime('2024-01-02T03:04:05[Europe/Rome]') AS m, duration('P1DT2S') AS n, \
                   point({x: 1, y: 2.5}) AS o, point({longitude: 1, latitude: 2, height: 3}) AS p, 0.0 / 0.0 AS q";
    let body = json!({ "statement": scalars });
    let answer = client.json("POST", path, &body.to_string());
    assert_eq!(answer.status, 202, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some(TYPED));
    let row = answer.value()["data"]["values"][0].clone();
    let typed = |kind: &str, value: Json| json!({"$type": kind, "_value": value});
    let expected = [
        typed("Null", Json::Null),
        typed("Boolean", json!(true)),
        typed("Integer", json!("7")),
        typed("Float", json!("1.5")),
        typed("String", json!("x")),
        typed(
            "List",
            json!([typed("Integer", json!("1")), typed("String", json!("y"))]),
        ),
        typed("Map", json!({"k": typed("Float", json!("0.5"))})),
        typed("Date", json!("2024-01-02")),
        typed("Time", json!("12:00:02+01:00")),
        typed("LocalTime", json!("12:00:01")),
        typed("LocalDateTime", json!("2024-01-02T03:04:05")),
        typed("OffsetDateTime", json!("2024-01-02T03:04:05+02:00")),
        typed(
            "ZonedDateTime",
            json!("2024-01-02T03:04:05+01:00[Europe/Rome]"),
        ),
        typed("Duration", json!("P1DT2S")),
        typed("Point", json!("SRID=7203;POINT (1.0 2.5)")),
        typed("Point", json!("SRID=4979;POINT Z (1.0 2.0 3.0)")),
        typed("Float", json!("NaN")),
    ];
    for (found, expected) in row.as_array().expect("a row").iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    // Sent back as parameters, they are the same values.
    let echo = json!({
        "statement": "RETURN $all AS all",
        "parameters": {"all": {"$type": "List", "_value": row}},
    });
    let typed_client = client.with("content-type", TYPED);
    let echoed = typed_client.send("POST", path, &[], echo.to_string().as_bytes());
    assert_eq!(echoed.status, 202, "{}", echoed.text());
    assert_eq!(
        echoed.value()["data"]["values"][0][0],
        typed("List", json!(expected))
    );
    let graph = "CREATE p = (:A {n: 1})-[:R {s: 'x'}]->(:B) RETURN p";
    let answer = client.json("POST", path, &json!({ "statement": graph }).to_string());
    let made = &answer.value()["data"]["values"][0][0];
    assert_eq!(made["$type"], "Path");
    let parts = &made["_value"];
    assert_eq!(parts[0]["_value"]["_labels"], json!(["A"]));
    assert_eq!(
        parts[0]["_value"]["_properties"]["n"],
        typed("Integer", json!("1"))
    );
    assert_eq!(parts[1]["$type"], "Relationship");
    assert_eq!(parts[1]["_value"]["_type"], "R");
    assert_eq!(
        parts[1]["_value"]["_start_node_element_id"],
        parts[0]["_value"]["_element_id"]
    );
    for wrong in [
        json!(1),
        json!({"$type": "Integer", "_value": 1}),
        json!({"$type": "Node", "_value": {}}),
        json!({"$type": "Point", "_value": "SRID=1;POINT (1 2)"}),
        json!({"_value": "1"}),
    ] {
        let body = json!({"statement": "RETURN $a", "parameters": {"a": wrong}});
        let refused = typed_client.send("POST", path, &[], body.to_string().as_bytes());
        assert_eq!(refused.status, 400, "{wrong}: {}", refused.text());
    }
}

fn base64_of(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let at = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            text.push(match digit <= chunk.len() {
                true => char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]),
                false => '=',
            });
        }
    }
    text
}
