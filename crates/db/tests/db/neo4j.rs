//! Procedures that Neo4j's libraries call, and the part of APOC: their rows and their effects.

use isomer_db::{Database, Value, json};

use crate::place;

/// The rows of a query as JSON.
fn rows(db: &Database, text: &str) -> Vec<String> {
    let result = db
        .query(text)
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    let row = |row: &isomer_db::Row| {
        let values: Value = row.values().iter().cloned().collect();
        json::to_string(&values).expect("JSON")
    };
    result.rows().iter().map(row).collect()
}

fn check(db: &Database, cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        assert_eq!(rows(db, text), *expected, "{text}");
    }
}

fn shop() -> Database {
    let db = place::open_empty().expect("opened");
    for text in [
        "CREATE INDEX sku FOR (n:Item) ON (n.sku)",
        "CREATE CONSTRAINT named FOR (n:Item) REQUIRE n.name IS NOT NULL",
        "CREATE (:Item {sku: 1, name: 'pen'}), (:Item:Old {sku: 2, name: 'ink', tags: ['a']}), (:Shop {open: true})",
        "MATCH (s:Shop), (i:Item) CREATE (s)-[:SELLS {price: 1.5}]->(i)",
    ] {
        db.query(text).expect(text);
    }
    db
}

#[test]
fn drivers_ask_for_the_version_and_the_schema() {
    check(
        &shop(),
        &[
            (
                "CALL dbms.components() YIELD name, versions, edition WHERE name = 'Neo4j Kernel' \
                 UNWIND versions AS version RETURN name, edition, version",
                &["[\"Neo4j Kernel\",\"community\",\"5.26.0\"]"],
            ),
            ("CALL db.ping()", &["[true]"]),
            (
                "CALL db.labels() YIELD label RETURN collect(label)",
                &["[[\"Item\",\"Old\",\"Shop\"]]"],
            ),
            ("CALL db.relationshipTypes()", &["[\"SELLS\"]"]),
            (
                "CALL db.propertyKeys() YIELD propertyKey WITH propertyKey ORDER BY propertyKey \
                 RETURN collect(propertyKey)",
                &["[[\"name\",\"open\",\"price\",\"sku\",\"tags\"]]"],
            ),
            (
                "CALL db.schema.nodeTypeProperties() YIELD nodeType, propertyName, propertyTypes, mandatory",
                &[
                    "[\":`Item`\",\"name\",[\"String\"],true]",
                    "[\":`Item`\",\"sku\",[\"Long\"],false]",
                    "[\":`Item`:`Old`\",\"name\",[\"String\"],true]",
                    "[\":`Item`:`Old`\",\"sku\",[\"Long\"],false]",
                    "[\":`Item`:`Old`\",\"tags\",[\"StringArray\"],false]",
                    "[\":`Shop`\",\"open\",[\"Boolean\"],false]",
                ],
            ),
            (
                "CALL db.schema.relTypeProperties()",
                &["[\":`SELLS`\",\"price\",[\"Double\"],false]"],
            ),
            (
                "CALL db.schema.visualization() YIELD nodes, relationships \
                 RETURN [n IN nodes | n.name] AS n, [r IN relationships | r.start + r.name + r.end] AS r",
                &["[[\"Item\",\"Old\",\"Shop\"],[\"ShopSELLSItem\",\"ShopSELLSOld\"]]"],
            ),
        ],
    );
}

/// What only a server knows is refused in a program.
#[test]
fn a_program_has_no_databases_or_users_to_list() {
    let db = shop();
    for text in [
        "SHOW DATABASES",
        "SHOW USERS",
        "SHOW CURRENT USER",
        "SHOW SETTINGS",
        "CALL dbms.listConfig()",
        "CALL tx.setMetaData({a: 1})",
    ] {
        let error = db.query(text).expect_err(text);
        assert_eq!(error.kind(), isomer_db::ErrorKind::Unsupported, "{text}");
    }
    assert_eq!(
        rows(&db, "SHOW TRANSACTIONS YIELD database, status"),
        ["[null,\"Running\"]"]
    );
    let ended = "TERMINATE TRANSACTION 'db-transaction-0' YIELD message RETURN message";
    assert_eq!(rows(&db, ended), ["[\"Transaction not found.\"]"]);
}

