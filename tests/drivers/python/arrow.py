"""Results in Arrow's format, read by pyarrow: see ../README.md."""

import datetime
import http.client
import json
import os
import sys
import traceback
import urllib.error
import urllib.request

import pyarrow as pa
import pyarrow.ipc

URL = os.environ["URL"]
UTC = datetime.timezone.utc


def call(path, body, token="", headers=()):
    fields = {"Content-Type": "application/json", "Authorization": f"Bearer {token}", **dict(headers)}
    return urllib.request.urlopen(urllib.request.Request(URL + path, json.dumps(body).encode(), fields))


def login():
    with call("/v1/login", {"user": "admin", "password": os.environ["PASSWORD"]}) as answer:
        return json.load(answer)["token"]


TOKEN = login()


def open_stream(query, types=None, **parameters):
    body = {"query": query, "parameters": parameters}
    if types:
        body["types"] = types
    answer = call("/v1/databases/people/query", body, TOKEN, [("Accept", "application/vnd.apache.arrow.stream")])
    assert answer.headers["Content-Type"] == "application/vnd.apache.arrow.stream", answer.headers
    return answer


def table(query, types=None, **parameters):
    with pa.ipc.open_stream(open_stream(query, types, **parameters)) as reader:
        found = reader.read_all()
    found.validate(full=True)
    return found


def kinds():
    found = table(
        "UNWIND [0, 1] AS i WITH i, CASE i WHEN 1 THEN null ELSE 1 END AS one RETURN i = 0 AS truth, 9223372036854775807 - i AS int, "
        "i / 2.0 AS float, CASE i WHEN 0 THEN 'aä' END AS text, $bytes AS bytes, date('2026-11-21') AS date, localtime('23:59:59.000000001') AS time, "
        "localdatetime('1969-12-31T23:59:59.5') AS local, datetime('2026-11-21T12:00:00.000000001[Europe/Rome]') AS rome, "
        "datetime('9999-12-30T00:00:00Z') AS far, duration('P1Y2M3DT4.5S') AS amount, [i, null] AS list, [[], ['x']] AS nested, "
        "null AS nothing, {a: i} AS map, one AS with_null",
        bytes={"$bytes": "AP8="},
    )
    types = {name: str(found.schema.field(name).type) for name in found.column_names}
    assert types == {
        "truth": "bool", "int": "int64", "float": "double", "text": "string", "bytes": "binary", "date": "date32[day]",
        "time": "time64[ns]", "local": "timestamp[us]", "rome": "timestamp[ns, tz=Europe/Rome]", "far": "timestamp[us, tz=UTC]",
        "amount": "month_day_nano_interval", "list": "list<item: int64>", "nested": "list<item: list<item: string>>",
        "nothing": "null", "map": "string", "with_null": "int64",
    }, types
    row = found.slice(0, 1)
    value = {name: row[name][0] for name in row.column_names}
    assert [value[name].as_py() for name in ("truth", "int", "float", "text", "bytes")] == [True, 2**63 - 1, 0.0, "aä", b"\x00\xff"]
    assert found["int"].to_pylist() == [2**63 - 1, 2**63 - 2]
    assert found["text"].to_pylist() == ["aä", None] and found["with_null"].null_count == 1
    assert value["date"].as_py() == datetime.date(2026, 11, 21)
    assert value["time"].value == (24 * 3600 - 1) * 10**9 + 1
    assert value["local"].as_py() == datetime.datetime(1969, 12, 31, 23, 59, 59, 500_000)
    noon = int(datetime.datetime(2026, 11, 21, 11, tzinfo=UTC).timestamp())
    assert value["rome"].value == noon * 10**9 + 1
    assert value["far"].value == 253402128000 * 10**6
    assert value["amount"].as_py() == pa.MonthDayNano([14, 3, 4_500_000_000])
    assert found["list"].to_pylist() == [[0, None], [1, None]] and found["nested"].to_pylist() == [[[], ["x"]]] * 2
    assert found["nothing"].to_pylist() == [None, None]
    assert [json.loads(text) for text in found["map"].to_pylist()] == [{"a": 0}, {"a": 1}]
    assert found.schema.field("map").metadata == {b"isomer.type": b"json"}


