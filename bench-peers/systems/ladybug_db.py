"""LadybugDB (the continuation of Kùzu): node and relationship tables, prepared Cypher."""

import warnings

import ladybug

from peer import Peer, serve

warnings.filterwarnings("ignore", category=DeprecationWarning)
STEPS = "MATCH (p:Person {key: $key})-[:Friend*1..2]->(n:Person) WHERE n.id <> p.id RETURN DISTINCT"


class Ladybug(Peer):
    def load(self):
        self.database = ladybug.Database(str(self.folder / "ladybug.db"), buffer_pool_size=6 << 30)
        self.db = ladybug.Connection(self.database)
        self.db.execute(
            "CREATE NODE TABLE Person(id INT64, key STRING, age INT64, completion INT64, doc STRING, PRIMARY KEY(key))"
        )
        self.db.execute("CREATE REL TABLE Friend(FROM Person TO Person)")
        self.db.execute(f"COPY Person FROM '{self.data}/people.csv' (HEADER=false, PARALLEL=false, ESCAPE='\"')")
        self.db.execute(f"COPY Friend FROM '{self.data}/friends_by_key.csv' (HEADER=false)")
        self.db.execute("CHECKPOINT")
        self.prepared = {}

    def rows(self, text, parameters=None):
        ready = self.prepared.get(text)
        if ready is None:
            ready = self.prepared[text] = self.db.prepare(text)
        return self.db.execute(ready, parameters or {}).get_all()

    def counts(self):
        people = self.rows("MATCH (p:Person) RETURN count(*)")[0][0]
        return people, self.rows("MATCH ()-[f:Friend]->() RETURN count(*)")[0][0]

    def read(self, key):
        return self.rows("MATCH (p:Person {key: $key}) RETURN p.doc", {"key": key})[0][0]

    def ages(self):
        return self.rows("MATCH (p:Person) RETURN p.age, count(*)")

    def neighbours(self, key):
        return self.rows(f"{STEPS} n.id", {"key": key})

    def numbers(self, found):
        return (row[0] for row in found)

    def neighbours_keys(self, key):
        return self.rows(f"{STEPS} n.key", {"key": key})

    def keys_of(self, found):
        return (row[0] for row in found)

    def neighbours_profiles(self, key):
        return self.rows(f"{STEPS} n.doc", {"key": key})

    def profiles(self, found):
        return (self.profile(row[0]) for row in found)

    def count_paths(self):
        return self.rows("MATCH (a:Person)-[:Friend]->(b:Person)-[:Friend]->(c:Person) RETURN count(*)")[0][0]

    def shortest(self, source, target):
        text = "MATCH (a:Person {key: $a})-[e:Friend* SHORTEST 1..20]->(b:Person {key: $b}) RETURN length(e)"
        found = self.rows(text, {"a": source, "b": target})
        return found[0][0] if found else None

    def begin_writes(self, batch, synced):
        self.table = f"Written{batch}"
        self.db.execute(f"CREATE NODE TABLE {self.table}(key STRING, doc STRING, PRIMARY KEY(key))")

    def write(self, key, text):
        self.rows(f"CREATE (:{self.table} {{key: $key, doc: $doc}})", {"key": key, "doc": text})

    def end_writes(self, synced):
        self.db.execute("CHECKPOINT")

    def written(self):
        return (self.profile(row[0]) for row in self.rows(f"MATCH (w:{self.table}) RETURN w.doc"))


if __name__ == "__main__":
    serve(Ladybug)
