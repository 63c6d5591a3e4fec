//! Graphs in memory, `gds.*`: what a projection holds, what algorithms return, and how long it lives.

use isomer_db::{Database, ErrorKind, MemoryKind, Query, QueryResult, StatementClass, Value, json};

use crate::place;

/// Two groups of three people that one friendship joins, and a person on their own.
fn database() -> Database {
    let db = place::open_empty().unwrap();
    db.query(
        "CREATE (a:P {n: 1}), (b:P {n: 2}), (c:P {n: 3}), (d:P {n: 4}), (e:P {n: 5}), (f:P {n: 6}), (:P:Q {n: 7}), \
         (a)-[:T {w: 1}]->(b), (b)-[:T {w: 1}]->(c), (a)-[:T {w: 5}]->(c), (c)-[:U {w: 2}]->(d), \
         (d)-[:T {w: 1}]->(e), (e)-[:T {w: 1}]->(f), (d)-[:T]->(f)",
    )
    .unwrap();
    db
}

/// The rows of a result: cells as JSON, separated by spaces.
fn shown(result: &QueryResult) -> Vec<String> {
    let rows = result.iter().map(|row| {
        let cells = row
            .values()
            .iter()
            .map(|value| json::to_string(value).unwrap());
        cells.collect::<Vec<_>>().join(" ")
    });
    rows.collect()
}

fn rows(db: &Database, text: &str) -> Vec<String> {
    let result = db.query(text);
    shown(&result.unwrap_or_else(|error| panic!("{text}: {error}")))
}

fn error(db: &Database, text: &str) -> String {
    db.query(text).expect_err(text).to_string()
}

const DIJKSTRA: &str = "MATCH (a:P {n: 1}), (f:P {n: $to}) CALL gds.shortestPath.dijkstra.stream('g', \
    {sourceNode: a, targetNode: f, relationshipWeightProperty: 'w'}) \
    YIELD index, totalCost, nodeIds, costs, path \
    RETURN index, totalCost, [id IN nodeIds | gds.util.asNode(id).n] AS nodes, costs, \
    [n IN nodes(path) | n.n] AS walk, \
    length(path) AS steps";

#[test]
fn a_native_projection_has_labels_types_directions_and_properties() {
    let db = database();
    let made = "YIELD graphName, nodeCount, relationshipCount RETURN graphName, nodeCount, relationshipCount";
    let project = |name: &str, arguments: &str| {
        rows(
            &db,
            &format!("CALL gds.graph.project('{name}', {arguments}) {made}"),
        )
    };
    assert_eq!(project("all", "'*', '*'"), ["\"all\" 7 7"]);
    assert_eq!(project("one", "['P'], ['T', 'U']"), ["\"one\" 7 7"]);
    assert_eq!(project("few", "'Q', 'T'"), ["\"few\" 1 0"]);
    assert_eq!(
        project("both", "'P', {X: {type: 'T', orientation: 'UNDIRECTED'}}"),
        ["\"both\" 7 12"]
    );
    assert_eq!(
        project(
            "g",
            "'P', {T: {properties: {w: {property: 'w', defaultValue: 9}}}, U: {properties: 'w'}}"
        ),
        ["\"g\" 7 7"]
    );
    let path = |to: i64| shown(&db.query(Query::new(DIJKSTRA).param("to", to)).unwrap());
    assert_eq!(
        path(6),
        ["0 6.0 [1,2,3,4,5,6] [0.0,1.0,2.0,4.0,5.0,6.0] [1,2,3,4,5,6] 5"]
    );
    assert_eq!(path(7), [""; 0]);
    assert_eq!(path(1), ["0 0.0 [1] [0.0] [1] 0"]);
    let walk = "MATCH (a:P {n: 1}), (c:P {n: 3}) CALL gds.shortestPath.dijkstra.stream('g', \
        {sourceNode: a, targetNode: c, relationshipWeightProperty: 'w'}) YIELD path RETURN path";
    let found = db.query(walk).unwrap();
    let Value::Path(path) = &found.rows()[0].values()[0] else {
        panic!("{found:?}");
    };
    let steps = path
        .relationships
        .iter()
        .map(|one| one.content.as_ref().unwrap());
    let steps: Vec<_> = steps
        .map(|one| (&*one.type_name, one.properties.get("cost")))
        .collect();
    assert_eq!(steps, [("PATH_0", Some(&Value::Float(1.0))); 2]);
    // Part of it: without the relationship in the middle there is no way.
    let within = "MATCH (a:P {n: 1}), (f:P {n: 6}) CALL gds.shortestPath.dijkstra.stream('g', \
        {sourceNode: a, targetNode: f, relationshipTypes: ['T']}) YIELD totalCost RETURN totalCost";
    assert_eq!(rows(&db, within), [""; 0]);
    assert_eq!(
        rows(
            &db,
            "CALL gds.graph.list() YIELD graphName, nodeCount RETURN graphName, nodeCount ORDER BY graphName"
        ),
        [
            "\"all\" 7",
            "\"both\" 7",
            "\"few\" 1",
            "\"g\" 7",
            "\"one\" 7"
        ]
    );
}

