"""The Python driver against a server: see ../README.md."""

import os
import sys
import time
import traceback
import datetime

import neo4j
import pytz
from neo4j import GraphDatabase
from neo4j.exceptions import AuthError, ClientError, CypherSyntaxError, ConstraintError
from neo4j.graph import Node, Path, Relationship
from neo4j.spatial import CartesianPoint, WGS84Point
from neo4j.time import Date, DateTime, Duration, Time

URL = "bolt://" + os.environ["BOLT"]
ROUTED = "neo4j://" + os.environ["BOLT"]
AUTH = ("admin", os.environ["PASSWORD"])


def refused(kind, code, run):
    try:
        run()
    except kind as error:
        assert error.code == code, error.code
        return error
    raise AssertionError(f"{code} was expected")


def auto_commit(driver):
    with driver.session(database="people") as session:
        result = session.run("CREATE (p:Py {name: $name, at: $at}) RETURN p", name="Ada", at=1)
        assert result.keys() == ["p"]
        node = result.single()["p"]
        assert isinstance(node, Node) and node.labels == {"Py"} and node["name"] == "Ada"
        summary = result.consume()
        assert summary.counters.nodes_created == 1 and summary.counters.properties_set == 2
        assert summary.counters.contains_updates and summary.query_type == "rw" and summary.database == "people"
        assert session.run("MATCH (p:Py) RETURN count(p) AS n").single()["n"] == 1
    records, summary, keys = driver.execute_query("RETURN 6 * 7 AS answer", database_="people")
    assert (records[0]["answer"], keys) == (42, ["answer"])


def explicit_transactions(driver):
    with driver.session(database="people") as session:
        with session.begin_transaction() as tx:
            tx.run("CREATE (:PyTx {n: 1})")
            one = tx.run("UNWIND range(1, 3000) AS n RETURN n")
            two = tx.run("UNWIND range(1, 3000) AS n RETURN n * 2 AS n")
            assert [next(iter(one))["n"], next(iter(two))["n"]] == [1, 2]
            assert sum(row["n"] for row in two) == 3000 * 3001 - 2
            assert sum(row["n"] for row in one) == 3000 * 3001 // 2 - 1
            tx.rollback()
        assert session.run("MATCH (p:PyTx) RETURN count(p) AS n").single()["n"] == 0
        with session.begin_transaction() as tx:
            tx.run("CREATE (:PyTx {n: 1})").consume()
            tx.commit()
        assert session.run("MATCH (p:PyTx) RETURN count(p) AS n").single()["n"] == 1


def managed_retries(driver):
    driver.execute_query("MERGE (c:PyCount {_key: 1}) SET c.n = 0", database_="people")
    attempts = []

    def add(tx):
        attempts.append(1)
        n = tx.run("MATCH (c:PyCount {_key: 1}) RETURN c.n AS n").single()["n"]
        if len(attempts) == 1:
            driver.execute_query("MATCH (c:PyCount {_key: 1}) SET c.n = 10", database_="people")
        tx.run("MATCH (c:PyCount {_key: 1}) SET c.n = $n", n=n + 1).consume()

    with driver.session(database="people") as session:
        session.execute_write(add)
    assert len(attempts) == 2, attempts
    records, _, _ = driver.execute_query("MATCH (c:PyCount {_key: 1}) RETURN c.n AS n", database_="people")
    assert records[0]["n"] == 11