def columns_of_several_kinds():
    found = table("UNWIND [1, 'two', 3.5, null, [4], {five: 6}] AS mixed RETURN mixed")
    assert found["mixed"].to_pylist() == ["1", '"two"', "3.5", None, "[4]", '{"five":6}']
    assert table("UNWIND [1, 2.5] AS n RETURN n")["n"].to_pylist() == [1.0, 2.5]
    exact = table("UNWIND [9007199254740993, 0.5] AS n RETURN n")["n"].to_pylist()
    assert exact == ["9007199254740993", "0.5"], "no integer is rounded"
    assert [float(one) for one in table("RETURN 0.0 / 0.0 AS nan, 1.0 / 0.0 AS inf").to_pylist()[0].values()][1] == float("inf")


def records():
    found = table("CREATE (a:ArrowNode {n: 1})-[r:ARROW {w: 2.5}]->(b:ArrowNode) RETURN a, r, [a] AS list")
    node = json.loads(found["a"][0].as_py())
    assert "ArrowNode" in json.dumps(node) and found["list"].type == pa.list_(pa.string())
    count = table("MATCH (:ArrowNode)-[r:ARROW]->() RETURN count(r) AS n")
    assert count["n"].to_pylist() == [1], "what was written is committed when the stream ends"


def many_batches():
    with pa.ipc.open_stream(open_stream("UNWIND range(1, 200000) AS n RETURN n, toString(n) AS text, n % 7 = 0 AS seventh")) as reader:
        rows, total, batches = 0, 0, 0
        for batch in reader:
            batch.validate(full=True)
            rows, batches = rows + batch.num_rows, batches + 1
            total += sum(batch["n"].to_pylist())
            assert batch["text"].to_pylist() == [str(n) for n in batch["n"].to_pylist()]
            assert batch["seventh"].to_pylist() == [n % 7 == 0 for n in batch["n"].to_pylist()]
    assert (rows, total) == (200_000, 200_000 * 200_001 // 2) and batches > 10
    empty = table("MATCH (n:ArrowNobody) RETURN n.a AS a, n.b AS b")
    assert (empty.num_rows, empty.column_names) == (0, ["a", "b"])


def types_that_are_said():
    late = "UNWIND range(1, 100000) AS n RETURN CASE WHEN n > 90000 THEN n END AS late"
    assert str(table(late, {"late": "int"})["late"].type) == "int64"
    try:
        table(late)
        raise AssertionError("nulls came first")
    except (http.client.IncompleteRead, pa.ArrowInvalid, OSError):
        pass
    assert table("RETURN 1 AS n", {"n": "json"})["n"].to_pylist() == ["1"]
    for types in ({"n": "number"}, {"other": "int"}, {"n": 1}):
        try:
            open_stream("RETURN 1 AS n", types)
            raise AssertionError("it was taken")
        except urllib.error.HTTPError as error:
            assert error.code == 400, error.read()


def errors_and_limits():
    for query, code in (("RETURN", 400), ("MATCH (n) RETURN n.x AS x, n.x AS x", 400), ("RETURN 1 / 0 AS n", 400)):
        try:
            table(query)
            raise AssertionError(query)
        except urllib.error.HTTPError as error:
            assert error.code == code or code is None, (query, error.code)
        except (http.client.IncompleteRead, pa.ArrowInvalid, OSError):
            assert code is None, query
    # A reader that disconnects cancels its query.
    with open_stream("UNWIND range(1, 100000000) AS n RETURN n") as answer:
        assert answer.read(1000)


TESTS = [kinds, columns_of_several_kinds, records, many_batches, types_that_are_said, errors_and_limits]


def main():
    failed = 0
    for test in TESTS:
        try:
            test()
            outcome = "ok"
        except Exception:
            traceback.print_exc()
            outcome = "FAILED"
            failed += 1
        print(f"test arrow::{test.__name__} ... {outcome}", flush=True)
    print(f"test result: {'FAILED' if failed else 'ok'}. {len(TESTS) - failed} passed; {failed} failed; 0 ignored")
    sys.exit(1 if failed else 0)


main()
