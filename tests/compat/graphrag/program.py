"""neo4j-graphrag: schema, the knowledge graph writer and resolver, Text2Cypher, message history, vector search."""

import neo4j
from neo4j_graphrag.components.kg_writer import Neo4jWriter
from neo4j_graphrag.components.neo4j_reader import Neo4jChunkReader
from neo4j_graphrag.components.resolver import SinglePropertyExactMatchResolver
from neo4j_graphrag.components.types import LexicalGraphConfig, Neo4jGraph, Neo4jNode, Neo4jRelationship
from neo4j_graphrag.embeddings.base import Embedder
from neo4j_graphrag.indexes import create_fulltext_index, create_vector_index, drop_index_if_exists, upsert_vectors
from neo4j_graphrag.llm import LLMInterface, LLMResponse
from neo4j_graphrag.message_history import Neo4jMessageHistory
from neo4j_graphrag.retrievers import HybridRetriever, Text2CypherRetriever, VectorRetriever
from neo4j_graphrag.schema import get_schema, get_structured_schema
from neo4j_graphrag.types import EntityType

from harness import PASSWORD, URI, USER, expected_to_fail, run

driver = neo4j.GraphDatabase.driver(URI, auth=(USER, PASSWORD))


class Vectors(Embedder):
    def embed_query(self, text):
        return [float(len(text)), 1.0, 0.5]


class FixedAnswer(LLMInterface):
    def __init__(self, text):
        super().__init__("fixed")
        self.text = text

    def invoke(self, *_arguments, **_named):
        return LLMResponse(content=self.text)

    async def ainvoke(self, *_arguments, **_named):
        return LLMResponse(content=self.text)


def rows(statement, **parameters):
    return [record.data() for record in driver.execute_query(statement, parameters).records]


async def knowledge_graph_is_written():
    graph = Neo4jGraph(
        nodes=[
            Neo4jNode(id="1", label="Person", properties={"name": "Ada"}),
            Neo4jNode(id="2", label="Person", properties={"name": "Ada", "born": 1815}),
            Neo4jNode(id="3", label="Chunk", properties={"index": 0, "text": "Ada wrote."}, embedding_properties={"embedding": [0.1, 0.2, 0.3]}),
            Neo4jNode(id="4", label="Machine", properties={"name": "Engine"}),
        ],
        relationships=[
            Neo4jRelationship(start_node_id="1", end_node_id="3", type="FROM_CHUNK"),
            Neo4jRelationship(start_node_id="2", end_node_id="4", type="PROGRAMMED", properties={"in": 1843}),
        ],
    )
    written = await Neo4jWriter(driver).run(graph)
    assert written.status == "SUCCESS", written
    assert rows("MATCH (n:__Entity__:Person) RETURN count(n) AS n") == [{"n": 2}]
    assert rows("MATCH (c:Chunk) RETURN c.embedding[1] AS x") == [{"x": 0.2}]
    assert rows("MATCH (:Person)-[r:PROGRAMMED]->(:Machine) RETURN r.in AS y") == [{"y": 1843}]


async def chunks_are_read():
    chunks = await Neo4jChunkReader(driver, fetch_embeddings=True).run(LexicalGraphConfig())
    assert [one.text for one in chunks.chunks] == ["Ada wrote."], chunks
    assert chunks.chunks[0].metadata["embedding"] == [0.1, 0.2, 0.3], chunks


async def entities_are_resolved():
    stats = await SinglePropertyExactMatchResolver(driver).run()
    assert stats.number_of_created_nodes == 2, stats
    assert rows("MATCH (p:Person) RETURN p.name AS name, p.born AS born") == [{"name": "Ada", "born": 1815}]
    assert rows("MATCH (:Person)-[r]->() RETURN type(r) AS t ORDER BY t") == [{"t": "FROM_CHUNK"}, {"t": "PROGRAMMED"}]


def schema_is_read():
    schema = get_schema(driver)
    assert "(:Person)-[:PROGRAMMED]->(:Machine)" in schema, schema
    structured = get_structured_schema(driver)
    assert {"property": "born", "type": "INTEGER"} in structured["node_props"]["Person"], structured
    assert "Ada" in get_schema(driver, is_enhanced=True)


def questions_become_statements():
    llm = FixedAnswer("```cypher\nMATCH (p:Person)-[:PROGRAMMED]->(m) RETURN p.name AS name, m.name AS machine\n```")
    retriever = Text2CypherRetriever(driver, llm)
    found = retriever.search(query_text="Who programmed what?")
    assert "Ada" in found.items[0].content and "Engine" in found.items[0].content, found


def messages_are_kept():
    history = Neo4jMessageHistory("s", driver, window=2)
    history.add_messages([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    history.add_message({"role": "user", "content": "c"})
    assert [one["content"] for one in history.messages] == ["b", "c"], history.messages
    history.clear(delete_session_node=True)


def vectors_are_stored():
    ids = [row["id"] for row in rows("MATCH (p:Person) RETURN elementId(p) AS id")]
    upsert_vectors(driver, ids, "embedding", [[1.0, 2.0, 3.0]] * len(ids), entity_type=EntityType.NODE)
    assert rows("MATCH (p:Person) RETURN p.embedding AS v")[0] == {"v": [1.0, 2.0, 3.0]}
    drop_index_if_exists(driver, "no_such_index")


@expected_to_fail("VECTOR INDEX")
def vector_index_answers():
    create_vector_index(driver, "v", "Chunk", "embedding", 3, "cosine")
    assert len(VectorRetriever(driver, "v", Vectors()).search(query_text="x", top_k=1).items) == 1


@expected_to_fail("FULLTEXT INDEX")
def full_text_index_answers():
    create_fulltext_index(driver, "f", "Chunk", ["text"])
    assert len(HybridRetriever(driver, "v", "f", Vectors()).search(query_text="Ada", top_k=1).items) == 1


run(
    "graphrag",
    [
        knowledge_graph_is_written,
        chunks_are_read,
        entities_are_resolved,
        schema_is_read,
        questions_become_statements,
        messages_are_kept,
        vectors_are_stored,
        vector_index_answers,
        full_text_index_answers,
    ],
    driver.close,
)