#[test]
fn a_cypher_projection_computes_its_weights() {
    let db = database();
    let text = "CALL gds.graph.project.cypher('g', \
        'MATCH (p:P) WHERE p.n < $below RETURN id(p) AS id, labels(p) AS labels', \
        'MATCH (a:P)-[t:T|U]-(b:P) RETURN id(a) AS source, id(b) AS target, \
        type(t) AS type, 1.0 / coalesce(t.w, 1) AS w', \
        {parameters: {below: 7}}) YIELD nodeCount, relationshipCount RETURN nodeCount, relationshipCount";
    assert_eq!(rows(&db, text), ["6 14"]);
    let costs = rows(
        &db,
        "MATCH (a:P {n: 1}), (c:P {n: 3}) CALL gds.shortestPath.dijkstra.stream('g', \
         {sourceNode: id(a), targetNode: id(c), relationshipWeightProperty: 'w'}) YIELD totalCost, nodeIds \
         RETURN totalCost, size(nodeIds)",
    );
    assert_eq!(costs, ["0.2 2"]);
    assert!(error(&db, text).contains("already exists"));
    // A graph of one call, in the older form.
    let anonymous = "MATCH (a:P {n: 1}), (c:P {n: 3}) CALL gds.shortestPath.dijkstra.stream({ \
        nodeQuery: 'MATCH (p:P) RETURN id(p) AS id', \
        relationshipQuery: 'MATCH (a:P)-[t:T]->(b:P) RETURN id(a) AS source, id(b) AS target, t.w AS w', \
        sourceNode: a, targetNode: c}) YIELD totalCost RETURN totalCost";
    assert_eq!(rows(&db, anonymous), ["1.0"]);
}