#[test]
fn records_are_made_of_values() {
    let db = shop();
    check(
        &db,
        &[
            (
                "CALL apoc.create.node(['A', 'B'], {x: 1}) YIELD node RETURN labels(node), node.x",
                &["[[\"A\",\"B\"],1]"],
            ),
            (
                "CALL apoc.create.nodes(['A'], [{x: 2}, {x: 3}]) YIELD node RETURN node.x",
                &["[2]", "[3]"],
            ),
            (
                "MATCH (a:A {x: 2}), (b:A {x: 3}) CALL apoc.create.relationship(a, 'TO', {y: 1}, b) YIELD rel \
                 RETURN type(rel), rel.y, startNode(rel).x",
                &["[\"TO\",1,2]"],
            ),
            (
                "MATCH (a:A {x: 2}) CALL apoc.create.addLabels(a, ['C']) YIELD node RETURN labels(node)",
                &["[[\"A\",\"C\"]]"],
            ),
            (
                "MATCH (a:A {x: 2}) CALL apoc.create.setLabels([a], ['A', 'D']) YIELD node RETURN labels(node)",
                &["[[\"A\",\"D\"]]"],
            ),
            (
                "MATCH (a:D) CALL apoc.create.removeLabels(a, ['D']) YIELD node RETURN labels(node)",
                &["[[\"A\"]]"],
            ),
            (
                "MATCH (a:A {x: 2}) CALL apoc.create.setProperty(a, 'z', 9) YIELD node RETURN node.z",
                &["[9]"],
            ),
            (
                "MATCH (a:A {x: 2}) CALL apoc.create.setProperties(a, ['z', 'w'], [null, 1]) YIELD node \
                 RETURN node.z, node.w",
                &["[null,1]"],
            ),
            (
                "MATCH (a:A {x: 2}) CALL db.create.setNodeVectorProperty(a, 'v', [1, 2.5]) RETURN a.v",
                &["[[1.0,2.5]]"],
            ),
            ("MATCH (n:A) RETURN count(n)", &["[3]"]),
        ],
    );
    let made =
        db.query("CALL apoc.create.node(['A', 'B'], {x: 1, y: null}) YIELD node RETURN node");
    let made = *made.expect("created").counters();
    assert_eq!(
        (made.nodes_created, made.labels_added, made.properties_set),
        (1, 2, 1)
    );
    // A scan does not see what the procedure creates for earlier rows.
    let copied = "MATCH (a:A) CALL apoc.create.node(['A'], {x: a.x}) YIELD node RETURN count(node)";
    assert_eq!(rows(&db, copied), ["[4]"]);
    for text in [
        "CALL apoc.create.node([''], {}) YIELD node RETURN node",
        "CALL apoc.create.addLabels([1], ['A']) YIELD node RETURN node",
        "CALL apoc.create.nodes(['A'], [1]) YIELD node RETURN node",
        "MATCH (a:A {x: 2}) CALL apoc.create.setProperties(a, ['z', 'w'], [1]) YIELD node RETURN node",
        "MATCH (a:A {x: 2}) CALL db.create.setNodeVectorProperty(a, 'v', ['x']) RETURN a.v",
    ] {
        assert!(db.query(text).is_err(), "{text}");
    }
}

/// A second merge with the same identity finds the first: by `_key`, by an index, and without one.
#[test]
fn merges_find_what_they_made() {
    let db = shop();
    for (identity, label) in [
        ("_key: 'k'", "Plain"),
        ("sku: 7, name: 'x'", "Item"),
        ("y: 1", "Plain"),
    ] {
        let merge = format!(
            "CALL apoc.merge.node(['{label}'], {{{identity}}}, {{made: 1}}, {{found: 1}}) YIELD node \
             RETURN node.made, node.found"
        );
        assert_eq!(rows(&db, &merge), ["[1,null]"], "{merge}");
        assert_eq!(rows(&db, &merge), ["[1,1]"], "{merge}");
    }
    let merge = "MATCH (a:Plain {y: 1}), (b:Item {sku: 7}) \
                 CALL apoc.merge.relationship(a, 'TO', {id: 1}, {made: 1}, b, {found: 1}) YIELD rel \
                 RETURN type(rel), rel.id, rel.made, rel.found";
    assert_eq!(rows(&db, merge), ["[\"TO\",1,1,null]"]);
    assert_eq!(rows(&db, merge), ["[\"TO\",1,1,1]"]);
    assert_eq!(rows(&db, "MATCH ()-[r:TO]->() RETURN count(r)"), ["[1]"]);
    for identity in ["{x: null}", "{}"] {
        let merge = format!("CALL apoc.merge.node(['A'], {identity}) YIELD node RETURN node");
        assert!(db.query(&*merge).is_err(), "{merge}");
    }
}

