"""Kills a server under mixed load (kill -9) repeatedly: checks that every acknowledged write survives, and measures how soon it
answers as before. Started by `cargo xtask kills`; prints one JSON object per line, as `isomer bench` does.

Sixteen clients, each over its own connection, send one request after the other: of five, two put a key, one inserts a document with a
relationship by a query, two read acknowledged writes and compare them. Acknowledged writes are recorded in the client's journal;
a request without an answer may have been executed or not, and its write must exist completely or not at all. After the last kill all
journals are compared with the database."""

import argparse
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

PASSWORD = "only for this test"
CLIENTS = 16
DATABASE = "/v1/databases/load"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, binary, folder, port):
        self.command = [binary, "--memory", "512MiB", "serve", "load.isomer", "--create", "--listen", f"127.0.0.1:{port}", "--set", "log.level=warn"]
        self.folder, self.port = folder, port
        self.log = open(os.path.join(folder, "log"), "ab")
        self.start()

    def start(self):
        self.began = time.monotonic()
        environment = {**os.environ, "ISOMER_ADMIN_PASSWORD": PASSWORD}
        self.process = subprocess.Popen(self.command, cwd=self.folder, stdout=self.log, stderr=self.log, env=environment)
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ready", timeout=5).read()
                return time.monotonic() - self.began
            except OSError:
                if self.process.poll() is not None:
                    sys.exit(f"the server ended by itself: see {self.folder}/log")
                time.sleep(0.01)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Client(threading.Thread):
    def __init__(self, number, port, token, stop):
        super().__init__()
        self.number, self.port, self.stop = number, port, stop
        self.fields = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self.random = random.Random(number)
        self.keys, self.documents, self.open = {}, set(), set()
        self.times, self.wrong, self.connection = [], [], None

    def ask(self, method, path, body=None):
        began = time.monotonic()
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            self.connection.request(method, DATABASE + path, None if body is None else json.dumps(body), self.fields)
            answer = self.connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            self.connection = None
            self.times.append((began, None))
            time.sleep(0.02)
            return None, None
        self.times.append((began, time.monotonic() - began))
        return answer.status, json.loads(text) if text else None

    def run(self):
        at = 0
        while not self.stop.is_set():
            at += 1
            choice = self.random.randrange(5)
            if choice < 2:
                key, value = f"{self.number}-{at}", {"n": at, "text": "x" * self.random.randrange(200)}
                status, _ = self.ask("PUT", f"/buckets/load/keys/{key}", value)
                if status == 204 or status == 201:
                    self.keys[key] = value
                elif status is not None:
                    self.wrong.append(f"PUT {key}: {status}")
            elif choice == 2:
                name = f"{self.number}-{at}"
                query = "CREATE (a:Load {_key: $name, n: $n})-[:OF]->(b:Part {_key: $name, n: $n})"
                status, answer = self.ask("POST", "/query", {"query": query, "parameters": {"name": name, "n": at}})
                if status == 200:
                    self.documents.add(name)
                else:
                    self.open.add(name)
                    if status is not None:
                        self.wrong.append(f"CREATE {name}: {status} {answer}")
            elif self.keys:
                key = self.random.choice(list(self.keys)[-1000:])
                status, value = self.ask("GET", f"/buckets/load/keys/{key}")
                if status is not None and (status, value) != (200, self.keys[key]):
                    self.wrong.append(f"GET {key}: {status} {value}")


def p99_ms(clients, begins, ends):
    """The p99 of requests sent in that time; those without an answer count as infinite."""
    times = sorted(took if took is not None else float("inf") for client in clients for began, took in list(client.times) if begins <= began < ends)
    return times[int(len(times) * 0.99)] * 1000 if times else float("inf")


def back_after_s(clients, killed, usual_ms):
    """Seconds from the kill to the end of the first whole second in which the p99 is at most twice the usual one, and stays so for three."""
    good = lambda second: p99_ms(clients, killed + second, killed + second + 1) <= max(2 * usual_ms, usual_ms + 10)
    return next((second + 1 for second in range(40) if all(good(second + more) for more in range(3))), None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--every", type=float, default=60, help="seconds between two kills")
    parser.add_argument("binary")
    options = parser.parse_args()

    def report(case, value, unit, **more):
        print(json.dumps({"bench": "kills", "case": case, "value": value, "unit": unit, **more}), flush=True)

    with tempfile.TemporaryDirectory() as folder:
        server = Server(os.path.abspath(options.binary), folder, free_port())
        body = json.dumps({"user": "admin", "password": PASSWORD}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{server.port}/v1/login", body, {"Content-Type": "application/json"})
        token = json.load(urllib.request.urlopen(request))["token"]
        stop = threading.Event()
        clients = [Client(number, server.port, token, stop) for number in range(CLIENTS)]
        began = time.monotonic()
        for client in clients:
            client.start()
        kills, restarts = [], []
        while time.monotonic() - began + options.every / 2 < options.minutes * 60:
            time.sleep(options.every / 2 if not kills else max(0.0, options.every - (time.monotonic() - kills[-1])))
            kills.append(time.monotonic())
            server.kill()
            restarts.append(server.start())
        time.sleep(max(15.0, options.minutes * 60 - (time.monotonic() - began)))
        ended = time.monotonic()
        stop.set()
        for client in clients:
            client.join()

        checker = clients[0]
        checker.connection = None
        lost, half, checked = [], [], 0
        for client in clients:
            for key, value in client.keys.items():
                checked += 1
                status, found = checker.ask("GET", f"/buckets/load/keys/{key}")
                if (status, found) != (200, value):
                    lost.append(f"key {key}: {status}")
        count = lambda query: checker.ask("POST", "/query", {"query": query, "limits": {"rows": 10_000_000}})[1]["rows"]
        there = {row[0] for row in count("MATCH (a:Load)-[:OF]->(b:Part) WHERE a._key = b._key AND a.n = b.n RETURN a._key")}
        parts = count("MATCH (a:Load) RETURN count(*) UNION ALL MATCH (b:Part) RETURN count(*)")
        written = set().union(*(client.documents for client in clients))
        possible = written.union(*(client.open for client in clients))
        checked += len(written)
        lost += [f"document {name}" for name in written - there]
        half += [f"{len(there)} pairs, {parts}"] if parts != [[len(there)], [len(there)]] or there - possible else []
        wrong = [what for client in clients for what in client.wrong]

        usual = sorted(p99_ms(clients, killed - 10, killed) for killed in kills)[len(kills) // 2]
        backs = [back_after_s(clients, killed, usual) for killed in kills]
        answered = sum(took is not None for client in clients for _, took in client.times)
        report("kills", len(kills), "n")
        report("requests_per_s", round(answered / (ended - began), 1), "1/s", n=answered)
        report("acknowledged_checked", checked, "n")
        report("acknowledged_lost", len(lost), "n")
        report("p99_ms", round(usual, 2), "ms")
        report("restart_s_max", round(max(restarts), 2), "s", n=len(restarts))
        worst = max((back if back is not None else float("inf") for back in backs), default=float("inf"))
        report("p99_back_s_max", worst if worst != float("inf") else -1, "s", n=len(backs), each=backs)
        for what in (lost + half + wrong)[:20]:
            print(what, file=sys.stderr)
        server.process.send_signal(signal.SIGTERM)
        clean = server.process.wait(timeout=15) == 0
        sys.exit(0 if clean and kills and not lost and not half and not wrong and worst <= 10 else 1)


main()
