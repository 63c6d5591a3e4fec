"""Installs the systems from the package registries, each into the work folder (PostgreSQL with the system's packages), and
says with which commands they are started."""

import glob
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Versions that this comparison was written for; later ones may need other calls.
PACKAGES = {
    "duckdb": "duckdb==2.0.0",
    "ladybug": "ladybug==0.22.0",
    "surrealdb": "surrealdb==2.0.0",
    "arcadedb": "arcadedb-embedded==26.10.2.post1",
    "postgres": "psycopg[binary]==3.3.9",
}


class Missing(Exception):
    """A system cannot be had here."""


@dataclass
class System:
    """How a system is started: a command for each benchmark that it takes part in. The folder with the data and one for
    its database are added."""

    pokec: list = None
    guanciale: list = None
    environment: dict = field(default_factory=dict)


def step(*command, **more):
    print("installing:", *map(str, command[:6]), file=sys.stderr)
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        raise Missing(done.stdout.strip().split("\n")[-1])


def python(work):
    venv = work / "venv"
    if not (venv / "bin" / "python").exists():
        step(sys.executable, "-m", "venv", venv)
    return venv / "bin" / "python"


def package(work, name):
    """The interpreter that has the package."""
    interpreter = python(work)
    marker = work / "venv" / f"{name}.installed"
    if not marker.exists() or marker.read_text() != PACKAGES[name]:
        step(interpreter, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", PACKAGES[name])
        marker.write_text(PACKAGES[name])
    return interpreter


def peer(interpreter, script):
    return System(pokec=[interpreter, HERE / "systems" / script])


def java(work):
    """The archives and our compiled programs."""
    libraries, classes = work / "java" / "lib", work / "java" / "classes"
    if not libraries.exists():
        step("mvn", "-q", "-B", "-f", HERE / "java" / "pom.xml", "dependency:copy-dependencies", f"-DoutputDirectory={libraries}.part")
        os.rename(f"{libraries}.part", libraries)
    return libraries, classes


def compile_java(work, sources, more=()):
    libraries, classes = java(work)
    found = [str(HERE / "java" / "src" / "peers" / name) for name in sources]
    path = ":".join([*glob.glob(f"{libraries}/*.jar"), *more])
    compiler = glob.glob(f"{libraries}/ecj-*.jar")[0]
    step("java", "-jar", compiler, "-17", "-nowarn", "-cp", path, "-d", classes, *found)
    return f"{classes}:{path}"


# The engine of isomer, where not its default.
engine = None


def isomer(work, binary):
    start = [binary, *(["--engine", engine] if engine else []), "bench"]
    return System(
        pokec=[*start, "pokec", "--worker", "isomer", "--data"],
        guanciale=[*start, "guanciale", "--worker", "isomer", "--data"],
    )


def limit(work, binary):
    start = [binary, "bench"]
    return System(
        pokec=[*start, "pokec", "--worker", "limit", "--data"],
        guanciale=[*start, "guanciale", "--worker", "limit", "--data"],
    )


def duckdb(work, binary):
    return peer(package(work, "duckdb"), "duck.py")


def sqlite(work, binary):
    return peer(python(work), "sqlite.py")


def ladybug(work, binary):
    return peer(package(work, "ladybug"), "ladybug_db.py")


def surrealdb(work, binary):
    return peer(package(work, "surrealdb"), "surreal.py")


def postgres(work, binary):
    interpreter = package(work, "postgres")
    if not glob.glob("/usr/lib/postgresql/*/bin/initdb"):
        if os.geteuid() != 0:
            raise Missing("PostgreSQL is not installed: install Debian's package postgresql")
        # Without this the package would start a server of its own.
        settings = Path("/etc/postgresql-common/createcluster.conf")
        if not settings.exists():
            settings.parent.mkdir(exist_ok=True)
            settings.write_text("create_main_cluster = false\n")
        step("apt-get", "install", "-y", "--no-install-recommends", "postgresql")
    return peer(interpreter, "postgres.py")


OPENED = ["--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED"]
OPENED += ["--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED"]


def neo4j(work, binary, mode="api"):
    path = compile_java(work, ["Peer.java", "NeoPeer.java"])
    return System(pokec=["java", "-Xms2g", "-Xmx6g", *OPENED, "-cp", path, "peers.NeoPeer"], environment={"PEER_MODE": mode})


def neo4j_cypher(work, binary):
    return neo4j(work, binary, "cypher")


def arcadedb(work, binary):
    interpreter = package(work, "arcadedb")
    found = glob.glob(f"{interpreter.parent.parent}/lib/python*/site-packages/arcadedb_embedded")
    if not found:
        raise Missing("the package arcadedb-embedded has no folder arcadedb_embedded")
    archives = glob.glob(f"{found[0]}/jars/*.jar")
    path = compile_java(work, ["Peer.java", "ArcadePeer.java"], archives)
    # Its own machine, newer than the system's; its archives go first, because Neo4j brings others of the same names.
    path = ":".join([path.split(":")[0], *archives])
    options = ["-Xms2g", "-Xmx8g", "--add-modules", "jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED", *OPENED]
    return System(pokec=[f"{found[0]}/jre/bin/java", *options, "-cp", path, "peers.ArcadePeer"])


def guanciale(work, binary):
    path = compile_java(work, ["Peer.java", "Guanciale.java"])
    return System(guanciale=["java", "-Xms2g", "-Xmx4g", "-cp", path, "peers.Guanciale"])


SYSTEMS = {
    "isomer": isomer,
    "limit": limit,
    "duckdb": duckdb,
    "ladybug": ladybug,
    "neo4j": neo4j,
    "neo4j_cypher": neo4j_cypher,
    "arcadedb": arcadedb,
    "surrealdb": surrealdb,
    "postgres": postgres,
    "sqlite": sqlite,
    "guanciale": guanciale,
}