#[test]
fn the_schema_of_the_data_is_described() {
    check(
        &shop(),
        &[
            (
                "CALL apoc.meta.data() YIELD label, other, elementType, type, property \
                 WHERE NOT type = 'RELATIONSHIP' AND elementType = 'node' \
                 WITH label, property, type ORDER BY label, property \
                 RETURN label, collect(property + ':' + type) AS properties ORDER BY label",
                &[
                    "[\"Item\",[\"name:STRING\",\"sku:INTEGER\",\"tags:LIST\"]]",
                    "[\"Old\",[\"name:STRING\",\"sku:INTEGER\",\"tags:LIST\"]]",
                    "[\"Shop\",[\"open:BOOLEAN\"]]",
                ],
            ),
            (
                "CALL apoc.meta.data({sample: -1}) YIELD label, other, elementType, type, property, count \
                 WHERE type = 'RELATIONSHIP' AND elementType = 'node' RETURN label, property, count, other",
                &["[\"Shop\",\"SELLS\",2,[\"Item\",\"Old\"]]"],
            ),
            (
                "CALL apoc.meta.data() YIELD label, elementType, property, type \
                 WHERE elementType = 'relationship' RETURN label, property, type",
                &["[\"SELLS\",\"price\",\"FLOAT\"]"],
            ),
            (
                "CALL apoc.meta.schema() YIELD value RETURN value.Item.properties.sku.indexed AS i, \
                 value.Item.properties.name.existence AS e, value.Shop.relationships.SELLS.direction AS d, \
                 value.SELLS.count AS c",
                &["[true,true,\"out\",2]"],
            ),
            (
                "CALL apoc.meta.stats() YIELD labels, relTypes, nodeCount, relCount \
                 RETURN labels.Item, relTypes['(:Shop)-[:SELLS]->()'], nodeCount, relCount",
                &["[2,2,3,2]"],
            ),
        ],
    );
    assert!(shop().query("CALL apoc.meta.data({sample: 0})").is_err());
}

#[test]
fn the_schema_is_described_as_a_graph() {
    check(
        &shop(),
        &[
            (
                "CALL apoc.meta.graph() YIELD nodes, relationships \
                 RETURN [n IN nodes | n.name + ' ' + n.count] AS n, \
                 [r IN relationships | apoc.any.property(r, 'type') + ' ' + r.start + ' ' + r.end + ' ' + r.count] AS r",
                &[
                    "[[\"Item 2\",\"Old 1\",\"Shop 1\"],[\"SELLS Shop Item 2\",\"SELLS Shop Old 1\"]]",
                ],
            ),
            (
                "CALL apoc.meta.subGraph({labels: ['Item', 'Shop'], excludes: ['Item']}) YIELD nodes, relationships \
                 RETURN [n IN nodes | n.name] AS n, size(relationships) AS r",
                &["[[\"Shop\"],0]"],
            ),
            (
                "CALL apoc.schema.nodes() YIELD label, properties, type, size, valuesSelectivity WHERE type = 'RANGE' \
                 RETURN label, properties, size * valuesSelectivity AS values",
                &["[\"Item\",[\"sku\"],2.0]"],
            ),
            (
                "CALL apoc.schema.properties.distinct('Item', 'name') YIELD value RETURN value",
                &["[[\"pen\",\"ink\"]]"],
            ),
            (
                "CALL apoc.schema.properties.distinct('None', 'name') YIELD value RETURN value",
                &["[[]]"],
            ),
            (
                "MATCH (i:Item {sku: 2}) WITH apoc.meta.cypher.types(properties(i)) AS t RETURN t.name, t.sku, t.tags",
                &["[\"STRING\",\"INTEGER\",\"LIST OF STRING\"]"],
            ),
            (
                "RETURN apoc.meta.cypher.type([1, 'a']) AS mixed, apoc.meta.cypher.type({}) AS map, \
                 apoc.meta.cypher.type(null) AS nothing",
                &["[\"LIST OF ANY\",\"MAP\",\"NULL\"]"],
            ),
        ],
    );
}