def values(driver):
    # The driver represents zones by pytz objects.
    rome = pytz.timezone("Europe/Rome").localize(datetime.datetime(2026, 7, 1, 12, 0))
    zone = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    plain = [
        None, True, 0, -1, 127, -129, 40_000, -(2**63), 2**63 - 1, 0.5, float("inf"), "", "ä\n€", "x" * 70_000, b"\x00\xff",
        [], [1, [2, ["three"]]], {"a": {"b": [1, None]}}, Date(2026, 11, 21), Date(1, 1, 1), Date(9999, 12, 31),
        Time(23, 59, 59, 999_999_999), DateTime(1969, 12, 31, 23, 59, 59, 1), Duration(months=-14, days=3, seconds=5, nanoseconds=7),
        WGS84Point((12.5, 41.9)), WGS84Point((12.5, 41.9, 20.0)), CartesianPoint((1.0, -2.0)), CartesianPoint((1.0, 2.0, 3.0)),
    ]
    with driver.session(database="people") as session:
        for value in plain:
            back = session.run("RETURN $value AS value", value=value).single()["value"]
            assert back == value and type(back) is type(value), (value, back)
        for value in (
            datetime.datetime(2026, 7, 1, 12, 0, 0, 5, zone),
            rome,
        ):
            back = session.run("RETURN $value AS value", value=value).single()["value"]
            assert back.to_native() == value and back.to_native().utcoffset() == value.utcoffset(), (value, back)
        text = session.run("RETURN toString($t) AS t", t=rome)
        assert text.single()["t"] == "2026-07-01T12:00+02:00[Europe/Rome]"
        path = session.run(
            "CREATE p = (:PyV {n: 1})-[:TO {w: 1.5}]->(:PyV {n: 2})<-[:TO]-(:PyV {n: 3}) RETURN p, relationships(p)[0] AS r"
        ).single()
        assert isinstance(path["p"], Path) and isinstance(path["r"], Relationship)
        assert [node["n"] for node in path["p"].nodes] == [1, 2, 3]
        assert path["r"].type == "TO" and path["r"]["w"] == 1.5
        assert path["r"].start_node.element_id == path["p"].nodes[0].element_id
        second = path["p"].relationships[1]
        assert second.start_node["n"] == 3 and second.end_node["n"] == 2
        found = session.run("MATCH (n) WHERE elementId(n) = $id RETURN n.n AS n", id=path["p"].nodes[1].element_id)
        assert found.single()["n"] == 2
        ahead = Time(12, 0, 0, 1, tzinfo=pytz.FixedOffset(14 * 60))
        assert session.run("RETURN $t AS t", t=ahead).single()["t"] == ahead


def slow_stream(driver):
    with driver.session(database="people", fetch_size=100) as session:
        result = session.run("UNWIND range(1, 20000) AS n RETURN n, 'row ' + n AS text")
        total = 0
        for number, row in enumerate(result):
            total += row["n"]
            if number % 4000 == 0:
                time.sleep(0.05)
        assert total == 20_000 * 20_001 // 2
        # The rest of a long result is not consumed.
        result = session.run("UNWIND range(1, 100000000) AS n RETURN n")
        assert next(iter(result))["n"] == 1
        result.consume()


def bookmarks(driver):
    with driver.session(database="people") as session:
        session.run("CREATE (:PyB)").consume()
        marks = session.last_bookmarks()
    with driver.session(database="people", bookmarks=marks) as session:
        assert session.run("MATCH (b:PyB) RETURN count(b) AS n").single()["n"] == 1
    wrong = neo4j.Bookmarks.from_raw_values(["nonsense"])
    with driver.session(database="people", bookmarks=wrong) as session:
        refused(ClientError, "Neo.ClientError.Transaction.InvalidBookmark", lambda: session.run("RETURN 1").consume())


def several_databases(driver):
    driver.execute_query("CREATE (:PyOther)", database_="other")
    count = "MATCH (n:PyOther) RETURN count(n) AS n"
    assert driver.execute_query(count, database_="other").records[0]["n"] == 1
    assert driver.execute_query(count, database_="people").records[0]["n"] == 0
    refused(ClientError, "Neo.ClientError.Database.DatabaseNotFound", lambda: driver.execute_query("RETURN 1", database_="nowhere"))
    with GraphDatabase.driver(ROUTED, auth=AUTH) as routed:
        assert routed.execute_query(count, database_="other", routing_="r").records[0]["n"] == 1
        with routed.session() as session:
            assert session.run("RETURN 1").consume().database == "people"


def time_limits(driver):
    long = "UNWIND range(1, 100000000) AS a WITH a WHERE a % 7 = 8 RETURN count(a)"
    began = time.monotonic()
    with driver.session(database="people") as session:
        refused(ClientError, "Neo.ClientError.Transaction.TransactionTimedOut", lambda: session.run(neo4j.Query(long, timeout=0.3)).consume())
        assert time.monotonic() - began < 10
        assert session.run("RETURN 1 AS one").single()["one"] == 1


