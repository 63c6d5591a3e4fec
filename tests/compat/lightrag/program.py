"""LightRAG's graph storage in Neo4j: every operation of its interface."""

import contextlib
import os

from harness import PASSWORD, URI, USER, expected_to_fail, run

os.environ |= {"NEO4J_URI": URI, "NEO4J_USERNAME": USER, "NEO4J_PASSWORD": PASSWORD, "NEO4J_DATABASE": "people"}

from lightrag.kg.neo4j_impl import Neo4JStorage  # noqa: E402  (it reads the environment)
from lightrag.kg.shared_storage import initialize_share_data  # noqa: E402


@contextlib.asynccontextmanager
async def storage(workspace="space-1"):
    initialize_share_data()
    store = Neo4JStorage("chunk_entity_relation", {"max_graph_nodes": 100}, None, workspace=workspace)
    await store.initialize()
    try:
        yield store
    finally:
        await store.finalize()


def entity(name, kind="person"):
    return {"entity_id": name, "entity_type": kind, "description": f"{name}, a {kind}", "source_id": "chunk-1"}


RELATION = {"weight": 1.5, "description": "knows", "keywords": "k", "source_id": "chunk-1"}


async def nodes_and_edges_are_upserted():
    async with storage() as store:
        await store.upsert_node("Ada", entity("Ada"))
        await store.upsert_node("Ada", entity("Ada") | {"description": "changed"})
        await store.upsert_nodes_batch([("Bob", entity("Bob")), ("Engine", entity("Engine", "machine"))])
        await store.upsert_edge("Ada", "Bob", RELATION)
        await store.upsert_edges_batch([("Bob", "Engine", RELATION | {"weight": 2.0})])
        assert await store.has_node("Ada") and not await store.has_node("Eve")
        assert await store.has_edge("Bob", "Ada") and not await store.has_edge("Ada", "Engine")
        assert (await store.get_node("Ada"))["description"] == "changed"
        assert await store.has_nodes_batch(["Ada", "Eve"]) == {"Ada"}
        assert set(await store.get_nodes_batch(["Ada", "Bob"])) == {"Ada", "Bob"}


async def degrees_and_edges_are_read():
    async with storage() as store:
        assert await store.node_degree("Bob") == 2
        assert await store.node_degrees_batch(["Ada", "Bob"]) == {"Ada": 1, "Bob": 2}
        assert await store.edge_degree("Ada", "Bob") == 3
        assert await store.edge_degrees_batch([("Ada", "Bob")]) == {("Ada", "Bob"): 3}
        assert (await store.get_edge("Bob", "Engine"))["weight"] == 2.0
        edges = await store.get_edges_batch([{"src": "Ada", "tgt": "Bob"}])
        assert edges[("Ada", "Bob")]["weight"] == 1.5, edges
        assert sorted(await store.get_node_edges("Bob")) == [("Bob", "Ada"), ("Bob", "Engine")]
        assert set((await store.get_nodes_edges_batch(["Bob"]))["Bob"]) == {("Ada", "Bob"), ("Bob", "Engine")}


async def all_nodes_and_labels_are_listed():
    async with storage() as store:
        assert await store.get_all_labels() == ["Ada", "Bob", "Engine"]
        # It returns an edge once in each direction.
        assert len(await store.get_all_nodes()) == 3 and len(await store.get_all_edges()) == 4
        assert (await store.get_popular_labels(1)) == ["Bob"]
        # Without a full-text index it searches by CONTAINS.
        assert await store.search_labels("ngin") == ["Engine"]


async def knowledge_graphs_are_read():
    async with storage() as store:
        whole = await store.get_knowledge_graph("*")
        assert (len(whole.nodes), len(whole.edges)) == (3, 2), whole
        near = await store.get_knowledge_graph("Ada", max_depth=1)
        assert sorted(node.labels[0] for node in near.nodes) == ["Ada", "Bob"], near
        part = await store.get_knowledge_graph("Ada", max_depth=3, max_nodes=2)
        assert part.is_truncated and len(part.nodes) == 2, part


async def subgraphs_are_read_by_apoc():
    async with storage() as store, store._driver.session(database="people") as session:
        result = await session.run(
            "MATCH (n:`space-1` {entity_id: 'Ada'}) "
            "CALL apoc.path.subgraphAll(n, {relationshipFilter: '', labelFilter: 'space-1', minLevel: 0, maxLevel: 1, bfs: true}) "
            "YIELD nodes, relationships RETURN size(nodes) AS nodes, size(relationships) AS rels"
        )
        assert (await result.single()).data() == {"nodes": 2, "rels": 1}


async def workspaces_are_separate():
    async with storage("other") as store:
        assert await store.get_all_labels() == []
        await store.upsert_node("Ada", entity("Ada"))
        await store.drop()
    async with storage() as store:
        assert await store.has_node("Ada")


async def nodes_and_edges_are_removed():
    async with storage() as store:
        await store.remove_edges([("Ada", "Bob")])
        assert not await store.has_edge("Ada", "Bob")
        await store.delete_node("Ada")
        await store.remove_nodes(["Bob"])
        assert await store.get_all_labels() == ["Engine"]
        assert (await store.drop())["status"] == "success"
        assert await store.get_all_nodes() == []


@expected_to_fail("FULLTEXT INDEX")
async def full_text_index_is_created():
    async with storage() as store, store._driver.session(database="people") as session:
        await (await session.run("CREATE FULLTEXT INDEX f FOR (n:`space-1`) ON EACH [n.entity_id]")).consume()


run(
    "lightrag",
    [
        nodes_and_edges_are_upserted,
        degrees_and_edges_are_read,
        all_nodes_and_labels_are_listed,
        knowledge_graphs_are_read,
        subgraphs_are_read_by_apoc,
        workspaces_are_separate,
        nodes_and_edges_are_removed,
        full_text_index_is_created,
    ],
)