#[test]
fn nodes_are_merged() {
    let db = Database::open_in_memory().expect("opened");
    for text in [
        "CREATE CONSTRAINT FOR (n:P) REQUIRE n.id IS UNIQUE",
        "CREATE (a:P {id: 1, x: 'a'}), (b:P:Q {id: 2, x: 'b', y: 1}), (c:P {id: 3, z: [1]}), (t:T), \
         (a)-[:R {w: 1}]->(t), (b)-[:R {w: 2, v: 3}]->(t), (t)-[:S]->(c), (b)-[:L]->(c)",
    ] {
        db.query(text).expect(text);
    }
    let merge = |config: &str| {
        format!(
            "MATCH (n:P) WITH n ORDER BY n.id WITH collect(n) AS nodes CALL apoc.refactor.mergeNodes(nodes, {config}) \
             YIELD node RETURN labels(node) AS l, node.id AS id, node.x AS x, node.y AS y, node.z AS z"
        )
    };
    // The transaction that is rolled back shows what each option does.
    let tried = |config: &str, then: &str| {
        let tx = db.begin().expect("begun");
        let result = tx.query(merge(config).as_str()).expect(config);
        let merged: Value = result.rows()[0].values().iter().cloned().collect();
        let result = tx.query(then).expect(then);
        let then: Value = result.rows()[0].values().iter().cloned().collect();
        tx.rollback();
        let text = |value: &Value| json::to_string(value).expect("JSON");
        format!("{} {}", text(&merged), text(&then))
    };
    let relationships = "MATCH (p:P)-[r]-() WITH DISTINCT r ORDER BY type(r), r.w \
                         RETURN collect(type(r) + coalesce(r.w, '') + coalesce(r.v, '')) AS r";
    assert_eq!(
        tried("{properties: 'discard', mergeRels: true}", relationships),
        "[[\"P\",\"Q\"],1,\"a\",1,[1]] [[\"L\",\"R13\",\"S\"]]"
    );
    assert_eq!(
        tried("{}", relationships),
        "[[\"P\",\"Q\"],3,\"b\",1,[1]] [[\"L\",\"R1\",\"R23\",\"S\"]]"
    );
    assert_eq!(
        tried(
            "{properties: {`.*`: 'combine'}, produceSelfRel: false}",
            relationships
        ),
        "[[\"P\",\"Q\"],[1,2,3],[\"a\",\"b\"],1,[1]] [[\"R1\",\"R23\",\"S\"]]"
    );
    let error = |config: &str| {
        let refused = db.query(merge(config).as_str());
        refused.expect_err(config).to_string()
    };
    assert!(error("{properties: 'mix'}").contains("expected 'override'"));
    assert!(error("{colour: 1}").contains("unknown option `colour`"));
    assert_eq!(rows(&db, "MATCH (n:P) RETURN count(n)"), ["[3]"]);
    assert_eq!(
        rows(
            &db,
            "CALL apoc.refactor.mergeNodes([]) YIELD node RETURN node"
        ),
        [""; 0]
    );
}

#[test]
fn subgraphs_are_searched_breadth_first() {
    let db = Database::open_in_memory().expect("opened");
    db.query(
        "CREATE (a:A {n: 1})-[:R]->(b:B {n: 2})-[:R]->(c:A {n: 3})-[:S]->(d:A:X {n: 4}), (e:A {n: 5})-[:R]->(a), \
         (c)-[:S]->(c), (b)-[:S]->(a)",
    )
    .expect("created");
    let reached = |config: &str| {
        let text = format!(
            "MATCH (a:A {{n: 1}}) CALL apoc.path.subgraphNodes(a, {config}) YIELD node \
             WITH node.n AS n ORDER BY n RETURN collect(n) AS n"
        );
        rows(&db, &text).remove(0)
    };
    for (config, expected) in [
        ("{}", "[[1,2,3,4,5]]"),
        ("{maxLevel: 1}", "[[1,2,5]]"),
        ("{maxLevel: 0}", "[[1]]"),
        ("{maxLevel: 1, minLevel: 1}", "[[2,5]]"),
        ("{relationshipFilter: 'R>'}", "[[1,2,3]]"),
        ("{relationshipFilter: '<R'}", "[[1,5]]"),
        ("{relationshipFilter: 'R>|S>'}", "[[1,2,3,4]]"),
        ("{relationshipFilter: '>'}", "[[1,2,3,4]]"),
        ("{relationshipFilter: 'NONE'}", "[[1]]"),
        ("{labelFilter: '-B'}", "[[1,5]]"),
        ("{labelFilter: '+A|+B|-X'}", "[[1,2,3,5]]"),
        ("{labelFilter: 'B'}", "[[1,2]]"),
        ("{labelFilter: 'B', filterStartNode: true}", "[[]]"),
        ("{limit: 1}", "[[1]]"),
        ("null", "[[1,2,3,4,5]]"),
    ] {
        assert_eq!(reached(config), expected, "{config}");
    }
    let all = "MATCH (a:A {n: 1}) CALL apoc.path.subgraphAll(a, {relationshipFilter: 'R>', bfs: true}) \
               YIELD nodes, relationships RETURN size(nodes) AS n, size(relationships) AS r";
    assert_eq!(
        rows(&db, all),
        ["[3,4]"],
        "those of other types between them as well"
    );
    for config in [
        "{maxLevel: 'x'}",
        "{labelFilter: '/A'}",
        "{uniqueness: 'NONE'}",
        "{relationshipFilter: '<R>'}",
    ] {
        let text =
            format!("MATCH (a:A) CALL apoc.path.subgraphNodes(a, {config}) YIELD node RETURN node");
        assert!(db.query(text.as_str()).is_err(), "{config}");
    }
}