#[test]
fn algorithms_return_what_the_library_does() {
    let db = database();
    db.query("CALL gds.graph.project('g', '*', {ALL: {type: '*', orientation: 'UNDIRECTED'}})")
        .unwrap();
    db.query("CALL gds.graph.project('d', '*', '*')").unwrap();
    let stream = |call: &str, column: &str| {
        rows(
            &db,
            &format!(
                "CALL {call} YIELD nodeId, {column} RETURN gds.util.asNode(nodeId).n AS n, {column} AS x ORDER BY n"
            ),
        )
    };
    assert_eq!(
        stream("gds.triangleCount.stream('g')", "triangleCount"),
        ["1 1", "2 1", "3 1", "4 1", "5 1", "6 1", "7 0"]
    );
    assert_eq!(
        stream("gds.betweenness.stream('g')", "score"),
        [
            "1 0.0", "2 0.0", "3 6.0", "4 6.0", "5 0.0", "6 0.0", "7 0.0"
        ]
    );
    assert_eq!(
        rows(
            &db,
            "CALL gds.wcc.stats('d') YIELD componentCount, componentDistribution AS d \
             RETURN componentCount, d.max, d.min"
        ),
        ["2 6.0 1.0"]
    );
    assert_eq!(
        rows(
            &db,
            "CALL gds.triangleCount.stats('g') YIELD globalTriangleCount AS n, nodeCount RETURN n, nodeCount"
        ),
        ["2 7"]
    );
    let communities = "CALL gds.louvain.stats('g') YIELD communityCount, modularity \
        RETURN communityCount, round(modularity, 6)";
    // 7 relationships, 6 within two groups whose ends have 7 each: 6/7 - 2 · (7/14)².
    assert_eq!(rows(&db, communities), ["3 0.357143"]);
    let written = "CALL gds.louvain.write('g', {writeProperty: 'group'}) YIELD nodePropertiesWritten AS n RETURN n";
    assert_eq!(rows(&db, written), ["7"]);
    assert_eq!(
        rows(
            &db,
            "MATCH (p:P) WITH p.group AS g, p.n AS n ORDER BY n WITH g, collect(n) AS x RETURN x ORDER BY x"
        ),
        ["[1,2,3]", "[4,5,6]", "[7]"]
    );
    // Only the node on its own has a vector of zeros.
    let embedded = rows(
        &db,
        "CALL gds.fastRP.stream('g', {embeddingDimension: 8, iterationWeights: [1]}) YIELD nodeId, embedding \
         WITH gds.util.asNode(nodeId).n AS n, embedding ORDER BY n WITH collect(embedding) AS all \
         RETURN size(all[0]), all[0] = all[1], all[6] = [x IN all[6] | 0.0], all[4] = all[5]",
    );
    assert_eq!(embedded, ["8 false true false"]);
    let seeded = |seed: u8| {
        rows(
            &db,
            &format!(
                "CALL gds.fastRP.stream('g', {{embeddingDimension: 8, randomSeed: {seed}}}) \
                 YIELD nodeId, embedding RETURN embedding ORDER BY nodeId"
            ),
        )
    };
    assert_eq!(seeded(1), seeded(1));
    assert_ne!(seeded(1), seeded(2));
    // Nothing flows into nodes 1 and 7; node 2 gets half of what node 1 has.
    let ranks = rows(
        &db,
        "CALL gds.pageRank.stream('d') YIELD nodeId, score WITH gds.util.asNode(nodeId).n AS n, score \
         WHERE n IN [1, 2, 7] RETURN n, round(score, 6) ORDER BY n",
    );
    assert_eq!(ranks, ["1 0.15", "2 0.21375", "7 0.15"]);
    assert_eq!(
        rows(
            &db,
            "CALL gds.pageRank.stats('d') YIELD ranIterations, didConverge RETURN ranIterations, didConverge"
        ),
        ["7 true"]
    );
}

