"""SQLite: write-ahead log, relationships as a table without row ids in both orders, pages mapped into memory."""

import csv
import sqlite3

from peer import Peer, search_both_ends, serve

TWO_STEPS = """
SELECT dst AS n FROM friend WHERE src = :id AND dst <> :id
UNION
SELECT b.dst FROM friend a JOIN friend b ON b.src = a.dst WHERE a.src = :id AND b.dst <> :id
"""


class Sqlite(Peer):
    def load(self):
        self.db = db = sqlite3.connect(self.folder / "sqlite.db", isolation_level=None)
        db.execute("PRAGMA page_size = 8192")
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA cache_size = -1000000")
        db.execute("PRAGMA mmap_size = 8000000000")
        db.execute("CREATE TABLE person (id INTEGER PRIMARY KEY, key TEXT, age INTEGER, completion INTEGER, doc TEXT)")
        db.execute("CREATE TABLE friend (src INTEGER, dst INTEGER, PRIMARY KEY (src, dst)) WITHOUT ROWID")
        db.execute("BEGIN")
        with open(self.data / "people.csv", newline="") as people:
            rows = ((i, k, a or None, c, d) for i, k, a, c, d in csv.reader(people))
            db.executemany("INSERT INTO person VALUES (?, ?, ?, ?, ?)", rows)
        with open(self.data / "friends.csv", newline="") as friends:
            db.executemany("INSERT INTO friend VALUES (?, ?)", csv.reader(friends))
        db.execute("CREATE UNIQUE INDEX person_by_key ON person(key)")
        db.execute("CREATE UNIQUE INDEX friend_back ON friend(dst, src)")
        db.execute("COMMIT")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("ANALYZE")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def value(self, text, parameters=()):
        return self.db.execute(text, parameters).fetchone()[0]

    def counts(self):
        return self.value("SELECT count(*) FROM person"), self.value("SELECT count(*) FROM friend")

    def read(self, key):
        return self.value("SELECT doc FROM person WHERE key = ?", (key,))

    def ages(self):
        return self.db.execute("SELECT age, count(*) FROM person GROUP BY age").fetchall()

    def neighbours(self, key):
        return self.db.execute(TWO_STEPS, {"id": int(key[1:])}).fetchall()

    def numbers(self, found):
        return (row[0] for row in found)

    def neighbours_keys(self, key):
        text = f"SELECT key FROM person JOIN ({TWO_STEPS}) ON person.id = n"
        return self.db.execute(text, {"id": int(key[1:])}).fetchall()

    def keys_of(self, found):
        return (row[0] for row in found)

    def neighbours_profiles(self, key):
        text = f"SELECT doc FROM person JOIN ({TWO_STEPS}) ON person.id = n"
        return self.db.execute(text, {"id": int(key[1:])}).fetchall()

    def profiles(self, found):
        return (self.profile(row[0]) for row in found)

    def count_paths(self):
        return self.value("SELECT count(*) FROM friend a JOIN friend b ON b.src = a.dst")

    def shortest(self, source, target):
        def expand(forwards, people):
            have, want = ("src", "dst") if forwards else ("dst", "src")
            text = f"SELECT {want} FROM friend WHERE {have} = ?"
            for person in people:
                for (other,) in self.db.execute(text, (person,)):
                    yield other

        return search_both_ends(expand, int(source[1:]), int(target[1:]))

    def begin_writes(self, batch, synced):
        self.table = f"written{batch}"
        self.db.execute(f"CREATE TABLE {self.table} (key TEXT PRIMARY KEY, doc TEXT)")

    def write(self, key, text):
        self.db.execute(f"INSERT INTO {self.table} VALUES (?, ?)", (key, text))

    def end_writes(self, synced):
        self.db.execute("PRAGMA wal_checkpoint(FULL)")

    def written(self):
        return (self.profile(row[0]) for row in self.db.execute(f"SELECT doc FROM {self.table}"))


if __name__ == "__main__":
    serve(Sqlite)
