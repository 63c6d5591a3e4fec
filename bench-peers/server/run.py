#!/usr/bin/env python3
"""The server beside PostgreSQL, asked from node.js (bench.js), and loaded with wrk: prints one JSON object a line.

The network is that of `isomer generate`; IsomerDB is asked over HTTP and over Bolt with Neo4j's driver, PostgreSQL with `pg` over a Unix
socket. All commits are synced. Each round asks the systems in turn; a figure is the median of the rounds.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent), str(ROOT / "examples/chat")]

import network
from postgres import Postgres, need

WRK = """
local people = 0
local threads = 0
function setup(thread) thread:set("at", threads); threads = threads + 1 end
function init(arguments) people = tonumber(arguments[1]); math.randomseed(20261121 + at) end
function request() return wrk.format("GET", "/v1/databases/bench/collections/Person/P" .. math.random(people)) end
function done(summary, latency) io.write(string.format("p99 %.3f\\n", latency:percentile(99) / 1000)) end
"""
TABLES = """
CREATE TABLE person (id integer, key text, age smallint, completion smallint, doc jsonb);
CREATE TABLE friend (src integer, dst integer);
CREATE TABLE written (key text PRIMARY KEY, doc jsonb);
\\copy person FROM 'people.csv' (FORMAT csv)
\\copy friend FROM 'friends.csv' (FORMAT csv)
CREATE UNIQUE INDEX ON person(id);
CREATE UNIQUE INDEX ON person(key);
CREATE UNIQUE INDEX ON friend(src, dst);
CREATE UNIQUE INDEX ON friend(dst, src);
VACUUM ANALYZE;
CHECKPOINT;
"""


def say(text):
    print(text, file=sys.stderr, flush=True)


class Server:
    """`isomer serve` over the network, stopped at the end."""

    def __init__(self, isomer, folder, data):
        load = lambda *what: subprocess.run([isomer, "import", folder / "db", *what], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        load("nodes", data / "profiles.jsonl", "--label", "Person")
        ends = ["--columns", "from,to", "--type", "FRIEND", "--from", "Person", "--to", "Person"]
        load("relationships", data / "edges.tsv", *ends)
        log = folder / "isomer.log"
        command = [isomer, "serve", f"bench={folder / 'db'}", "--listen", "127.0.0.1:0", "--bolt", "127.0.0.1:0", "--without-authentication"]
        command += ["--set", "log.format=json", "--set", "log.audit=off"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(log, "w"))
        for _ in range(600):
            for line in log.read_text().splitlines():
                told = json.loads(line) if line.startswith("{") else {}
                if told.get("url") and told.get("bolt"):
                    self.http, self.bolt = told["url"], told["bolt"]
                    return
            time.sleep(0.1)
        raise RuntimeError(log.read_text())

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


def connected(postgres, text, data):
    command = [str(postgres.programs / "psql"), "-q", "-v", "ON_ERROR_STOP=1", "-h", str(postgres.folder), "-U", "chat", "chat"]
    subprocess.run(command, input=text, text=True, check=True, cwd=data, stdout=subprocess.DEVNULL)


def wrk(server, script, people, seconds):
    """Reads a second and the time that 99 of 100 stay below, in ms: 16 connections, the client on the same machine."""
    load = lambda time: subprocess.run(["wrk", "-t2", "-c16", f"-d{time}s", "-s", script, server.http, "--", str(people)], capture_output=True, text=True, check=True).stdout
    load(2)
    told = load(seconds)
    if "Non-2xx" in told or "Socket errors" in told:
        raise RuntimeError(told)
    return float(re.search(r"Requests/sec:\s+([\d.]+)", told)[1]), float(re.search(r"p99 ([\d.]+)", told)[1])


def stop(*_):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.0625, help="of the network: %(default)s has 102,050 people")
    parser.add_argument("--n", type=int, default=100_000, help="documents read, and written")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=10, help="how long wrk reads in each round")
    parser.add_argument("--isomer", type=Path, help="the binary [default: a release build of this checkout]")
    parser.add_argument("--systems", default="isomer-http,isomer-bolt,postgresql")
    parser.add_argument("--folder", help="where the databases are made: on the disk that is to be measured")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    need("node", "nodejs")
    need("npm", "npm")
    need("wrk", "wrk")
    if not (HERE / "node_modules/pg").is_dir():
        subprocess.run(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"], cwd=HERE, check=True, stdout=sys.stderr)
    isomer = options.isomer
    if isomer is None:
        subprocess.run(["cargo", "build", "--release", "--locked", "--package", "isomer-cli"], cwd=ROOT, check=True)
        isomer = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/isomer"
    isomer, systems = isomer.resolve(), options.systems.split(",")
    figures = {}

    def figure(system, case, value, unit, n):
        figures.setdefault((system, case), (unit, n, []))[2].append(value)

    with tempfile.TemporaryDirectory(prefix="isomer-server-", dir=options.folder) as folder:
        folder = Path(folder)
        folder.chmod(0o755)
        data = folder / "network"
        data.mkdir()
        network.make(isomer, options.scale, data)
        people = sum(1 for _ in open(data / "people.csv"))
        postgres, server = None, None
        try:
            if "postgresql" in systems:
                (folder / "postgres").mkdir()
                postgres = Postgres(folder / "postgres")
                connected(postgres, TABLES, data)
            server = Server(isomer, folder, data)
            addresses = {"isomer-http": server.http, "isomer-bolt": server.bolt, "postgresql": str(folder / "postgres")}
            script = folder / "reads.lua"
            script.write_text(WRK)
            for at in range(options.rounds):
                for system in systems:
                    say(f"round {at + 1}: {system}")
                    command = ["node", HERE / "bench.js", "--data", data, "--system", system, "--address", addresses[system], "--n", str(options.n)]
                    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                    for line in map(json.loads, told.splitlines()):
                        figure(system, line["case"], line["value"], line["unit"], line["n"])
                rate, p99 = wrk(server, script, people, options.seconds)
                figure("isomer-http", "http_reads_per_s", rate, "1/s", people)
                figure("isomer-http", "http_read_p99_ms", p99, "ms", people)
        finally:
            if server:
                server.stop()
            if postgres:
                postgres.stop()
    for (system, case), (unit, n, values) in figures.items():
        print(json.dumps({"bench": "server", "case": case, "value": round(statistics.median(values), 4), "unit": unit, "n": n, "system": system}))


if __name__ == "__main__":
    main()
