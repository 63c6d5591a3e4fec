"""What every system under comparison does: take jobs from standard input, time them, answer in one line of JSON each.

A system is a class derived from `Peer` with the methods it can offer; a job whose method is missing is skipped. Methods
that are timed return whatever the system's client gives; turning that into a checked answer happens off the clock.
"""

import json
import sys
import threading
import time
import traceback
from pathlib import Path

MASK = (1 << 64) - 1
# A first pass that takes longer than this is not repeated: it counts.
LONG_S = 5.0
WRITERS = 16


def number(key):
    """The number in a key: 17 for P17."""
    return int(key[1:])


class Tally:
    """Sums over profiles: anything missing shows in them."""

    def __init__(self):
        self.count = self.keys = self.ages = self.completion = 0

    def add(self, key, age, completion):
        self.count += 1
        self.keys += number(key)
        self.ages += age or 0
        self.completion += completion

    def line(self):
        return f"{self.count} profiles, keys {self.keys}, ages {self.ages}, completion {self.completion}"


def set_line(key, numbers):
    """A set of people: how many, the sum of their numbers, the sum of the squares."""
    numbers = list(numbers)
    squares = sum(n * n for n in numbers) & MASK
    return f"{key} {len(numbers)} {sum(numbers) & MASK} {squares}"


class Peer:
    """One system with the network in it. `data` holds the files of the network, `folder` takes the database."""

    def __init__(self, data, folder):
        self.data, self.folder = Path(data), Path(folder)
        lines = lambda name: (self.data / name).read_text().split("\n")[:-1]
        self.keys, self.starts = lines("keys.txt"), lines("starts.txt")
        pairs = [line.split("\t") for line in lines("pairs.tsv")]
        self.pairs = [(a, b) for a, b, distance in pairs if distance != "-1"]
        self.apart = [(a, b) for a, b, distance in pairs if distance == "-1"]
        self.batches = 0

    # What a system offers. Those that are not overridden are skipped.
    load = None  # () -> None; durable at the end
    counts = None  # () -> (people, relationships)
    read = None  # (key) -> profile
    profile = staticmethod(lambda found: json.loads(found))  # what `read` gave -> dictionary with _key, AGE, completion
    ages = None  # () -> [(age or None, people)]
    neighbours = None  # (key) -> found
    numbers = staticmethod(lambda found: found)  # what `neighbours` gave -> numbers of people
    neighbours_keys = None  # (key) -> found
    keys_of = staticmethod(lambda found: found)  # what `neighbours_keys` gave -> keys
    neighbours_profiles = None  # (key) -> found
    profiles = staticmethod(lambda found: map(json.loads, found))  # what it gave -> dictionaries
    neighbours_set = None  # () -> found: all starts as one question
    set_numbers = None  # what `neighbours_set` gave -> {key: numbers}
    count_paths = None  # () -> number
    shortest = None  # (from, to) -> length or None
    begin_writes = None  # (batch, synced) -> None: a new place for profiles
    write = None  # (key, text of the profile) -> None
    end_writes = None  # (synced) -> None: all on disk
    written = None  # () -> dictionaries
    writer = None  # () -> a function like `write`, for a thread of its own

    def job_import(self):
        timed = self.once(self.load)
        people, relationships = self.counts()
        return {**timed, "answer": [f"{people} people, {relationships} relationships"]}

    def job_single_reads(self):
        tally = Tally()

        def look(_key, found):
            profile = self.profile(found)
            tally.add(profile["_key"], profile.get("AGE"), profile["completion"])

        timed = self.passes(self.keys, self.read, look)
        return {**timed, "answer": [tally.line()]}

    def job_aggregate_age(self):
        first = time.perf_counter()
        found = self.ages()
        first = time.perf_counter() - first
        rows = sorted((age is None, age, people) for age, people in found)
        answer = [f"{'none' if none else age} {people}" for none, age, people in rows]
        timed = self.passes(range(1 if first > LONG_S else 5), lambda _: self.ages())
        return {**timed, "first_s": first, "answer": answer}

    def job_neighbors2(self):
        lines = []
        look = lambda key, found: lines.append(set_line(key, self.numbers(found)))
        return {**self.passes(self.starts, self.neighbours, look), "answer": lines}

    def job_neighbors2_set(self):
        timed = self.passes([None], lambda _: self.neighbours_set())
        found = self.set_numbers(self.neighbours_set())
        return {**timed, "answer": [set_line(key, found.get(key, [])) for key in self.starts]}

    def job_neighbors2_keys(self):
        lines = []
        look = lambda key, found: lines.append(set_line(key, map(number, self.keys_of(found))))
        return {**self.passes(self.starts, self.neighbours_keys, look), "answer": lines}

    def job_neighbors2_profiles(self):
        lines = []

        def look(key, found):
            tally = Tally()
            for profile in self.profiles(found):
                tally.add(profile["_key"], profile.get("AGE"), profile["completion"])
            lines.append(f"{key}: {tally.line()}")

        return {**self.passes(self.starts, self.neighbours_profiles, look), "answer": lines}

    def job_count_paths2(self):
        answer = []
        look = lambda _, found: answer.append(str(found))
        return {**self.passes([None], lambda _: self.count_paths(), look), "answer": answer}

    def job_shortest_path(self):
        return self.paths(self.pairs)

    def job_no_path(self):
        return self.paths(self.apart)

    def paths(self, pairs):
        lines = []
        look = lambda pair, found: lines.append(f"{pair[0]} {pair[1]} {'none' if found is None else found}")
        return {**self.passes(pairs, lambda pair: self.shortest(*pair), look), "answer": lines}

    def job_single_writes_buffered(self):
        documents = self.documents()
        self.begin_writes(self.batch(), False)
        times, watch = [], Watch()
        for key, text in documents:
            start = time.perf_counter()
            self.write(key, text)
            times.append(time.perf_counter() - start)
        self.end_writes(False)
        return {**watch.timed(times), "answer": [self.written_tally()]}

    def job_single_writes_synced(self):
        documents = iter(self.documents())
        self.begin_writes(self.batch(), True)
        lock, times = threading.Lock(), []

        def work(write):
            while True:
                with lock:
                    document = next(documents, None)
                if document is None:
                    return
                start = time.perf_counter()
                write(*document)
                times.append(time.perf_counter() - start)

        threads = [threading.Thread(target=work, args=[self.writer()]) for _ in range(WRITERS)]
        watch = Watch()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.end_writes(True)
        return {**watch.timed(times), "answer": [self.written_tally()]}

    def batch(self):
        self.batches += 1
        return self.batches

    def documents(self):
        """As many profiles as there are keys to read, with keys of their own."""
        texts, made = (self.data / "profiles.jsonl").read_text().split("\n")[:-1], []
        for at in range(len(self.keys)):
            old = texts[at % len(texts)]
            key = f"P{at + 1}"
            made.append((key, f'{{"_key":"{key}"' + old[old.index(",") :]))
        return made

    def written_tally(self):
        tally = Tally()
        for profile in self.written():
            tally.add(profile["_key"], profile.get("AGE"), profile["completion"])
        return tally.line()

    @staticmethod
    def once(run):
        watch = Watch()
        run()
        return watch.timed()

    @staticmethod
    def passes(questions, ask, look=None):
        """Asks all once to look at the answers, then once more with the clock running, unless that took long."""
        first = []
        cpu = time.process_time()
        for question in questions:
            start = time.perf_counter()
            found = ask(question)
            first.append(time.perf_counter() - start)
            if look:
                look(question, found)
            found = None
        if sum(first) > LONG_S:
            return timed(first, sum(first), time.process_time() - cpu)
        times, watch = [], Watch()
        for question in questions:
            start = time.perf_counter()
            ask(question)
            times.append(time.perf_counter() - start)
        return watch.timed(times)


