#!/usr/bin/env python3
"""The published reads of LDBC's interactive workload on generated data: Isomer and Neo4j, both embedded, in one run.

Figures go to standard output, one JSON object a line; everything else to standard error. The results are not LDBC
benchmark results.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import install

HERE = Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--persons", type=int, default=1000, help="people in the network: %(default)s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=20, help="parameters per query: %(default)s")
    parser.add_argument("--passes", type=int, default=10, help="passes over all runs; the fastest counts: %(default)s")
    parser.add_argument("--queries", type=Path, default=HERE.parents[1] / "shared" / "ldbc", help="the published queries: %(default)s")
    parser.add_argument("--program", type=Path, help="the program `ldbc` [default: a release build of this checkout]")
    parser.add_argument("--work", type=Path, default=HERE / "target", help="where everything is installed and loaded")
    parser.add_argument("--systems", default="isomer,neo4j", help="comma-separated: %(default)s")
    given = parser.parse_args()
    work = given.work.resolve()
    data, folder = work / "ldbc-data", work / "ldbc-run"
    for one in (data, folder):
        shutil.rmtree(one, ignore_errors=True)
        one.mkdir(parents=True)
    program = given.program
    if not program:
        build = ["cargo", "build", "--quiet", "--release", "--locked", "--package", "isomer-testkit", "--bin", "ldbc"]
        subprocess.run(build, cwd=HERE.parent, check=True)
        program = HERE.parent / "target" / "release" / "ldbc"
    common = ["--persons", given.persons, "--seed", given.seed, "--runs", given.runs]
    command = [str(part) for part in (program, *common)]
    subprocess.run([*command, "generate", data], check=True)
    if "isomer" in given.systems.split(","):
        subprocess.run([*command, "run", "--passes", str(given.passes)], check=True)
    if "neo4j" in given.systems.split(","):
        try:
            path = install.compile_java(work, ["NeoLdbc.java"])
        except install.Missing as error:
            sys.exit(f"error: neo4j cannot be installed: {error}")
        java = ["java", "-Xms2g", "-Xmx4g", *install.OPENED, "-cp", path, "peers.NeoLdbc"]
        subprocess.run([*java, data, given.queries, folder, str(given.passes)], check=True)


if __name__ == "__main__":
    main()
