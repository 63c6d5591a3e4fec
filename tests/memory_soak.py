"""The budget of memory of a whole process: each statement that could take many times what it writes, embedded and served, then a long mixed
load. Started by `cargo xtask soak --suite memory`; prints one JSON object per line.

Statements: in a separate process (`isomer shell`) and over HTTP, each succeeds or fails with an error of the kind Limit, and the process
never holds more than 1.25 times the budget and 64 MiB (`VmHWM` of /proc/PID/status). Five seconds after the last one the server holds no more
than its budget and 64 MiB. Mixed load: six clients; after the first five minutes (a third of a shorter run) what the server holds does not
grow by more than a tenth, compared by medians. In the end `/metrics` must name at least 85 % of what the process holds."""

import argparse
import http.client
import json
import os
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

MIB = 1 << 20
STRING = "reduce(s = 'x', k IN range(1, 20) | s + s)"
SHORT = "reduce(s = 'x', k IN range(1, 11) | s + s)"
failed = []


def say(**fields):
    print(json.dumps(fields), flush=True)


def status(pid, name):
    try:
        with open(f"/proc/{pid}/status") as lines:
            for line in lines:
                if line.startswith(name + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def bound(budget):
    return budget * 5 // 4 + 64 * MIB


def judge(case, budget, peak, answer):
    refused = "raise the memory option" in answer or '"Limit"' in answer
    done = not answer
    sound = peak <= bound(budget) and (done or refused)
    say(case=case, budget_mib=budget // MIB, peak_mib=peak // MIB, most_mib=bound(budget) // MIB, outcome="done" if done else answer[:200], holds=sound)
    if not sound:
        failed.append(case)


def batches(count, step, text):
    return [text % (first, min(first + step - 1, count)) for first in range(1, count + 1, step)]


def statements(scale):
    """Name, preparation (with a large budget), and the statement itself."""
    large, nodes, links, texts = (int(size * scale) for size in (400, 2_000_000, 1_000_000, 200_000))
    people = batches(nodes, 100_000, "UNWIND range(%d, %d) AS i CREATE (:P {i: i})")
    hub = ["CREATE (:H)"] + batches(links, 50_000, "MATCH (h:H) UNWIND range(%d, %d) AS i CREATE (h)-[:R]->(:Q {i: i})")
    labelled = batches(texts, 100_000, "UNWIND range(%d, %d) AS i CREATE (:L {i: i})")
    return [
        ("file.write", [], f"UNWIND range(1, {large}) AS i CALL file.write('/f' + toString(i), {STRING}) RETURN count(*)"),
        ("kv.put", [], f"UNWIND range(1, {large}) AS i CALL kv.put('b', toString(i), {STRING}) RETURN count(*)"),
        ("SET 2 KiB each", labelled, f"MATCH (l:L) SET l.p = {SHORT}"),
        ("SET a number each", people, "MATCH (n:P) SET n.w = 1"),
        ("DETACH DELETE all", [], "MATCH (n:P) DETACH DELETE n"),
        ("DETACH DELETE a hub", hub, "MATCH (h:H) DETACH DELETE h"),
    ]


def shell(binary, folder, memory, statement):
    """Runs one statement in a process; returns its peak memory and its error."""
    process = subprocess.Popen([binary, "--memory", memory, "shell", "db"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    process.stdin.write((statement + ";\n").encode())
    process.stdin.close()
    peak = 0
    while process.poll() is None:
        peak = max(peak, status(process.pid, "VmHWM"))
        time.sleep(0.01)
    answer = process.stderr.read().decode()
    return peak, answer if process.returncode else ""


class Server:
    def __init__(self, binary, folder, memory, names):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [binary, "--memory", memory, "serve", *names, "--create", "--listen", f"127.0.0.1:{self.port}", "--without-authentication", "--set", "log.level=warn"]
        self.process = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ready", timeout=5).read()
                return
            except OSError:
                if self.process.poll() is not None:
                    sys.exit("the server ended by itself")
                time.sleep(0.02)

    def query(self, text, database="db", wait=600):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=wait)
        try:
            body = json.dumps({"query": text})
            connection.request("POST", f"/v1/databases/{database}/query", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode()
            return "" if answer.status == 200 else text
        finally:
            connection.close()

    def held(self):
        return status(self.process.pid, "VmRSS")

    def peak(self):
        return status(self.process.pid, "VmHWM")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def table(binary, budget, scale, folder):
    memory = f"{budget // MIB}MiB"
    for case, before, statement in statements(scale):
        for one in before:
            _, error = shell(binary, folder, "2GiB", one)
            if error:
                sys.exit(f"{one}: {error}")
        peak, answer = shell(binary, folder, memory, statement)
        judge(f"embedded: {case}", budget, peak, answer)
    shutil.rmtree(os.path.join(folder, "db"))
    for case, before, statement in statements(scale):
        for one in before:
            shell(binary, folder, "2GiB", one)
        server = Server(binary, folder, memory, ["db"])
        answer = server.query(statement)
        judge(f"served: {case}", budget, server.peak(), answer)
        server.stop()
    server = Server(binary, folder, memory, ["db"])
    outcomes = [""] * 6

    def client(number):
        path = f"file.write('/c{number}-' + toString(i), {STRING})"
        outcomes[number] = server.query(f"UNWIND range(1, {int(300 * scale)}) AS i CALL {path} RETURN count(*)")

    clients = [threading.Thread(target=client, args=(number,)) for number in range(6)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    judge("served: six clients", budget, server.peak(), next((answer for answer in outcomes if answer and '"Limit"' not in answer), ""))
    time.sleep(5)
    held = server.held()
    say(case="5 s after the work", held_mib=held // MIB, most_mib=(budget + 64 * MIB) // MIB)
    if held > budget + 64 * MIB:
        failed.append("memory is given back")
    server.stop()


def idle(binary, budget, folder):
    names = [f"idle{number}" for number in range(20)]
    server = Server(binary, folder, f"{budget // MIB}MiB", names)
    sort = "UNWIND range(1, %d) AS x WITH x ORDER BY x %% 1000 RETURN count(x), collect(x)[0]" % (budget // MIB * 2000)
    answers = [server.query("CREATE (n:N) RETURN 1", name) for name in names] + [server.query(sort, "idle3")]
    wrong = next((answer for answer in answers if answer), "")
    say(case="20 idle databases", budget_mib=budget // MIB, held_mib=server.held() // MIB, outcome=wrong[:200] or "done")
    if wrong:
        failed.append("idle databases")
    server.stop()


def mixed(binary, budget, seconds, folder, seed):
    server = Server(binary, folder, f"{budget // MIB}MiB", ["mixed"])
    stop = time.monotonic() + seconds
    wrong = []

    def client(number):
        draw = random.Random(seed + number)
        while time.monotonic() < stop:
            key = draw.randrange(20_000)
            text = draw.choice([
                f"MERGE (n:N {{_key: 'k{key}'}}) SET n.v = {draw.randrange(1000)}, n.t = '{'x' * draw.randrange(500)}'",
                f"MATCH (n:N) WHERE n.v > {draw.randrange(1000)} RETURN count(n)",
                f"MATCH (a:N {{_key: 'k{key}'}}), (b:N {{_key: 'k{draw.randrange(20_000)}'}}) MERGE (a)-[:R]->(b)",
                f"MATCH (a:N {{_key: 'k{key}'}})-[:R*1..3]->(b) RETURN count(DISTINCT b)",
                f"CALL file.write('/f{draw.randrange(50)}', {STRING})",
                f"UNWIND range(1, 50000) AS x WITH x ORDER BY x % {draw.randrange(1, 999)} RETURN collect(x)[0]",
                f"MATCH (n:N {{_key: 'k{key}'}}) DETACH DELETE n",
            ])
            answer = server.query(text, "mixed", 60)
            if answer and not re.search(r'"(Limit|Retry|Exists)"', answer):
                wrong.append(answer)

    clients = [threading.Thread(target=client, args=(number,)) for number in range(6)]
    for one in clients:
        one.start()
    samples = []
    while time.monotonic() < stop:
        time.sleep(min(1.0, seconds / 100))
        samples.append(server.held())
    for one in clients:
        one.join()
    warm = min(len(samples) // 3, int(len(samples) * 300 / seconds)) if seconds > 300 else len(samples) // 3
    rest = samples[warm:]
    early, late = statistics.median(rest[: max(1, len(rest) // 4)]), statistics.median(rest[-max(1, len(rest) // 4):])
    metrics = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics").read().decode()
    held = float(re.search(r"^isomer_process_resident_bytes (\S+)", metrics, re.M)[1])
    parts = {part: float(value) for part, value in re.findall(r'^isomer_memory_bytes\{part="([^"]+)"\} (\S+)', metrics, re.M)}
    named = sum(value for part, value in parts.items() if part != "other allocations")
    peak = server.peak()
    time.sleep(5)
    say(case="mixed load", seconds=seconds, peak_mib=peak // MIB, most_mib=bound(budget) // MIB, early_mib=early // MIB, late_mib=late // MIB, quiet_mib=server.held() // MIB, named_percent=round(100 * named / held), parts={part: int(value) // MIB for part, value in parts.items()}, errors=len(wrong), error=wrong[0][:200] if wrong else "")
    if peak > bound(budget) or late > early * 1.1 + 8 * MIB or named < 0.85 * held or wrong:
        failed.append("mixed load")
    server.stop()


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("binary")
    options.add_argument("--minutes", type=float, default=30)
    options.add_argument("--scale", type=float, default=1.0, help="size of the statements; 1 is 400 MiB and 2 million nodes")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--budgets", default="64,256", help="in MiB")
    chosen = options.parse_args()
    binary = os.path.abspath(chosen.binary)
    for budget in (int(mib) * MIB for mib in chosen.budgets.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            table(binary, budget, chosen.scale, folder)
            idle(binary, budget, folder)
    with tempfile.TemporaryDirectory() as folder:
        mixed(binary, 128 * MIB, chosen.minutes * 60, folder, chosen.seed)
    say(failed=failed)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
