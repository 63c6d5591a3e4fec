"""Every route of the server with requests that fit its description and ones that do not, made by schemathesis: none may end in a
fault of the server's own (5xx), and none has a status that the description does not tell. See ../README.md. EXAMPLES is how many requests of each kind a route gets."""

import json
import os
import re
import subprocess
import sys
import urllib.request

URL = os.environ["URL"]
PASSWORD = os.environ["PASSWORD"]
HERE = os.path.dirname(os.path.abspath(__file__))


def call(method, path, body=None, token=""):
    fields = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(URL + path, data, fields, method=method)) as answer:
        text = answer.read()
        return json.loads(text) if text else None


def prepare():
    """What is there for requests to meet: see KNOWN in hooks.py."""
    token = call("POST", "/v1/login", {"user": "admin", "password": PASSWORD})["token"]
    database = "/v1/databases/other"
    call("PUT", f"{database}/collections/Label/key", {"n": 1}, token)
    for field, update in (("counter", {"counter": 1}), ("set", {"set": {"add": ["a"]}}), ("map", {"map": {"update": {"n": {"counter": 1}}}})):
        call("POST", f"{database}/collections/Label/key/fields/{field}", {"update": update}, token)
    call("PUT", f"{database}/buckets/bucket/keys/key", {"n": 1}, token)
    call("PUT", f"{database}/buckets/multi", {"multi": True}, token)
    call("POST", f"{database}/query", {"query": "CREATE (a:Label)-[:TYPE {n: 1}]->(b:Label)"}, token)
    call("PUT", f"{database}/files?path=/folder", None, token)
    return token


def run(token):
    command = [
        os.path.join(os.path.dirname(sys.executable), "schemathesis"), "run", f"{URL}/v1/openapi.json",
        "--header", f"Authorization: Bearer {token}",
        "--checks", "not_a_server_error,status_code_conformance", "--phases", "examples,coverage,fuzzing" if os.environ.get("EXAMPLES") else "fuzzing",
        "--max-examples", os.environ.get("EXAMPLES", "5"), "--seed", os.environ.get("SEED", "1"), "--no-color",
        "--max-time", os.environ.get("SECONDS_AT_MOST", "90"), "--request-timeout", "20", "--no-shrink", "--continue-on-failure",
        # The two feeds have no end, and who logs out is let in no more.
        "--exclude-path-regex", "/changes$|/logout$",
    ]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": HERE}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=os.environ.get("FOLDER", "."))
    return done.returncode, done.stdout + done.stderr


def main():
    code, text = run(prepare())
    tried = re.search(r"(\d+) generated", text)
    operations = re.search(r"Operations:\s+(\d+) selected / (\d+) total", text)
    fine = code == 0 and tried and int(tried.group(1)) > 300 and operations and int(operations.group(2)) - int(operations.group(1)) == 3
    if not fine:
        print(text)
    else:
        print(f"{tried.group(1)} requests to {operations.group(1)} routes")
    # The server is still there, and knows who asks.
    alive = call("POST", "/v1/login", {"user": "admin", "password": PASSWORD})["token"] != ""
    outcomes = {"no_request_meets_a_fault_of_the_server": fine, "the_server_is_there_afterwards": alive}
    for name, outcome in outcomes.items():
        print(f"test interface::{name} ... {'ok' if outcome else 'FAILED'}", flush=True)
    failed = list(outcomes.values()).count(False) + list(outcomes.values()).count(None)
    print(f"test result: {'FAILED' if failed else 'ok'}. {len(outcomes) - failed} passed; {failed} failed; 0 ignored")
    sys.exit(1 if failed else 0)


main()
