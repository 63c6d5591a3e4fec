"""langchain-neo4j: the graph and its schema, documents, questions, chat history, checkpoints, the vector store."""

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage, HumanMessage
from langchain_neo4j import GraphCypherQAChain, Neo4jChatMessageHistory, Neo4jGraph, Neo4jVector
from langchain_neo4j.graphs.graph_document import GraphDocument, Node, Relationship

from harness import PASSWORD, URI, USER, expected_to_fail, run

ACCESS = {"url": URI, "username": USER, "password": PASSWORD}


def graph(**options):
    return Neo4jGraph(**ACCESS, **options)


def queries_return_maps():
    with graph(refresh_schema=False) as db:
        db.query("MERGE (m:Movie {name: $name}) MERGE (a:Actor {name: 'Tom Cruise'}) MERGE (a)-[:ACTED_IN]->(m)", {"name": "Top Gun"})
        assert db.query("MATCH (m:Movie) RETURN m.name AS name") == [{"name": "Top Gun"}]
        assert db.query("MATCH (m:Movie) RETURN m") == [{"m": {"name": "Top Gun"}}]


def schema_is_read():
    with graph() as db:
        assert "Movie {name: STRING}" in db.schema, db.schema
        assert "(:Actor)-[:ACTED_IN]->(:Movie)" in db.schema, db.schema
        structured = db.structured_schema
        assert structured["relationships"] == [{"start": "Actor", "type": "ACTED_IN", "end": "Movie"}], structured
        assert structured["node_props"]["Movie"] == [{"property": "name", "type": "STRING"}], structured


def enhanced_schema_has_examples():
    with graph(enhanced_schema=True) as db:
        assert "Top Gun" in db.schema, db.schema


def graph_documents_are_added():
    people = [Node(id="Ann", type="Person", properties={"age": 30}), Node(id="Acme", type="Company")]
    works = Relationship(source=people[0], target=people[1], type="WORKS_AT", properties={"since": 2020})
    document = GraphDocument(
        nodes=people, relationships=[works], source=Document(page_content="Ann works at Acme.", metadata={"id": "d1"})
    )
    with graph() as db:
        for _ in range(2):
            db.add_graph_documents([document], include_source=True, baseEntityLabel=True)
        rows = db.query(
            "MATCH (d:Document)-[:MENTIONS]->(p:Person:__Entity__)-[r:WORKS_AT]->(c:Company) "
            "RETURN d.text AS text, p.id AS person, p.age AS age, r.since AS since, c.id AS company"
        )
        expected = {"text": "Ann works at Acme.", "person": "Ann", "age": 30, "since": 2020, "company": "Acme"}
        assert rows == [expected], rows
        db.refresh_schema()
        assert "(:Person)-[:WORKS_AT]->(:Company)" in db.schema, db.schema


def questions_are_answered():
    llm = FakeListLLM(responses=["```MATCH (p:Person)-[:WORKS_AT]->(c:Company) RETURN c.id AS company```", "Ann works at Acme."])
    with graph() as db:
        chain = GraphCypherQAChain.from_llm(
            llm, graph=db, return_intermediate_steps=True, allow_dangerous_requests=True
        )
        answer = chain.invoke({"query": "Where does Ann work?"})
    assert answer["result"] == "Ann works at Acme."
    assert answer["intermediate_steps"][1]["context"] == [{"company": "Acme"}], answer


def chat_history_is_kept():
    history = Neo4jChatMessageHistory(session_id="s1", **ACCESS)
    history.add_message(HumanMessage("hi"))
    history.add_message(AIMessage("hello"))
    again = Neo4jChatMessageHistory(session_id="s1", **ACCESS)
    assert [(type(one), one.content) for one in again.messages] == [(HumanMessage, "hi"), (AIMessage, "hello")]
    again.clear()
    assert again.messages == []
    again.clear(delete_session_node=True)


def checkpoints_are_saved():
    from langchain_neo4j import Neo4jSaver
    from langgraph.checkpoint.base import empty_checkpoint

    with Neo4jSaver.from_conn_string(uri=URI, user=USER, password=PASSWORD) as saver:
        saver.setup()
        config = {"configurable": {"thread_id": "t1", "checkpoint_ns": ""}}
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": ["a"]}
        checkpoint["channel_versions"] = {"messages": "1"}
        saved = saver.put(config, checkpoint, {"source": "input", "step": 1}, {"messages": "1"})
        saver.put_writes(saved, [("messages", "b")], task_id="task")
        found = saver.get_tuple(config)
        assert found.checkpoint["id"] == checkpoint["id"], found
        assert found.checkpoint["channel_values"] == {"messages": ["a"]}, found
        assert [write[1:] for write in found.pending_writes] == [("messages", "b")], found
        assert len(list(saver.list(config))) == 1
        saver.delete_thread("t1")
        assert saver.get_tuple(config) is None


@expected_to_fail("VECTOR INDEX")
def vector_store_finds_similar_texts():
    store = Neo4jVector.from_texts(["one", "two"], DeterministicFakeEmbedding(size=8), **ACCESS)
    assert store.similarity_search("one", k=1)[0].page_content == "one"


@expected_to_fail("VECTOR INDEX")
def hybrid_search_uses_full_text():
    store = Neo4jVector.from_texts(["one", "two"], DeterministicFakeEmbedding(size=8), search_type="hybrid", **ACCESS)
    assert store.similarity_search("two", k=1)[0].page_content == "two"


run(
    "langchain",
    [
        queries_return_maps,
        schema_is_read,
        enhanced_schema_has_examples,
        graph_documents_are_added,
        questions_are_answered,
        chat_history_is_kept,
        checkpoints_are_saved,
        vector_store_finds_similar_texts,
        hybrid_search_uses_full_text,
    ],
)
