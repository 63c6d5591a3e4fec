"""GQLAlchemy: models, the query builder, schema and loading through its class for Neo4j."""

from typing import Optional

from gqlalchemy import Field, Neo4j, Node, Relationship, match
from gqlalchemy.query_builders.neo4j_query_builder import Neo4jQueryBuilder
from neo4j.exceptions import ConstraintError

from harness import HOST, PASSWORD, PORT, USER, run

db = Neo4j(host=HOST, port=int(PORT), username=USER, password=PASSWORD, encrypted=False)


class User(Node):
    name: str = Field(db=db)
    age: Optional[int] = Field()


class Follows(Relationship, type="FOLLOWS"):
    since: Optional[str] = Field()


def nodes_are_saved_and_loaded():
    ada = User(name="Ada", age=36).save(db)
    bob = User(name="Bob").save(db)
    assert ada._id is not None and bob._id != ada._id
    assert User(name="Ada").load(db).age == 36
    ada.age = 37
    ada.save(db)
    assert db.load_node(User(name="Ada")).age == 37


def relationships_are_saved_and_loaded():
    ada, bob = User(name="Ada").load(db), User(name="Bob").load(db)
    saved = Follows(_start_node_id=ada._id, _end_node_id=bob._id, since="2020").save(db)
    assert saved._id is not None
    assert Follows(_start_node_id=ada._id, _end_node_id=bob._id).load(db).since == "2020"


def statements_run():
    rows = list(db.execute_and_fetch("MATCH (a:User)-[r:FOLLOWS]->(b:User) RETURN a, r, b.name AS name"))
    assert isinstance(rows[0]["a"], User) and isinstance(rows[0]["r"], Follows) and rows[0]["name"] == "Bob", rows
    db.execute("CREATE (:Plain {n: $n})", {"n": 1})
    assert next(db.execute_and_fetch("MATCH (p:Plain) RETURN p.n AS n"))["n"] == 1


def queries_are_built():
    rows = list(
        Neo4jQueryBuilder(connection=db)
        .match()
        .node("User", variable="u")
        .where(item="u.age", operator=">", literal=30)
        .return_([("u.name", "name")])
        .execute()
    )
    assert rows == [{"name": "Ada"}], rows
    rows = list(match(connection=db).node("User", variable="u").to("FOLLOWS").node(variable="v").return_("v.name").execute())
    assert rows == [{"v.name": "Bob"}], rows
    Neo4jQueryBuilder(connection=db).create().node("Built", x=1).execute()
    assert next(db.execute_and_fetch("MATCH (n:Built) RETURN n.x AS x"))["x"] == 1


def database_is_dropped():
    db.drop_database()
    assert next(db.execute_and_fetch("MATCH (n) RETURN count(n) AS n"))["n"] == 0


def constraints_are_read():
    # `create_index` writes the syntax of Neo4j 3, and `get_indexes` reads a column that Neo4j 5 does not have.
    db.execute("CREATE CONSTRAINT user_name FOR (u:User) REQUIRE u.name IS UNIQUE")
    assert [(one.label, one.property) for one in db.get_constraints()] == [("User", ("name",))], db.get_constraints()
    try:
        list(db.execute_and_fetch("CREATE (u:User {name: 'Ada'}) RETURN u"))
    except ConstraintError:
        return
    raise AssertionError("a duplicate was accepted")


run(
    "gqlalchemy",
    [
        nodes_are_saved_and_loaded,
        relationships_are_saved_and_loaded,
        statements_run,
        queries_are_built,
        constraints_are_read,
        database_is_dropped,
    ],
)
