#!/usr/bin/env python3
"""The chat on all four stores: `run.py test` runs the same script on each of them, and browsers that talk to each
other; `run.py bench` loads each over HTTP with wrk, in turn, and prints one JSON object per line.

PostgreSQL (Debian's) is started in a temporary folder, on a Unix socket; wrk, node and Chromium are Debian's, too.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from postgres import Postgres, need

HERE = Path(__file__).resolve().parent
SYSTEMS = ["isomer", "isomer-kv", "postgresql", "leveldb"]


def say(text):
    print(text, file=sys.stderr, flush=True)


def build(profile, *what):
    """Builds with cargo in the workspace; the paths of the executables."""
    profiles = [] if profile == "dev" else ["--profile", profile]
    command = ["cargo", *what, "--locked", *profiles, "--package", "isomer-chat", "--message-format=json-render-diagnostics"]
    told = subprocess.run(command, cwd=HERE, check=True, stdout=subprocess.PIPE, text=True).stdout
    messages = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    return {message["target"]["name"]: message["executable"] for message in messages if message.get("executable")}


class Chat:
    """`isomer-chat serve`, stopped at the end."""

    def __init__(self, binary, arguments):
        # It chooses its port itself: a free port found here could be taken by then.
        command = [binary, "serve", "--listen", "127.0.0.1:0", *arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        said = []
        for line in self.process.stderr:
            said.append(line)
            if found := re.search(r"the chat is at (http://[\d.:]+)/", line):
                break
        else:
            raise RuntimeError(f"the chat ended with {self.process.wait()}: {''.join(said)}")
        self.url = found[1]
        threading.Thread(target=self.drain, daemon=True).start()

    def drain(self):
        """Discards the output, so that the process never blocks on writing it."""
        for _ in self.process.stderr:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


def stop(*_):
    """Handles the signal like Ctrl-C, so that started processes are stopped."""
    raise KeyboardInterrupt


def test(options):
    """The tests over all stores, then two browsers on each."""
    need("node", "nodejs")
    need("chromium", "chromium")
    program, binary = (path and path.resolve() for path in (options.program, options.binary))
    if program is None:
        program = build("dev", "test", "--no-run", "--test", "stores")["stores"]
    if binary is None:
        binary = build("dev", "build")["isomer-chat"]
    failed = False
    with tempfile.TemporaryDirectory(prefix="isomer-chat-") as folder:
        os.chmod(folder, 0o755)
        (Path(folder) / "postgres").mkdir()
        postgres = Postgres(Path(folder) / "postgres")
        try:
            environment = {**os.environ, "CHAT_POSTGRES": postgres.parameters}
            failed |= subprocess.run([program, "--include-ignored"], cwd=HERE, env=environment).returncode != 0
            postgres.renew()
            for system in SYSTEMS:
                store = ["--backend", system, "--data", str(Path(folder) / system), "--postgres", postgres.parameters]
                with Chat(binary, store) as chat:
                    command = ["node", HERE / "tests/two.mjs", chat.url, system]
                    if options.pictures and system == "isomer":
                        command.append(options.pictures)
                    failed |= subprocess.run(command).returncode != 0
        finally:
            postgres.stop()
    sys.exit(1 if failed else 0)


WRK = """
local threads = 0
function setup(thread) thread:set("at", threads); threads = threads + 1 end
function init(arguments)
  local chats = {}
  for chat in string.gmatch(arguments[2], "%d+") do chats[#chats + 1] = chat end
  local chat = chats[at % #chats + 1]
  local headers = {["Session"] = string.format("load-%04d", at), ["Content-Type"] = "application/json"}
  if arguments[1] == "list" then made = wrk.format("GET", "/api/chats", headers)
  elseif arguments[1] == "send" then made = wrk.format("POST", "/api/chats/" .. chat .. "/messages", headers, '{"text":"a message of the load test, as long as messages are"}')
  else made = wrk.format("GET", "/api/chats/" .. chat .. "/messages?n=" .. arguments[3], headers) end
end
function request() return made end
"""


# Keeps a processor busy with the lowest scheduling priority.
IDLER = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while True: pass
"""


@contextlib.contextmanager
def awake(wanted):
    """Keeps the processors from sleeping: those of a virtual machine are slow to wake, and with one user each request wakes
    the server and the client."""
    processors = os.sched_getaffinity(0) if wanted else []
    idlers = [subprocess.Popen([sys.executable, "-c", IDLER, str(processor)]) for processor in processors]
    try:
        yield
    finally:
        for idler in idlers:
            idler.kill()
            idler.wait()


def load(url, script, users, seconds, job, chats, n):
    """Runs wrk once; returns answers per second, and answers."""
    command = ["wrk", f"-t{users}", f"-c{users}", f"-d{seconds}s", "--timeout", "20s", "-s", script, url, "--", job, ",".join(map(str, chats)), str(n)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in told or "Socket errors" in told:
        raise RuntimeError(told)
    return float(re.search(r"Requests/sec:\s+([\d.]+)", told)[1]), int(re.search(r"(\d+) requests in", told)[1])


def measured(requests, *what):
    """A run of about this many requests, at least two seconds: a warm-up of one second determines the duration."""
    url, script, users, job, chats, n = what
    rate, _ = load(url, script, users, 1, job, chats, n)
    seconds = min(60, max(2, round(1.2 * requests / max(rate, 1)) + 1))
    return load(url, script, users, seconds, job, chats, n)


def rounds(options, binary, stores, mode, script, chats, figures):
    """Measures the systems in turn, round by round and job by job: the machine's speed changes from minute to minute, so compared
    results are measured within seconds of each other, and each round begins with another system. Each round has new servers.
    The kernel's dirty pages are written before the next system is measured."""
    jobs = [("list", 0), ("get", 50), ("get500", 500), ("send", 0)] if not mode else [("send", 0)]
    for at in range(options.rounds):
        with contextlib.ExitStack() as stack:
            urls = {system: stack.enter_context(Chat(binary, store + mode)).url for system, store in stores.items()}
            for users in options.users:
                for job, n in jobs:
                    say(f"round {at + 1}: {job}, users at once: {users} {' '.join(mode)}")
                    order = list(urls)
                    for system in order[at % len(order) :] + order[: at % len(order)]:
                        url = urls[system]
                        os.sync()
                        found = measured(options.requests, url, script, users, job.rstrip("0123456789"), chats[system], n)
                        figures.setdefault((job, users, system), []).append(found)


def tell(figures, suffix):
    """Prints the medians, one JSON object per line; with PostgreSQL also the medians of the ratios to it in each round."""
    for (job, users, system), found in sorted(figures.items()):
        rate = round(statistics.median(one[0] for one in found), 1)
        line = {"bench": "chat", "case": f"{job}_{users}_tps{suffix}", "system": system, "value": rate, "unit": "1/s", "n": sum(one[1] for one in found)}
        beside = figures.get((job, users, "postgresql"), [])
        if system != "postgresql" and len(beside) == len(found):
            line["times_postgresql"] = round(statistics.median(one[0] / other[0] for one, other in zip(found, beside)), 2)
        print(json.dumps(line), flush=True)


def bench(options):
    need("wrk", "wrk")
    binary = (options.binary and options.binary.resolve()) or build("quick" if options.quick else "release", "build")["isomer-chat"]
    systems = options.systems.split(",")
    with tempfile.TemporaryDirectory(prefix="isomer-chat-", dir=options.folder) as folder:
        os.chmod(folder, 0o755)
        (Path(folder) / "postgres").mkdir()
        postgres = Postgres(Path(folder) / "postgres") if "postgresql" in systems else None
        try:
            script = Path(folder) / "load.lua"
            script.write_text(WRK)
            chats, stores = {}, {}
            for system in systems:
                parameters = postgres.parameters if system == "postgresql" else ""
                stores[system] = ["--backend", system, "--data", str(Path(folder) / system), "--postgres", parameters]
                size = [f"--users={max(40, int(1000 * options.scale))}", f"--messages={max(500, int(10000 * options.scale))}"]
                began = time.time()
                told = subprocess.run([binary, "fill", *stores[system], *size], capture_output=True, text=True, check=True)
                chats[system] = json.loads(told.stdout)
                say(f"{system}: filled in {time.time() - began:.1f} s")
            for suffix, mode in (("", []), ("_async", ["--asynchronous"])):
                figures = {}
                try:
                    with awake(options.awake):
                        rounds(options, binary, stores, mode, script, chats, figures)
                finally:
                    # An interrupted run prints the results so far.
                    tell(figures, suffix)
        finally:
            if postgres:
                postgres.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    testing = commands.add_parser("test")
    testing.set_defaults(run=test)
    testing.add_argument("--program", type=Path, help="the built test program `stores` [default: it is built]")
    testing.add_argument("--pictures", help="a folder: a picture of the page goes there")
    benching = commands.add_parser("bench")
    benching.set_defaults(run=bench)
    benching.add_argument("--scale", type=float, default=1.0, help="1.0: 1,000 users, 10,000 messages in each chat that is read")
    benching.add_argument("--systems", default=",".join(SYSTEMS))
    benching.add_argument("--rounds", type=int, default=3)
    benching.add_argument("--requests", type=int, default=5000, help="of each job in each round, at least")
    benching.add_argument("--users", type=lambda text: [int(one) for one in text.split(",")], default=[1, 16], help="at once: 1,16")
    benching.add_argument("--awake", action="store_true", help="keep the processors from sleeping: what they take to wake is left out")
    benching.add_argument("--folder", default=None, help="where the stores are made: on the disk that is to be measured")
    benching.add_argument("--quick", action="store_true", help="a release build without optimisation across crates")
    for command in (testing, benching):
        command.add_argument("--binary", type=Path, help="a built isomer-chat [default: it is built]")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    options.run(options)


if __name__ == "__main__":
    main()
