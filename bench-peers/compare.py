"""Asks all systems the same, in turn, checks what they answer, and prints figures."""

import json
import os
import select
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import network

# Job -> where its right answer is, and the figures made of it: suffix, unit, what of the measurement, factor.
SECONDS = ("s", "s", "seconds", 1)
MIDDLE, HIGH = ("p50_us", "us", "p50_us", 1), ("p99_us", "us", "p99_us", 1)
MILLIS = ("ms", "ms", "p50_us", 1e-3)
JOBS = {
    "import": ("import", [SECONDS]),
    "single_reads": ("single_reads", [SECONDS, MIDDLE, HIGH]),
    "aggregate_age": ("aggregate_age", [MILLIS, ("first_ms", "ms", "first_s", 1e3)]),
    "neighbors2": ("neighbors2", [SECONDS, MIDDLE, HIGH]),
    "neighbors2_set": ("neighbors2", [SECONDS]),
    "neighbors2_keys": ("neighbors2_keys", [SECONDS, MIDDLE, HIGH]),
    "neighbors2_profiles": ("neighbors2_profiles", [SECONDS]),
    "count_paths2": ("count_paths2", [MILLIS]),
    "shortest_path": ("shortest_path", [MIDDLE, HIGH]),
    "no_path": ("no_path", [HIGH]),
    "single_writes_buffered": ("single_writes_buffered", [SECONDS, MIDDLE, HIGH]),
    "single_writes_synced": ("single_writes_synced", [SECONDS]),
}
# Done once: what is loaded stays, and writes take long on some.
ONCE = {"import", "single_writes_buffered", "single_writes_synced"}
# A job that took a system this long is not asked of it again.
LONG_S = 15
TICKS = os.sysconf("SC_CLK_TCK")


