"""PostgreSQL: a server of its own on a Unix socket, prepared statements, relationships indexed both ways."""

import atexit
import glob
import os
import pwd
import subprocess
from pathlib import Path

import psycopg

from peer import Peer, search_both_ends, serve

TWO_STEPS = """
SELECT dst AS n FROM friend WHERE src = %(id)s AND dst <> %(id)s
UNION
SELECT b.dst FROM friend a JOIN friend b ON b.src = a.dst WHERE a.src = %(id)s AND b.dst <> %(id)s
"""
SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "2GB",
    "effective_cache_size": "8GB",
    "work_mem": "256MB",
    "maintenance_work_mem": "1GB",
    "max_wal_size": "8GB",
    "synchronous_commit": "off",
    "random_page_cost": "1.1",
    "jit": "off",
    "max_connections": "40",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}


class Postgres(Peer):
    def load(self):
        self.start()
        self.db = self.connect()
        with self.db.transaction():
            self.db.execute("CREATE TABLE person (id integer, key text, age smallint, completion smallint, doc text)")
            self.db.execute("CREATE TABLE friend (src integer, dst integer)")
            for table in ("person", "friend"):
                file = self.data / ("people.csv" if table == "person" else "friends.csv")
                with self.db.cursor().copy(f"COPY {table} FROM STDIN (FORMAT csv)") as copy, open(file, "rb") as rows:
                    while block := rows.read(1 << 20):
                        copy.write(block)
        self.db.execute("CREATE UNIQUE INDEX ON person(id)")
        self.db.execute("CREATE UNIQUE INDEX ON person(key)")
        self.db.execute("CREATE UNIQUE INDEX ON friend(src, dst)")
        self.db.execute("CREATE UNIQUE INDEX ON friend(dst, src)")
        self.db.execute("VACUUM ANALYZE")
        self.db.execute("CHECKPOINT")

    def start(self):
        """The server refuses to be the system's administrator: where we are, it runs as the user its package made."""
        binaries = Path(sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1])
        home = self.folder / "postgres"
        home.mkdir()
        self.prefix = []
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(home, user.pw_uid, user.pw_gid)
            self.prefix = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "cwd": "/"}
        data = home / "data"
        subprocess.run([*self.prefix, binaries / "initdb", "-D", data, "-A", "trust", "-U", "peer"], **quiet)
        options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
        start = [binaries / "pg_ctl", "-D", data, "-w", "-l", home / "log", "-o", f"{options} -k {home}"]
        subprocess.run([*self.prefix, *start, "start"], **quiet)
        stop = [*self.prefix, binaries / "pg_ctl", "-D", data, "-m", "fast", "stop"]
        atexit.register(lambda: subprocess.run(stop, **quiet))
        self.home = home

    def connect(self):
        db = psycopg.connect(host=str(self.home), user="peer", dbname="postgres", autocommit=True)
        db.prepare_threshold = 0
        return db

    def rows(self, text, parameters=None):
        return self.db.execute(text, parameters, binary=True).fetchall()

    def counts(self):
        return self.rows("SELECT count(*) FROM person")[0][0], self.rows("SELECT count(*) FROM friend")[0][0]

    def read(self, key):
        return self.rows("SELECT doc FROM person WHERE key = %s", (key,))[0][0]

    def ages(self):
        return self.rows("SELECT age, count(*) FROM person GROUP BY age")

    def neighbours(self, key):
        return self.rows(TWO_STEPS, {"id": int(key[1:])})

    def numbers(self, found):
        return (row[0] for row in found)

    def neighbours_keys(self, key):
        return self.rows(f"SELECT key FROM person JOIN ({TWO_STEPS}) x ON person.id = n", {"id": int(key[1:])})

    def keys_of(self, found):
        return (row[0] for row in found)

    def neighbours_profiles(self, key):
        return self.rows(f"SELECT doc FROM person JOIN ({TWO_STEPS}) x ON person.id = n", {"id": int(key[1:])})

    def profiles(self, found):
        return (self.profile(row[0]) for row in found)

    def count_paths(self):
        return self.rows("SELECT count(*) FROM friend a JOIN friend b ON b.src = a.dst")[0][0]

    def shortest(self, source, target):
        def expand(forwards, people):
            have, want = ("src", "dst") if forwards else ("dst", "src")
            found = self.rows(f"SELECT DISTINCT {want} FROM friend WHERE {have} = ANY(%s)", (people,))
            return (row[0] for row in found)

        return search_both_ends(expand, int(source[1:]), int(target[1:]))

    def begin_writes(self, batch, synced):
        self.table = f"written{batch}"
        self.db.execute(f"CREATE TABLE {self.table} (key text PRIMARY KEY, doc text)")

    def write(self, key, text):
        self.db.execute(f"INSERT INTO {self.table} VALUES (%s, %s)", (key, text))

    def writer(self):
        db = self.connect()
        db.execute("SET synchronous_commit = on")
        text = f"INSERT INTO {self.table} VALUES (%s, %s)"
        return lambda key, profile: db.execute(text, (key, profile))

    def end_writes(self, synced):
        self.db.execute("CHECKPOINT")

    def written(self):
        return (self.profile(row[0]) for row in self.rows(f"SELECT doc FROM {self.table}"))


if __name__ == "__main__":
    serve(Postgres)
