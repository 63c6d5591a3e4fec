"""SurrealDB, embedded on SurrealKV: records and relations inserted in batches."""

import csv
import itertools

from surrealdb import RecordID, Surreal

from peer import Peer, serve

BATCH = 5_000


class SurrealPeer(Peer):
    def load(self):
        self.db = Surreal(f"surrealkv://{self.folder}/surreal")
        if hasattr(self.db, "connect"):
            self.db.connect()
        self.db.use("peers", "pokec")
        self.db.query("DEFINE TABLE person; DEFINE TABLE friend TYPE RELATION FROM person TO person;")
        with open(self.data / "people.csv", newline="") as people:
            for rows in batches(csv.reader(people)):
                records = [
                    {"id": int(i), "key": k, "age": int(a) if a else None, "completion": int(c), "doc": d}
                    for i, k, a, c, d in rows
                ]
                self.db.query("INSERT INTO person $rows RETURN NONE", {"rows": records})
        with open(self.data / "friends.csv", newline="") as friends:
            for rows in batches(csv.reader(friends)):
                records = [{"in": RecordID("person", int(a)), "out": RecordID("person", int(b))} for a, b in rows]
                self.db.query("INSERT RELATION INTO friend $rows RETURN NONE", {"rows": records})

    def counts(self):
        count = lambda table: self.db.query(f"SELECT count() FROM {table} GROUP ALL")[0]["count"]
        return count("person"), count("friend")

    def read(self, key):
        return self.db.query("SELECT VALUE doc FROM ONLY $who", {"who": RecordID("person", int(key[1:]))})

    def ages(self):
        return [(row["age"], row["n"]) for row in self.db.query("SELECT age, count() AS n FROM person GROUP BY age")]

    def neighbours(self, key):
        text = """SELECT VALUE array::complement(array::distinct(array::concat(
            ->friend->person, array::flatten(->friend->person->friend->person))), [id]) FROM ONLY $who"""
        return self.db.query(text, {"who": RecordID("person", int(key[1:]))})

    def numbers(self, found):
        return (record.id for record in found)

    def begin_writes(self, batch, synced):
        self.table = f"written{batch}"
        self.db.query(f"DEFINE TABLE {self.table}")

    def write(self, key, text):
        self.db.query(f"CREATE {self.table} SET id = $id, doc = $doc RETURN NONE", {"id": key, "doc": text})

    def end_writes(self, synced):
        pass

    def written(self):
        return map(self.profile, self.db.query(f"SELECT VALUE doc FROM {self.table}"))


def batches(rows):
    while batch := list(itertools.islice(rows, BATCH)):
        yield batch


if __name__ == "__main__":
    serve(SurrealPeer)