class Worker:
    """A system at work in a process of its own."""

    def __init__(self, name, command, environment, folder):
        self.name, self.folder, self.peak, self.failed = name, folder, 0, None
        folder.mkdir()
        folder.chmod(0o755)
        self.log = open(folder.parent / f"{folder.name}.log", "w")
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env={**os.environ, **environment},
            cwd=folder,  # some systems leave logs where they start
        )

    def ask(self, line, limit):
        """The answer as a dictionary; an error is told and remembered."""
        if self.failed:
            return None
        cpu = self.cpu()
        watching = threading.Event()
        sampler = threading.Thread(target=self.sample, args=[watching], daemon=True)
        sampler.start()
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
            ready, _, _ = select.select([self.process.stdout], [], [], limit)
            told = self.process.stdout.readline() if ready else None
        except OSError as error:
            told, ready = b"", True
            print(f"{self.name}: {error}", file=sys.stderr)
        watching.set()
        sampler.join()
        if not ready:
            return self.fail(line, f"no answer within {limit:g} s")
        if not told:
            return self.fail(line, "the process ended")
        told = json.loads(told)
        if "error" in told:
            if line.startswith(("import", "load")):
                return self.fail(line, told["error"])
            self.say(line, told["error"])
            return None
        told["all_cpu_s"] = self.cpu() - cpu
        return told

    def fail(self, line, why):
        self.failed = why
        self.say(line, f"{why}: left out from here on")
        # A server that it started goes on without it.
        others = self.processes()[1:]
        self.process.kill()
        for other in others:
            try:
                os.kill(int(other), signal.SIGINT)
            except (OSError, ValueError):
                pass

    def say(self, line, what):
        print(f"{self.name}: {line}: {what}", file=sys.stderr)

    def cpu(self):
        """Processor time of the process and of the children that it waited for."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return sum(map(int, fields[11:15])) / TICKS
        except OSError:
            return 0.0

    def processes(self):
        """The process and all below it; a server that went its own way is known by its folder."""
        found = [str(self.process.pid)]
        for parent in found:
            try:
                for task in Path(f"/proc/{parent}/task").iterdir():
                    found += (task / "children").read_text().split()
            except OSError:
                pass
        try:
            server = next(self.folder.glob("*/data/postmaster.pid")).read_text().split("\n")[0]
            found += [server, *Path(f"/proc/{server}/task/{server}/children").read_text().split()]
        except (OSError, StopIteration):
            pass
        return found

    def sample(self, until):
        """Keeps the largest sum of memory: the highest mark of a lone process, shared pages once where there are several."""
        while True:
            found, total = self.processes(), 0
            for process in found:
                file, name = ("status", "VmHWM:") if len(found) <= 2 else ("smaps_rollup", "Pss:")
                try:
                    lines = Path(f"/proc/{process}/{file}").read_text().split("\n")
                    total += next(int(line.split()[1]) for line in lines if line.startswith(name))
                except (OSError, StopIteration, IndexError):
                    pass
            self.peak = max(self.peak, total)
            if until.wait(0.25):
                return

    def disk_mib(self):
        blocks = 0
        for file in self.folder.rglob("*"):
            try:
                blocks += file.lstat().st_blocks
            except OSError:
                pass
        return blocks / 2048

    def stop(self):
        try:
            self.process.stdin.close()
            self.process.wait(60)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.log.close()


def tell(bench, case, value, unit, n, system):
    line = {"bench": bench, "case": case, "value": round(value, 3), "unit": unit, "n": n, "system": system}
    print(json.dumps(line), flush=True)


def differs(right, found):
    """The first line that is not right, if any. Who answers fewer questions is judged by these."""
    if not found:
        return "no answer"
    return next((f"`{b}` in place of `{a}`" for a, b in zip(right, found) if a != b), None)


def start(systems, bench, data, runs):
    workers = []
    for name, system in systems.items():
        command = getattr(system, bench)
        if command is None:
            continue
        folder = runs / f"{bench}-{name}"
        more = [data, folder] if bench == "pokec" else [data]
        if name in ("isomer", "limit"):
            more = [data, "--folder", folder]
        more += [system.environment["PEER_MODE"]] if "PEER_MODE" in system.environment else []
        try:
            workers.append(Worker(name, [*command, *more], system.environment, folder))
        except OSError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return workers


def pokec(systems, data, runs, given):
    workers = start(systems, "pokec", data, runs)
    for job, (answer, figures) in JOBS.items():
        right = network.answers(data, answer)
        measured = {worker.name: [] for worker in workers}
        for round in range(1 if job in ONCE else given.rounds):
            for worker in workers:
                before = measured[worker.name]
                if round > 0 and (not before or before[-1]["took"] > LONG_S):
                    continue
                print(f"{job}, round {round + 1}: {worker.name}", file=sys.stderr)
                begin = time.monotonic()
                told = worker.ask(job, given.limit)
                if told is None or "skipped" in told:
                    continue
                wrong = differs(right, told["answer"]) or (
                    len(told["answer"]) != len(right) and f"{len(told['answer'])} lines, right are {len(right)}"
                )
                if wrong:
                    worker.say(job, f"a wrong answer, left out: {wrong}")
                    continue
                before.append({**told, "took": time.monotonic() - begin})
        for worker in workers:
            rounds = measured[worker.name]
            if not rounds:
                continue
            for suffix, unit, field, factor in figures:
                values = [told[field] * factor for told in rounds if field in told]
                # What is first is first once.
                value = values[0] if suffix == "first_ms" and values else statistics.median(values) if values else None
                if value is not None:
                    tell("pokec", f"{job}_{suffix}", value, unit, rounds[0]["n"], worker.name)
            cpu = "all_cpu_s" if job == "import" else "cpu_s"
            if worker.name != "postgres":  # its server's time is not ours to see
                tell("pokec", f"{job}_cpu_s", statistics.median(told[cpu] for told in rounds), "s", rounds[0]["n"], worker.name)
            if job == "import" and worker.name != "limit":
                tell("pokec", "disk_mib", worker.disk_mib(), "MiB", 1, worker.name)
    for worker in workers:
        worker.stop()
        if not worker.failed:
            tell("pokec", "peak_rss_mib", worker.peak / 1024, "MiB", 1, worker.name)


def guanciale(systems, data, runs, given):
    workers = start(systems, "guanciale", data, runs)
    shapes = sorted((path.stem[len("likes_") :] for path in data.glob("likes_*.tsv")), key=lambda name: [int(part) for part in name.split("_")])
    for shape in shapes:
        right = network.answers(data, f"recommend_{shape}")
        rates = {worker.name: [] for worker in workers}
        loaded = [worker for worker in workers if worker.ask(f"load {shape}", given.limit)]
        for round in range(given.rounds):
            for worker in loaded:
                print(f"recommend {shape}, round {round + 1}: {worker.name}", file=sys.stderr)
                told = worker.ask(f"recommend {given.seconds}", given.limit)
                if told is None:
                    continue
                wrong = differs(right, told["answer"])
                if wrong:
                    worker.say(shape, f"a wrong answer, left out: {wrong}")
                    continue
                rates[worker.name].append((told["ops_s"], told["n"]))
        for name, found in rates.items():
            if found:
                rate = statistics.median(rate for rate, _ in found)
                tell("guanciale", f"recommend_{shape}_ops_s", rate, "ops/s", sum(n for _, n in found), name)
    for worker in workers:
        worker.stop()
