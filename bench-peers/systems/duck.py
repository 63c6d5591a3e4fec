"""DuckDB: typed columns beside the document, relationships sorted by source."""

import duckdb

from peer import Peer, serve

TWO_STEPS = """
SELECT DISTINCT n FROM (
  SELECT dst AS n FROM friend WHERE src = $id
  UNION ALL
  SELECT b.dst FROM friend a JOIN friend b ON b.src = a.dst WHERE a.src = $id
) WHERE n <> $id
"""


class Duck(Peer):
    def load(self):
        self.db = duckdb.connect(str(self.folder / "duck.db"))
        self.db.execute(
            f"""CREATE TABLE person AS SELECT * FROM read_csv('{self.data}/people.csv', header=false, quote='"', escape='"',
            columns={{'id': 'INTEGER', 'key': 'VARCHAR', 'age': 'INTEGER', 'completion': 'INTEGER', 'doc': 'VARCHAR'}})"""
        )
        self.db.execute("CREATE UNIQUE INDEX by_key ON person(key)")
        self.db.execute(
            f"""CREATE TABLE friend AS SELECT * FROM read_csv('{self.data}/friends.csv', header=false,
            columns={{'src': 'INTEGER', 'dst': 'INTEGER'}})"""
        )
        self.db.execute("CHECKPOINT")

    def value(self, text, parameters=None):
        return self.db.execute(text, parameters).fetchone()[0]

    def counts(self):
        return self.value("SELECT count(*) FROM person"), self.value("SELECT count(*) FROM friend")

    def read(self, key):
        return self.value("SELECT doc FROM person WHERE key = ?", [key])

    def ages(self):
        return self.db.execute("SELECT age, count(*) FROM person GROUP BY age").fetchall()

    def neighbours(self, key):
        return self.db.execute(TWO_STEPS, {"id": int(key[1:])}).fetchall()

    def numbers(self, found):
        return (row[0] for row in found)

    def neighbours_profiles(self, key):
        text = f"SELECT doc FROM person WHERE id IN ({TWO_STEPS})"
        return self.db.execute(text, {"id": int(key[1:])}).fetchall()

    def profiles(self, found):
        return (self.profile(row[0]) for row in found)

    def neighbours_set(self):
        """Analytical engines answer sets of questions: all starts in one."""
        starts = ",".join(f"({key[1:]})" for key in set(self.starts))
        return self.db.execute(
            f"""WITH start(id) AS (VALUES {starts}),
            one AS (SELECT id, dst FROM start JOIN friend ON src = id),
            two AS (SELECT id, dst FROM one UNION ALL SELECT one.id, b.dst FROM one JOIN friend b ON b.src = one.dst)
            SELECT DISTINCT id, dst FROM two WHERE id <> dst"""
        ).fetchall()

    def set_numbers(self, found):
        sets = {}
        for start, other in found:
            sets.setdefault(f"P{start}", []).append(other)
        return sets

    def count_paths(self):
        return self.value("SELECT count(*) FROM friend a JOIN friend b ON b.src = a.dst")

    def begin_writes(self, batch, synced):
        self.table = f"written{batch}"
        self.db.execute(f"CREATE TABLE {self.table} (key VARCHAR PRIMARY KEY, doc VARCHAR)")

    def write(self, key, text):
        self.db.execute(f"INSERT INTO {self.table} VALUES (?, ?)", [key, text])

    def end_writes(self, synced):
        self.db.execute("CHECKPOINT")

    def written(self):
        rows = self.db.execute(f"SELECT doc FROM {self.table}").fetchall()
        return (self.profile(row[0]) for row in rows)


if __name__ == "__main__":
    serve(Duck)