def errors(driver):
    with driver.session(database="people") as session:
        error = refused(CypherSyntaxError, "Neo.ClientError.Statement.SyntaxError", lambda: session.run("RETRUN 1").consume())
        assert error.gql_status == "42001" and "line 1, column 1" in error.message
        refused(ClientError, "Neo.ClientError.Statement.ParameterMissing", lambda: session.run("RETURN $x").consume())
        session.run("CREATE (:PyKey {_key: 1})").consume()
        refused(ConstraintError, "Neo.ClientError.Schema.ConstraintValidationFailed", lambda: session.run("CREATE (:PyKey {_key: 1})").consume())
        tx = session.begin_transaction()
        tx.run("CREATE (:PyGone)").consume()
        refused(ClientError, "Neo.ClientError.Statement.ArithmeticError", lambda: tx.run("RETURN 1 / 0").consume())
        assert tx.closed() or tx.close() is None
        assert session.run("MATCH (n:PyGone) RETURN count(n) AS n").single()["n"] == 0
    with driver.session(database="people", default_access_mode=neo4j.READ_ACCESS) as session:
        refused(ClientError, "Neo.ClientError.Statement.AccessMode", lambda: session.run("CREATE (:No)").consume())
    with driver.session(database="people", impersonated_user="bob") as session:
        refused(ClientError, "Neo.ClientError.Security.Forbidden", lambda: session.run("RETURN 1").consume())


def plans_and_notifications(driver):
    with driver.session(database="people") as session:
        plan = session.run("EXPLAIN MATCH (n:Py) RETURN n").consume().plan
        assert plan["operatorType"] and plan["children"]
        profile = session.run("PROFILE UNWIND [1, 2] AS n RETURN n").consume().profile
        assert profile["rows"] == 2, profile
        statuses = session.run("MATCH (n:PyNothing) RETURN n").consume().gql_status_objects
        assert [one.gql_status for one in statuses] == ["02000", "01N50"], statuses
    with driver.session(database="people", notifications_min_severity="OFF") as session:
        assert len(session.run("MATCH (n:PyNothing) RETURN n").consume().gql_status_objects) == 1


def rights(driver):
    password = os.environ["PASSWORD"]
    with GraphDatabase.driver(URL, auth=("reader", password)) as reader:
        assert reader.execute_query("RETURN 1 AS one").records[0]["one"] == 1
        refused(ClientError, "Neo.ClientError.Security.Forbidden", lambda: reader.execute_query("CREATE (:No)"))
        refused(ClientError, "Neo.ClientError.Security.Forbidden", lambda: reader.execute_query("RETURN 1", database_="other"))
    with GraphDatabase.driver(URL, auth=("reader", "a wrong one")) as nobody:
        refused(AuthError, "Neo.ClientError.Security.Unauthorized", nobody.verify_connectivity)


def tls(_driver):
    secure = os.environ["BOLT_TLS"]
    with GraphDatabase.driver("bolt+ssc://" + secure, auth=AUTH) as driver:
        assert driver.execute_query("RETURN 1 AS one").records[0]["one"] == 1
        assert len(driver.execute_query("UNWIND range(1, 50000) AS n RETURN n").records) == 50_000
    for scheme in ("bolt+s", "bolt"):
        with GraphDatabase.driver(f"{scheme}://{secure}", auth=AUTH, connection_timeout=3) as driver:
            try:
                driver.verify_connectivity()
            except neo4j.exceptions.DriverError:
                continue
            raise AssertionError(f"{scheme} was let in")


TESTS = [
    auto_commit, explicit_transactions, managed_retries, values, slow_stream, bookmarks, several_databases,
    time_limits, errors, plans_and_notifications, rights, tls,
]


def main():
    failed = 0
    with GraphDatabase.driver(URL, auth=AUTH) as driver:
        driver.verify_connectivity()
        for test in TESTS:
            try:
                test(driver)
                outcome = "ok"
            except Exception:
                traceback.print_exc()
                outcome = "FAILED"
                failed += 1
            print(f"test python::{test.__name__} ... {outcome}", flush=True)
    print(f"test result: {'FAILED' if failed else 'ok'}. {len(TESTS) - failed} passed; {failed} failed; 0 ignored")
    sys.exit(1 if failed else 0)


main()
