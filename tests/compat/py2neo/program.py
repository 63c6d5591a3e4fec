"""py2neo: the client, its data types, transactions, matchers, schema and object mapper, as its handbook shows."""

from py2neo import Graph, GraphService, Node, NodeMatcher, Relationship, Subgraph
from py2neo.bulk import create_nodes, create_relationships, merge_nodes
from py2neo.errors import ClientError
from py2neo.ogm import GraphObject, Label, Model, Property, RelatedFrom, RelatedTo

from harness import PASSWORD, URI, USER, run

graph = Graph(URI, auth=(USER, PASSWORD), name="people")


class Movie(Model):
    __primarykey__ = "title"

    title = Property()
    tag_line = Property("tagline")
    released = Property()
    watched = Label()

    actors = RelatedFrom("Actor", "ACTED_IN")


class Actor(GraphObject):
    __primarykey__ = "name"

    name = Property()
    born = Property()

    acted_in = RelatedTo(Movie)


def service_describes_itself():
    service = GraphService(URI, auth=(USER, PASSWORD))
    assert str(service.kernel_version).startswith("5."), service.kernel_version
    assert service.product.startswith("Neo4j"), service.product
    assert "people" in list(service) and "system" in list(service), list(service)


def queries_return_cursors_and_tables():
    assert graph.run("UNWIND range(1, 3) AS n RETURN n, n * n AS n_sq").data()[2] == {"n": 3, "n_sq": 9}
    assert graph.evaluate("RETURN $a + 1", a=41) == 42
    table = graph.run("UNWIND range(1, 3) AS n RETURN n").to_table()
    assert [row[0] for row in table] == [1, 2, 3]
    cursor = graph.run("UNWIND range(1, 5000) AS n RETURN n")
    assert sum(record["n"] for record in cursor) == 5000 * 5001 // 2


def subgraphs_are_created_and_changed():
    a = Node("Person", name="Alice", age=33)
    b = Node("Person", name="Bob")
    knows = Relationship(a, "KNOWS", b, since=1999)
    graph.create(knows)
    assert a.identity is not None and graph.exists(knows)
    assert graph.nodes[a.identity]["name"] == "Alice"
    a["age"] = 34
    a.add_label("Employee")
    graph.push(a)
    b.clear()
    graph.pull(b)
    assert b["name"] == "Bob"
    assert graph.evaluate("MATCH (n:Employee) RETURN n.age") == 34
    c = Node("Person", name="Carol")
    graph.merge(Subgraph([c], [Relationship(a, "KNOWS", c)]), "Person", "name")
    assert graph.evaluate("MATCH (:Person {name: 'Alice'})-[:KNOWS]->(n) RETURN count(n)") == 2
    graph.separate(knows)
    assert not graph.exists(knows)
    graph.delete(c)
    assert graph.nodes.match("Person").count() == 2


def matchers_find_nodes():
    graph.run("UNWIND range(1, 20) AS n CREATE (:Item {n: n, name: 'item ' + n})")
    matcher = NodeMatcher(graph)
    assert matcher.match("Item", n=7).first()["name"] == "item 7"
    assert matcher.match("Item").where("_.n > 15").count() == 5
    assert [node["n"] for node in matcher.match("Item").order_by("_.n DESC").limit(2)] == [20, 19]
    assert matcher.match("Item", name="none").first() is None
    graph.run("MATCH (a:Item {n: 1}), (b:Item {n: 2}) CREATE (a)-[:NEXT {step: 1}]->(b)")
    rel = graph.relationships.match(r_type="NEXT").first()
    assert (rel["step"], rel.start_node["n"], rel.end_node["n"]) == (1, 1, 2)


def transactions_commit_and_roll_back():
    tx = graph.begin()
    tx.create(Node("Tx", n=1))
    graph.commit(tx)
    tx = graph.begin()
    tx.run("CREATE (:Tx {n: 2})")
    graph.rollback(tx)
    assert graph.evaluate("MATCH (n:Tx) RETURN collect(n.n)") == [1]
    tx = graph.begin(readonly=True)
    assert tx.evaluate("MATCH (n:Tx) RETURN count(n)") == 1
    graph.commit(tx)
    assert graph.query("MATCH (n:Tx) RETURN n.n AS n").data() == [{"n": 1}]
    graph.update(lambda tx: tx.run("CREATE (:Tx {n: 3})"))
    assert graph.nodes.match("Tx").count() == 2


def schema_is_created_and_read():
    assert {"Person", "Item"} <= set(graph.schema.node_labels)
    assert "NEXT" in graph.schema.relationship_types
    graph.run("CREATE CONSTRAINT FOR (n:Item) REQUIRE n.n IS UNIQUE")
    try:
        graph.create(Node("Item", n=1))
    except ClientError as error:
        assert error.code == "Neo.ClientError.Schema.ConstraintValidationFailed", error.code
    else:
        raise AssertionError("a duplicate was accepted")


def objects_are_mapped():
    keanu = Actor()
    keanu.name = "Keanu Reeves"
    keanu.born = 1964
    matrix = Movie()
    matrix.title = "The Matrix"
    matrix.tag_line = "Welcome to the Real World"
    matrix.released = 1999
    matrix.watched = True
    keanu.acted_in.add(matrix, roles=["Neo"])
    graph.push(keanu)
    found = Actor.match(graph, "Keanu Reeves").first()
    assert found.born == 1964 and [movie.title for movie in found.acted_in] == ["The Matrix"]
    assert found.acted_in.get(matrix, "roles") == ["Neo"]
    movie = Movie.match(graph).where(released=1999).first()
    assert movie.watched and [actor.name for actor in movie.actors] == ["Keanu Reeves"]
    movie.released = 2000
    graph.push(movie)
    assert graph.evaluate("MATCH (m:Movie) RETURN m.released") == 2000
    graph.delete(keanu)
    assert Actor.match(graph).count() == 0


def bulk_functions_load_rows():
    create_nodes(graph.auto(), [["a", 1], ["b", 2]], labels={"Bulk"}, keys=["name", "n"])
    merge_nodes(graph.auto(), [["b", 3], ["c", 4]], ("Bulk", "name"), keys=["name", "n"])
    assert graph.evaluate("MATCH (n:Bulk) RETURN sum(n.n)") == 8
    rows = [("a", {"w": 1}, "b"), ("b", {"w": 2}, "c")]
    create_relationships(graph.auto(), rows, "LINK", start_node_key=("Bulk", "name"), end_node_key=("Bulk", "name"))
    assert graph.evaluate("MATCH (:Bulk)-[r:LINK]->(:Bulk) RETURN sum(r.w)") == 3


def everything_is_deleted():
    graph.delete_all()
    assert len(graph.nodes) == 0 and len(graph.relationships) == 0


run(
    "py2neo",
    [
        service_describes_itself,
        queries_return_cursors_and_tables,
        subgraphs_are_created_and_changed,
        matchers_find_nodes,
        transactions_commit_and_roll_back,
        schema_is_created_and_read,
        objects_are_mapped,
        bulk_functions_load_rows,
        everything_is_deleted,
    ],
)
