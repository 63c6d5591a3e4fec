"""graphiti: nodes and edges of its temporal graph, and its searches, in Neo4j."""

import datetime
import logging
import os

from harness import PASSWORD, URI, USER, expected_to_fail, run

os.environ.setdefault("GRAPHITI_TELEMETRY_ENABLED", "false")

from graphiti_core.driver.neo4j_driver import Neo4jDriver  # noqa: E402  (it reads the environment)
from graphiti_core.edges import CommunityEdge, EntityEdge, EpisodicEdge  # noqa: E402
from graphiti_core.graph_queries import get_range_indices  # noqa: E402
from graphiti_core.nodes import CommunityNode, EntityNode, EpisodeType, EpisodicNode, SagaNode  # noqa: E402
from graphiti_core.search.search_filters import SearchFilters  # noqa: E402
from graphiti_core.search.search_utils import (  # noqa: E402
    edge_bfs_search,
    edge_similarity_search,
    node_bfs_search,
    node_fulltext_search,
    node_similarity_search,
)
from graphiti_core.utils.maintenance.graph_data_operations import clear_data, retrieve_episodes  # noqa: E402

GROUP = "group-1"
NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)

# It logs the statement of each error, also of those that a test expects.
logging.getLogger("graphiti_core").setLevel(logging.CRITICAL)


class Quiet(Neo4jDriver):
    """Creates no indexes when it is constructed: there are no full-text indexes."""

    async def build_indices_and_constraints(self, delete_existing=False):
        pass


def connect():
    return Quiet(URI, USER, PASSWORD, "people")


def entity(name, vector):
    return EntityNode(
        uuid=name,
        name=name,
        group_id=GROUP,
        labels=["Person"],
        created_at=NOW,
        name_embedding=vector,
        summary=f"about {name}",
        attributes={"age": 7},
    )


def episode():
    return EpisodicNode(
        uuid="episode",
        name="episode",
        group_id=GROUP,
        source=EpisodeType.text,
        source_description="a test",
        content="Ada knows Bob.",
        created_at=NOW,
        valid_at=NOW,
        entity_edges=["knows"],
    )


def knows():
    return EntityEdge(
        uuid="knows",
        group_id=GROUP,
        source_node_uuid="Ada",
        target_node_uuid="Bob",
        created_at=NOW,
        valid_at=NOW,
        name="KNOWS",
        fact="Ada knows Bob",
        fact_embedding=[0.5, 0.5],
        episodes=["episode"],
    )


async def range_indexes_are_created_twice():
    driver = connect()
    for _ in range(2):
        for statement in get_range_indices(driver.provider):
            await driver.execute_query(statement)
    records, _, _ = await driver.execute_query("SHOW RANGE INDEXES YIELD name, entityType RETURN entityType, count(*) AS n ORDER BY n")
    assert sum(record["n"] for record in records) == len(get_range_indices(driver.provider)), records
    await driver.close()


async def nodes_are_saved_and_read():
    driver = connect()
    for one in (entity("Ada", [1.0, 0.0]), entity("Bob", [0.0, 1.0]), episode()):
        await one.save(driver)
    ada = await EntityNode.get_by_uuid(driver, "Ada")
    assert (ada.name, ada.summary, ada.attributes, ada.created_at) == ("Ada", "about Ada", {"age": 7}, NOW), ada
    assert set(ada.labels) == {"Entity", "Person"}, ada.labels
    await ada.load_name_embedding(driver)
    assert ada.name_embedding == [1.0, 0.0]
    found = await EntityNode.get_by_group_ids(driver, [GROUP], limit=10)
    assert sorted(one.name for one in found) == ["Ada", "Bob"], found
    read = await EpisodicNode.get_by_uuid(driver, "episode")
    assert (read.content, read.source, read.valid_at) == ("Ada knows Bob.", EpisodeType.text, NOW), read
    community = CommunityNode(uuid="c", name="c", group_id=GROUP, created_at=NOW, name_embedding=[0.1, 0.9], summary="all")
    await community.save(driver)
    assert (await CommunityNode.get_by_uuid(driver, "c")).summary == "all"
    await SagaNode(uuid="s", name="s", group_id=GROUP, created_at=NOW).save(driver)
    assert (await SagaNode.get_by_uuid(driver, "s")).name == "s"
    await driver.close()


