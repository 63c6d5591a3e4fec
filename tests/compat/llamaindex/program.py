"""LlamaIndex: the property graph store, the older graph store and the vector store of Neo4j."""

from llama_index.core.graph_stores.types import ChunkNode, EntityNode, Relation
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import VectorStoreQuery
from llama_index.graph_stores.neo4j import Neo4jGraphStore, Neo4jPropertyGraphStore
from llama_index.vector_stores.neo4jvector import Neo4jVectorStore

from harness import PASSWORD, URI, USER, expected_to_fail, run

ACCESS = {"username": USER, "password": PASSWORD, "url": URI}


def property_graph(**options):
    return Neo4jPropertyGraphStore(**ACCESS, **options)


def constraints_are_created():
    # With `create_indexes=True` the store also creates a vector index.
    with property_graph(create_indexes=False, refresh_schema=False) as store:
        for label in ("__Node__", "__Entity__"):
            store.structured_query(f"CREATE CONSTRAINT IF NOT EXISTS FOR (n:`{label}`) REQUIRE n.id IS UNIQUE;")
        assert len(store.structured_query("SHOW CONSTRAINTS")) == 2


def property_graph_is_written_and_read():
    with property_graph(create_indexes=False, refresh_schema=False) as store:
        chunk = ChunkNode(text="Ada programmed the engine.", id_="c1", embedding=[0.1, 0.2])
        source = {"triplet_source_id": "c1"}
        ada = EntityNode(name="Ada", label="Person", properties={"born": 1815, **source}, embedding=[0.3, 0.4])
        engine = EntityNode(name="Engine", label="Machine", properties=source)
        store.upsert_nodes([chunk, ada, engine])
        programmed = Relation(label="PROGRAMMED", source_id=ada.id, target_id=engine.id, properties={"in": 1843})
        store.upsert_relations([programmed])
        found = store.get(properties={"born": 1815})
        assert [(one.name, one.label) for one in found] == [("Ada", "Person")], found
        assert store.get(ids=[engine.id])[0].name == "Engine"
        triplets = store.get_triplets(entity_names=["Ada"], relation_names=["PROGRAMMED"])
        assert [(a.name, r.label, b.name) for a, r, b in triplets] == [("Ada", "PROGRAMMED", "Engine")], triplets
        related = store.get_rel_map([ada], depth=2)
        assert any(rel.label == "PROGRAMMED" for _, rel, _ in related), related
        rows = store.structured_query("MATCH (:Chunk)-[:MENTIONS]->(e:__Entity__) RETURN e.name AS n ORDER BY n")
        assert rows == [{"n": "Ada"}, {"n": "Engine"}], rows


def schema_is_read():
    with property_graph(create_indexes=False) as store:
        assert "(:Person)-[:PROGRAMMED]->(:Machine)" in store.get_schema_str(), store.get_schema_str()
        properties = {one["property"]: one["type"] for one in store.get_schema()["node_props"]["Person"]}
        assert properties["born"] == "INTEGER" and properties["name"] == "STRING", properties


def vectors_are_compared_without_an_index():
    with property_graph(create_indexes=False, refresh_schema=False) as store:
        store._supports_vector_index = False
        nodes, scores = store.vector_query(VectorStoreQuery(query_embedding=[0.3, 0.4], similarity_top_k=1))
        assert nodes[0].name == "Ada" and scores[0] > 0.99, (nodes, scores)


def nodes_are_deleted():
    with property_graph(create_indexes=False, refresh_schema=False) as store:
        store.delete(relation_names=["PROGRAMMED"])
        assert store.get_triplets(relation_names=["PROGRAMMED"]) == []
        store.delete(entity_names=["Ada"])
        assert store.get(properties={"name": "Ada"}) == []


def older_store_keeps_triplets():
    store = Neo4jGraphStore(**ACCESS, refresh_schema=False)
    store.upsert_triplet("Bob", "likes", "Tea")
    assert store.get("Bob") == [["LIKES", "Tea"]], store.get("Bob")
    assert store.get_rel_map(["Bob"]) == {"Bob": [["LIKES", "Tea"]]}, store.get_rel_map(["Bob"])
    store.refresh_schema()
    assert "LIKES" in store.get_schema(), store.get_schema()
    store.delete("Bob", "LIKES", "Tea")
    assert store.get("Bob") == []


@expected_to_fail("VECTOR INDEX")
def indexes_of_the_property_graph_are_created():
    property_graph().close()


@expected_to_fail("VECTOR INDEX")
def vector_store_finds_similar_nodes():
    store = Neo4jVectorStore(USER, PASSWORD, URI, 2)
    store.add([TextNode(text="one", id_="n1", embedding=[1.0, 0.0]), TextNode(text="two", id_="n2", embedding=[0.0, 1.0])])
    found = store.query(VectorStoreQuery(query_embedding=[1.0, 0.0], similarity_top_k=1))
    assert found.ids == ["n1"], found


run(
    "llamaindex",
    [
        constraints_are_created,
        property_graph_is_written_and_read,
        schema_is_read,
        vectors_are_compared_without_an_index,
        nodes_are_deleted,
        older_store_keeps_triplets,
        indexes_of_the_property_graph_are_created,
        vector_store_finds_similar_nodes,
    ],
)