#[test]
fn the_aggregation_projects_a_relationship_per_row() {
    let db = database();
    let made = rows(
        &db,
        "MATCH (a:P) OPTIONAL MATCH (a)-[t:T]->(b) \
         WITH gds.graph.project('g', a, b, { \
             sourceNodeLabels: labels(a), targetNodeLabels: true, \
             sourceNodeProperties: a {.n}, targetNodeProperties: b {.n}, \
             relationshipType: type(t), relationshipProperties: t {.w}}, \
             {undirectedRelationshipTypes: ['T']}) AS g \
         RETURN g.graphName, g.nodeCount, g.relationshipCount, keys(g)",
    );
    let fields =
        "[\"configuration\",\"graphName\",\"nodeCount\",\"projectMillis\",\"relationshipCount\"]";
    assert_eq!(made, [format!("\"g\" 7 12 {fields}")]);
    let triangles = "CALL gds.triangleCount.stats('g') YIELD globalTriangleCount AS n RETURN n";
    assert_eq!(rows(&db, triangles), ["2"]);
    assert_eq!(
        rows(
            &db,
            "CALL gds.graph.nodeProperties.stream('g', ['n'], ['Q'], {listNodeLabels: true}) \
             YIELD nodeProperty, propertyValue, nodeLabels RETURN nodeProperty, propertyValue, nodeLabels"
        ),
        ["\"n\" 7 [\"P\",\"Q\"]"]
    );
    // One graph per group, of ids that are no nodes.
    let groups = rows(
        &db,
        "UNWIND [['x', 1, 2], ['y', 2, 3], ['x', 2, 40]] AS e WITH e[0] AS name, e[1] AS a, e[2] AS b \
         WITH name, gds.graph.project(name, a, b) AS g RETURN name, g.nodeCount, g.relationshipCount ORDER BY name",
    );
    assert_eq!(groups, ["\"x\" 3 2", "\"y\" 2 1"]);
    // Without rows, no graph is made.
    assert_eq!(
        rows(
            &db,
            "MATCH (a:None) RETURN gds.graph.project('none', a, null)"
        ),
        ["null"]
    );
    assert_eq!(
        rows(
            &db,
            "CALL gds.graph.list() YIELD graphName AS g RETURN collect(g)"
        ),
        ["[\"g\",\"x\",\"y\"]"]
    );
}

#[test]
fn properties_of_nodes_are_projected_computed_and_written() {
    let db = database();
    db.query("MATCH (p:P) WHERE p.n < 3 SET p.score = p.n, p.v = [1.5, p.n]")
        .unwrap();
    db.query(
        "CALL gds.graph.project('g', {P: {properties: {score: {defaultValue: 9}, v: 'v'}}, Q: {}}, '*', \
         {nodeProperties: 'n'})",
    )
    .unwrap();
    let stream = |property: &str| {
        rows(
            &db,
            &format!(
                "CALL gds.graph.nodeProperty.stream('g', '{property}') YIELD nodeId, propertyValue \
                 RETURN gds.util.asNode(nodeId).n AS n, propertyValue ORDER BY n"
            ),
        )
    };
    assert_eq!(
        stream("score"),
        ["1 1", "2 2", "3 9", "4 9", "5 9", "6 9", "7 9"]
    );
    assert_eq!(stream("v"), ["1 [1.5,1]", "2 [1.5,2]"]);
    let mutated = "CALL gds.wcc.mutate('g', {mutateProperty: 'group', nodeLabels: ['P']}) \
        YIELD mutateMillis, nodePropertiesWritten, componentCount RETURN nodePropertiesWritten, componentCount";
    assert_eq!(rows(&db, mutated), ["7 2"]);
    assert!(error(&db, mutated).contains("have a property `group` already"));
    assert_eq!(
        stream("group"),
        ["1 0", "2 0", "3 0", "4 0", "5 0", "6 0", "7 1"]
    );
    for algorithm in ["betweenness", "louvain", "pageRank"] {
        let text = format!(
            "CALL gds.{algorithm}.mutate('g', {{mutateProperty: '{algorithm}'}}) \
             YIELD nodePropertiesWritten AS n, configuration AS c RETURN n, c.mutateProperty"
        );
        assert_eq!(rows(&db, &text), [format!("7 \"{algorithm}\"")]);
    }
    // Nothing is in the database until it is written.
    assert_eq!(rows(&db, "MATCH (p:P) RETURN count(p.group) AS n"), ["0"]);
    let written = "CALL gds.graph.nodeProperties.write('g', ['n', {group: 'part'}], 'Q') \
        YIELD graphName, nodeProperties, propertiesWritten RETURN graphName, nodeProperties, propertiesWritten";
    assert_eq!(rows(&db, written), ["\"g\" [\"n\",\"part\"] 2"]);
    assert_eq!(rows(&db, "MATCH (p:P) WHERE p.part = 1 RETURN p.n"), ["7"]);
    let schema = "CALL gds.graph.list('g') YIELD schema, creationTime, modificationTime \
        RETURN keys(schema.nodes.P), creationTime < modificationTime";
    assert_eq!(
        rows(&db, schema),
        ["[\"betweenness\",\"group\",\"louvain\",\"n\",\"pageRank\",\"score\",\"v\"] true"]
    );
    let dropped = "CALL gds.graph.nodeProperties.drop('g', ['group']) YIELD propertiesRemoved RETURN propertiesRemoved";
    assert_eq!(rows(&db, dropped), ["7"]);
    assert!(error(&db, dropped).contains("no property `group`"));
    assert_eq!(
        rows(
            &db,
            "CALL gds.version() YIELD gdsVersion RETURN gdsVersion = gds.version()"
        ),
        ["true"]
    );
}

