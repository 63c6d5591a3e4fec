"""cypher-shell: its start, formats, parameters, transactions, commands and exit codes."""

import os
import subprocess

from harness import PASSWORD, URI, USER, run

CLASSES = os.path.join(os.environ["MODULES"], "*")


def shell(text, *options):
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", CLASSES, "org.neo4j.shell.Main", "-a", URI, "-u", USER, "-p", PASSWORD]
    done = subprocess.run([*command, "-d", "people", *options], input=text, capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout, done.stderr


def statements_print_tables():
    code, out, err = shell(
        "CREATE (:Person {name: 'Ada', age: 36})-[:KNOWS]->(:Person {name: 'Bob'});\n"
        "MATCH (a:Person)-[r:KNOWS]->(b) RETURN a.name AS a, r, b ORDER BY a;\n"
        "MATCH (p:Person) RETURN count(*) AS n;",
        "--format",
        "verbose",
    )
    assert code == 0, err
    assert "Added 2 nodes, Created 1 relationships, Set 3 properties, Added 2 labels" in out, out
    assert '| "Ada" | [:KNOWS] | (:Person {name: "Bob"}) |' in out, out
    assert "| 2 |" in out and "1 row" in out, out


def parameters_are_set_and_listed():
    code, out, err = shell(":param {limit: 2, name: 'Ada'}\n:params\nUNWIND range(1, 9) AS n RETURN n LIMIT $limit;\n", "--format", "plain")
    assert code == 0, err
    assert "limit: 2" in out and "name: 'Ada'" in out, out
    assert out.rstrip().endswith("n\n1\n2"), out


def transactions_commit_and_roll_back():
    text = (
        ":begin\nCREATE (:Tx {n: 1});\n:rollback\n:begin\nCREATE (:Tx {n: 2});\n:commit\n"
        "MATCH (t:Tx) RETURN collect(t.n) AS n;\n"
    )
    code, out, err = shell(text, "--format", "plain")
    assert code == 0, err
    assert out.rstrip().endswith("n\n[2]"), out


def plans_are_printed():
    code, out, err = shell("EXPLAIN MATCH (p:Person) RETURN p;\nPROFILE MATCH (p:Person) RETURN p.name;", "--format", "verbose")
    assert code == 0, err
    assert '"EXPLAIN"' in out and '"PROFILE"' in out, out
    assert "| Operator" in out and "Estimated Rows" in out, out


def schema_commands_are_accepted():
    text = (
        "CREATE CONSTRAINT person_name FOR (p:Person) REQUIRE p.name IS UNIQUE;\n"
        "SHOW CONSTRAINTS YIELD name, type, labelsOrTypes, properties;\n"
        ":use system\nSHOW DATABASES YIELD name;\n:use people\n:sysinfo\n"
    )
    code, out, err = shell(text, "--format", "plain")
    assert '"person_name", "UNIQUENESS", ["Person"], ["name"]' in out, (out, err)
    assert '"people"' in out and '"system"' in out, out


def errors_end_with_a_code():
    code, _, err = shell("no statement;\n", "--format", "plain")
    assert code == 1 and "no" in err, (code, err)
    code, out, _ = shell("no statement;\nRETURN 7 AS n;\n", "--format", "plain", "--fail-at-end")
    assert code == 1 and "7" in out, (code, out)


run(
    "cypher-shell",
    [
        statements_print_tables,
        parameters_are_set_and_listed,
        transactions_commit_and_roll_back,
        plans_are_printed,
        schema_commands_are_accepted,
        errors_end_with_a_code,
    ],
)