class Watch:
    """Wall and processor time of this process from now on."""

    def __init__(self):
        self.cpu, self.wall = time.process_time(), time.perf_counter()

    def timed(self, times=None):
        wall = time.perf_counter() - self.wall
        return timed(times or [wall], wall, time.process_time() - self.cpu)


def timed(times, wall, cpu):
    ordered = sorted(times) or [0.0]
    at = lambda share: ordered[round((len(ordered) - 1) * share)] * 1e6
    return {"seconds": wall, "n": len(times), "p50_us": at(0.5), "p99_us": at(0.99), "cpu_s": cpu}


# The method without which a job is skipped.
NEEDS = {
    "import": "load",
    "single_reads": "read",
    "aggregate_age": "ages",
    "neighbors2": "neighbours",
    "neighbors2_set": "neighbours_set",
    "neighbors2_keys": "neighbours_keys",
    "neighbors2_profiles": "neighbours_profiles",
    "count_paths2": "count_paths",
    "shortest_path": "shortest",
    "no_path": "shortest",
    "single_writes_buffered": "begin_writes",
    "single_writes_synced": "writer",
}


def serve(kind):
    """Runs a system: `python <system>.py DATA FOLDER`, jobs on standard input."""
    system = kind(*sys.argv[1:3])
    out = sys.stdout
    sys.stdout = sys.stderr  # whatever a client prints is no answer
    for job in map(str.strip, sys.stdin):
        try:
            if getattr(system, NEEDS.get(job, ""), None) is None:
                told = {"skipped": "not offered"}
            else:
                told = getattr(system, f"job_{job}")()
        except Exception as error:  # a rival's failure is a result: it is told, the rest goes on
            traceback.print_exc()
            told = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"job": job, **told}), file=out, flush=True)


def search_both_ends(expand, source, target):
    """Length of the shortest path by a search from both ends, for systems whose language has none.
    `expand(forwards, people)` gives the neighbours of all of them at once."""
    seen = [{source}, {target}]
    edge = [{source}, {target}]
    steps = 0
    while edge[0] and edge[1]:
        side = 0 if len(edge[0]) <= len(edge[1]) else 1
        steps += 1
        reached = set(expand(side == 0, list(edge[side]))) - seen[side]
        if not reached.isdisjoint(seen[1 - side]):
            return steps
        seen[side] |= reached
        edge[side] = reached
    return None