#[test]
fn language_around_queries() {
    let db = shop();
    check(
        &db,
        &[
            ("CYPHER 5 MATCH (n:Item) RETURN count(n)", &["[2]"]),
            ("MATCH (n:Item) FINISH", &[]),
            ("INSERT (:New {x: 1})-[:TO]->(:New {x: 2}) FINISH", &[]),
            ("MATCH (n:New) RETURN count(n)", &["[2]"]),
            ("RETURN trim(BOTH 'x' FROM 'xax') AS t", &["[\"a\"]"]),
            (
                "CALL apoc.util.validate(false, 'no', []) RETURN 1",
                &["[1]"],
            ),
        ],
    );
    let refused = db.query("CALL apoc.util.validate(true, 'not %s', ['ok'])");
    let refused = refused.expect_err("the predicate holds").to_string();
    assert!(refused.contains("not ok"), "{refused}");
    let read = isomer_db::QueryOptions::new().allow(isomer_db::StatementClass::Read);
    let finished = isomer_db::Query::new("MATCH (n:Item) FINISH").options(&read);
    assert!(db.query(finished).expect("it reads").is_empty());
}

#[test]
fn explain_needs_no_parameters() {
    let db = Database::open_in_memory().expect("in memory");
    let query = "MATCH (n:A {x: $x}) WHERE n.y > $y RETURN n LIMIT $limit";
    let explained = db.query(&format!("EXPLAIN {query}")).expect("a plan");
    assert!(explained.plan().is_some_and(|plan| plan.contains("$x")));
    assert!(db.query(query).is_err(), "the parameters are missing");
}

#[test]
fn temporal_functions_name_their_types() {
    let db = Database::open_in_memory().expect("in memory");
    let query = "SHOW FUNCTIONS YIELD name, returnDescription \
                 WHERE name IN ['date', 'datetime.truncate', 'localtime', 'duration.between'] \
                 RETURN name, returnDescription ORDER BY name";
    assert_eq!(
        rows(&db, query),
        [
            "[\"date\",\"DATE\"]",
            "[\"datetime.truncate\",\"ZONED DATETIME\"]",
            "[\"duration.between\",\"DURATION\"]",
            "[\"localtime\",\"LOCAL TIME\"]",
        ]
    );
}

/// A replacement that repeats a group for each character must not take all memory.
#[test]
fn texts_of_regular_expressions_are_bounded() {
    let db = Database::open_in_memory().expect("in memory");
    let replaced = "RETURN apoc.text.replace('a1b2', '([a-z])([0-9])', '$2$1') AS t";
    assert_eq!(rows(&db, replaced), ["[\"1a2b\"]"]);
    for query in [
        "WITH apoc.text.repeat('a', 100000) AS t \
         RETURN size(apoc.text.replace(t, '(.)', apoc.text.repeat('$1', 10000)))",
        "WITH apoc.text.repeat('a', 2000000) AS t RETURN size(apoc.text.regexGroups(t, '((((.))))'))",
    ] {
        let error = db.query(query).expect_err(query);
        assert!(error.to_string().contains("bytes are more than"), "{error}");
    }
}