async def edges_are_saved_and_read():
    driver = connect()
    await knows().save(driver)
    mention = EpisodicEdge(uuid="m", group_id=GROUP, source_node_uuid="episode", target_node_uuid="Ada", created_at=NOW)
    await mention.save(driver)
    member = CommunityEdge(uuid="h", group_id=GROUP, source_node_uuid="c", target_node_uuid="Ada", created_at=NOW)
    await member.save(driver)
    edge = await EntityEdge.get_by_uuid(driver, "knows")
    assert (edge.fact, edge.valid_at, edge.episodes) == ("Ada knows Bob", NOW, ["episode"]), edge
    await edge.load_fact_embedding(driver)
    assert edge.fact_embedding == [0.5, 0.5]
    assert [one.uuid for one in await EntityEdge.get_between_nodes(driver, "Ada", "Bob")] == ["knows"]
    assert [one.uuid for one in await EntityEdge.get_by_node_uuid(driver, "Bob")] == ["knows"]
    assert [one.uuid for one in await EpisodicEdge.get_by_uuids(driver, ["m"])] == ["m"]
    assert [one.uuid for one in await EpisodicNode.get_by_entity_node_uuid(driver, "Ada")] == ["episode"]
    await driver.close()


async def episodes_are_retrieved_by_time():
    driver = connect()
    found = await retrieve_episodes(driver, NOW + datetime.timedelta(days=1), last_n=3, group_ids=[GROUP])
    assert [one.uuid for one in found] == ["episode"], found
    assert await retrieve_episodes(driver, NOW - datetime.timedelta(days=1), last_n=3, group_ids=[GROUP]) == []
    await driver.close()


async def similar_nodes_and_edges_are_found():
    driver = connect()
    nodes = await node_similarity_search(driver, [1.0, 0.1], SearchFilters(), [GROUP], limit=2, min_score=0.9)
    assert [one.name for one in nodes] == ["Ada"], nodes
    edges = await edge_similarity_search(driver, [0.5, 0.4], None, None, SearchFilters(), [GROUP], limit=2, min_score=0.9)
    assert [one.uuid for one in edges] == ["knows"], edges
    await driver.close()


async def breadth_first_search_follows_edges():
    driver = connect()
    nodes = await node_bfs_search(driver, ["Ada"], SearchFilters(), 2, [GROUP], 10)
    assert [one.name for one in nodes] == ["Bob"], nodes
    edges = await edge_bfs_search(driver, ["episode"], 2, SearchFilters(), [GROUP], 10)
    assert [one.uuid for one in edges] == ["knows"], edges
    await driver.close()


async def nodes_and_edges_are_deleted():
    driver = connect()
    await (await EntityEdge.get_by_uuid(driver, "knows")).delete(driver)
    assert await EntityEdge.get_by_node_uuid(driver, "Ada") == []
    await (await EntityNode.get_by_uuid(driver, "Bob")).delete(driver)
    await EntityNode.delete_by_group_id(driver, GROUP)
    await clear_data(driver)
    records, _, _ = await driver.execute_query("MATCH (n) RETURN count(n) AS n")
    assert records[0]["n"] == 0
    await driver.close()


@expected_to_fail("FULLTEXT INDEX")
async def all_indexes_are_created():
    driver = connect()
    try:
        await Neo4jDriver.build_indices_and_constraints(driver)
    finally:
        await driver.close()


@expected_to_fail("db.index.fulltext.queryNodes")
async def full_text_search_finds_nodes():
    driver = connect()
    try:
        await node_fulltext_search(driver, "Ada", SearchFilters(), [GROUP], 2)
    finally:
        await driver.close()


run(
    "graphiti",
    [
        range_indexes_are_created_twice,
        nodes_are_saved_and_read,
        edges_are_saved_and_read,
        episodes_are_retrieved_by_time,
        similar_nodes_and_edges_are_found,
        breadth_first_search_follows_edges,
        nodes_and_edges_are_deleted,
        all_indexes_are_created,
        full_text_search_finds_nodes,
    ],
)