#[test]
fn a_projection_is_a_copy_of_its_moment_and_counts_in_the_budget() {
    let db = database();
    let used = || db.memory().unwrap().usage(MemoryKind::Queries).used_bytes;
    let before = used();
    db.query("CALL gds.graph.project('g', '*', '*')").unwrap();
    assert!(used() > before);
    db.query("MATCH (p:P {n: 1}) DETACH DELETE p").unwrap();
    db.query("CREATE (:P {n: 8})").unwrap();
    let count = "CALL gds.wcc.stream('g') YIELD nodeId RETURN count(nodeId) AS n";
    assert_eq!(rows(&db, count), ["7"]);
    // A node that is gone is not written.
    let written =
        "CALL gds.wcc.write('g', {writeProperty: 'c'}) YIELD nodePropertiesWritten AS n RETURN n";
    assert_eq!(rows(&db, written), ["6"]);
    // What a transaction has written and not committed is projected too.
    let tx = db.begin().unwrap();
    tx.query("CREATE (:P {n: 9})").unwrap();
    tx.query("CALL gds.graph.project('own', '*', '*')").unwrap();
    tx.rollback();
    let listed = "CALL gds.graph.list('own') YIELD nodeCount RETURN nodeCount";
    assert_eq!(rows(&db, listed), ["8"]);
    let exists = "CALL gds.graph.exists('g') YIELD exists RETURN exists";
    assert_eq!(rows(&db, exists), ["true"]);
    assert_eq!(
        rows(
            &db,
            "CALL gds.graph.drop(['g', 'own']) YIELD graphName RETURN graphName"
        ),
        ["\"g\"", "\"own\""]
    );
    assert_eq!(rows(&db, exists), ["false"]);
    assert_eq!(
        rows(
            &db,
            "CALL gds.graph.drop('g', false) YIELD graphName RETURN graphName"
        ),
        [""; 0]
    );
    assert_eq!(used(), before);
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let db = database();
    db.query("CALL gds.graph.project('g', '*', {ALL: {type: '*', properties: 'w'}})")
        .unwrap();
    db.query("MATCH (p:P {n: 1}) SET p.text = 'a'").unwrap();
    for (text, part) in [
        (
            "CALL gds.graph.project('h', 'P', 'T', {nodeProperties: 'text'})",
            "`text`",
        ),
        (
            "CALL gds.graph.nodeProperty.stream('g', 'rank')",
            "no property `rank`",
        ),
        (
            "CALL gds.wcc.mutate('g', {})",
            "`mutateProperty` is missing",
        ),
        (
            "MATCH (a:P)-->(b) RETURN gds.graph.project('g', a, b)",
            "already exists",
        ),
        (
            "MATCH (a:P)-->(b) RETURN gds.graph.project('h', a.n = 0, b)",
            "`sourceNode` is a node or its id",
        ),
        (
            "MATCH (a:P)-->(b) RETURN gds.graph.project('h', a, b, {relationshipKind: 'T'})",
            "`relationshipKind`",
        ),
        ("CALL gds.graph.project('h', 'Missing', 'T')", "`Missing`"),
        ("CALL gds.graph.project('h', 'P', 'Nothing')", "`Nothing`"),
        (
            "CALL gds.graph.project('h', 'P', {T: {orientation: 'SIDEWAYS'}})",
            "orientation",
        ),
        ("CALL gds.graph.project('g', 'P', 'T')", "already exists"),
        ("CALL gds.wcc.stream('absent')", "`absent` does not exist"),
        ("CALL gds.graph.drop('absent')", "`absent` does not exist"),
        ("CALL gds.wcc.stream('g', {threshold: 1})", "`threshold`"),
        (
            "CALL gds.wcc.stream('g', {nodeLabels: ['Q']})",
            "no label `Q`",
        ),
        ("CALL gds.triangleCount.stream('g')", "UNDIRECTED"),
        ("CALL gds.wcc.write('g', {})", "`writeProperty` is missing"),
        (
            "CALL gds.pageRank.stream('g', {relationshipWeightProperty: 'w'})",
            "NaN in `w`",
        ),
        (
            "CALL gds.pageRank.stream('g', {relationshipWeightProperty: 'v'})",
            "no property `v`",
        ),
        (
            "CALL gds.graph.project.cypher('h', 'CREATE (p:P) RETURN id(p) AS id', 'RETURN 1')",
            "only reads",
        ),
        (
            "CALL gds.graph.project.cypher('h', 'MATCH (p) RETURN p.n', 'RETURN 1')",
            "p.n",
        ),
        (
            "CALL gds.graph.project.cypher('h', 'RETRUN 1', 'RETURN 1')",
            "cannot be planned",
        ),
        (
            "CALL gds.graph.project.cypher('h', 'RETURN 1 / 0 AS id', 'RETURN 1')",
            "in a statement that gds.graph.project.cypher runs",
        ),
        (
            "CALL gds.graph.project.cypher('h', 'MATCH (p:Q) RETURN id(p) AS id', \
             'MATCH (a)-[:T]->(b) RETURN id(a) AS source, id(b) AS target')",
            "validateRelationships",
        ),
        (
            "CALL gds.graph.project.cypher('h', \
             \"CALL gds.graph.project('i', '*', '*') YIELD nodeCount RETURN 1 AS id\", \
             'RETURN 1')",
            "separate statement",
        ),
        (
            "CALL gds.nodeSimilarity.stream('g')",
            "gds.nodeSimilarity.stream",
        ),
    ] {
        let message = error(&db, text);
        assert!(message.contains(part), "{text}: {message}");
    }
    // A graph that could not be made does not exist.
    assert_eq!(
        rows(&db, "CALL gds.graph.exists('h') YIELD exists RETURN exists"),
        ["false"]
    );
}

#[test]
fn only_what_writes_records_needs_the_right_to_write() {
    let db = database();
    let class = |text: &str| db.begin_read().unwrap().class_of(text).unwrap();
    assert_eq!(
        class("CALL gds.graph.project('g', '*', '*')"),
        StatementClass::Read
    );
    assert_eq!(class("CALL gds.graph.drop('g')"), StatementClass::Read);
    assert_eq!(class("CALL gds.wcc.stream('g')"), StatementClass::Read);
    assert_eq!(
        class("CALL gds.wcc.mutate('g', {mutateProperty: 'c'})"),
        StatementClass::Read
    );
    assert_eq!(
        class("CALL gds.graph.nodeProperties.write('g', 'c')"),
        StatementClass::Write
    );
    assert_eq!(
        class("CALL gds.wcc.write('g', {writeProperty: 'c'})"),
        StatementClass::Write
    );
    db.query("CALL gds.graph.project('g', '*', '*')").unwrap();
    db.close().unwrap();
    assert_eq!(
        db.query("CALL gds.graph.list()").unwrap_err().kind(),
        ErrorKind::Closed
    );
}
