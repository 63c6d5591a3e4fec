//! neo4rs: statements, parameters, types, streams and transactions, as its documentation shows.

use crate::graph;
use neo4rs::{query, Node, Path, Point2D, Relation};

pub type Outcome = Result<(), Box<dyn std::error::Error>>;

pub async fn nodes_are_created_and_read() -> Outcome {
    let graph = graph().await?;
    let create = query("CREATE (p:Person {name: $name, age: $age, tags: $tags})")
        .param("name", "Mark")
        .param("age", 42_i64)
        .param("tags", vec!["a", "b"]);
    graph.run(create).await?;
    let find = query("MATCH (p:Person {name: $name}) RETURN p").param("name", "Mark");
    let mut rows = graph.execute(find).await?;
    let row = rows.next().await?.ok_or("no row")?;
    let node: Node = row.get("p")?;
    assert_eq!(node.labels(), ["Person"]);
    assert_eq!(node.get::<String>("name")?, "Mark");
    assert_eq!(node.get::<i64>("age")?, 42);
    assert_eq!(node.get::<Vec<String>>("tags")?, ["a", "b"]);
    assert!(rows.next().await?.is_none());
    Ok(())
}

pub async fn relationships_and_paths_are_read() -> Outcome {
    let graph = graph().await?;
    let create =
        "CREATE p = (:Person {name: 'A'})-[:KNOWS {since: 2020}]->(:Person {name: 'B'}) RETURN p";
    let mut rows = graph.execute(query(create)).await?;
    let path: Path = rows.next().await?.ok_or("no row")?.get("p")?;
    assert_eq!((path.nodes().len(), path.rels().len()), (2, 1));
    let find = "MATCH (:Person {name: 'A'})-[r:KNOWS]->() RETURN r";
    let mut rows = graph.execute(query(find)).await?;
    let relation: Relation = rows.next().await?.ok_or("no row")?.get("r")?;
    assert_eq!(relation.typ(), "KNOWS");
    assert_eq!(relation.get::<i64>("since")?, 2020);
    Ok(())
}

pub async fn results_are_streamed() -> Outcome {
    let graph = graph().await?;
    let mut rows = graph
        .execute(query("UNWIND range(1, 1000) AS n RETURN n"))
        .await?;
    let mut sum = 0;
    while let Some(row) = rows.next().await? {
        sum += row.get::<i64>("n")?;
    }
    assert_eq!(sum, 500_500);
    Ok(())
}

pub async fn values_round_trip() -> Outcome {
    let graph = graph().await?;
    let text = "RETURN $map AS map, $float AS float, $flag AS flag, $bytes AS bytes, null AS none, \
                date('2020-01-02') AS day, duration('P1DT2H') AS long, point({x: 1.0, y: 2.0}) AS place, \
                datetime('2020-01-02T03:04:05Z') AS time";
    let map = std::collections::HashMap::from([("a", 1_i64)]);
    let asked = query(text)
        .param("map", map)
        .param("float", 1.5)
        .param("flag", true)
        .param("bytes", vec![1_u8, 2]);
    let mut rows = graph.execute(asked).await?;
    let row = rows.next().await?.ok_or("no row")?;
    assert_eq!(
        row.get::<std::collections::HashMap<String, i64>>("map")?["a"],
        1
    );
    assert_eq!(row.get::<f64>("float")?, 1.5);
    assert!(row.get::<bool>("flag")?);
    assert_eq!(row.get::<Option<String>>("none")?, None);
    let day = chrono::NaiveDate::from_ymd_opt(2020, 1, 2).ok_or("no day")?;
    assert_eq!(row.get::<chrono::NaiveDate>("day")?, day);
    assert_eq!(row.get::<std::time::Duration>("long")?.as_secs(), 26 * 3600);
    let place: Point2D = row.get("place")?;
    assert_eq!((place.x(), place.y()), (1.0, 2.0));
    Ok(())
}

pub async fn transactions_commit_and_roll_back() -> Outcome {
    let graph = graph().await?;
    let mut transaction = graph.start_txn().await?;
    transaction
        .run_queries(["CREATE (:Tx {n: 1})", "CREATE (:Tx {n: 2})"])
        .await?;
    let mut rows = transaction
        .execute(query("MATCH (t:Tx) RETURN count(t) AS n"))
        .await?;
    assert_eq!(
        rows.next(transaction.handle())
            .await?
            .ok_or("no row")?
            .get::<i64>("n")?,
        2
    );
    transaction.rollback().await?;
    let mut transaction = graph.start_txn().await?;
    transaction.run(query("CREATE (:Tx {n: 3})")).await?;
    transaction.commit().await?;
    let mut rows = graph
        .execute(query("MATCH (t:Tx) RETURN collect(t.n) AS n"))
        .await?;
    assert_eq!(
        rows.next().await?.ok_or("no row")?.get::<Vec<i64>>("n")?,
        [3]
    );
    Ok(())
}

pub async fn errors_are_reported() -> Outcome {
    let graph = graph().await?;
    assert!(graph.run(query("no statement")).await.is_err());
    graph
        .run(query(
            "CREATE CONSTRAINT FOR (u:Unique) REQUIRE u.n IS UNIQUE",
        ))
        .await?;
    graph.run(query("CREATE (:Unique {n: 1})")).await?;
    assert!(graph.run(query("CREATE (:Unique {n: 1})")).await.is_err());
    // The connection that failed is usable again.
    let mut rows = graph.execute(query("RETURN 1 AS n")).await?;
    assert_eq!(rows.next().await?.ok_or("no row")?.get::<i64>("n")?, 1);
    Ok(())
}

pub async fn connections_are_shared() -> Outcome {
    let graph = std::sync::Arc::new(graph().await?);
    let tasks: Vec<_> = (0..20_i64)
        .map(|n| {
            let graph = graph.clone();
            tokio::spawn(async move {
                graph
                    .run(query("CREATE (:Shared {n: $n})").param("n", n))
                    .await
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    let mut rows = graph
        .execute(query("MATCH (s:Shared) RETURN sum(s.n) AS n"))
        .await?;
    assert_eq!(rows.next().await?.ok_or("no row")?.get::<i64>("n")?, 190);
    Ok(())
}
