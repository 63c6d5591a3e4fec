#!/usr/bin/env python3
"""The project's benchmarks on other systems, side by side in one run: see README.md.

Figures go to standard output, one JSON object a line; everything else to standard error.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import compare
import embedded
import install
import network

HERE = Path(__file__).resolve().parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=0.01, help="1 is 1,632,803 people and 30,622,564 relationships")
    parser.add_argument("--systems", help="comma-separated; all that take part unless given")
    parser.add_argument("--benches", default="pokec,guanciale", help="comma-separated, of pokec, guanciale, uuid: %(default)s")
    parser.add_argument("--engine", help="the engine of isomer, where not its default")
    parser.add_argument("--rounds", type=int, default=3, help="times each job is asked of each system, in turn")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each recommendation is measured")
    parser.add_argument("--limit", type=float, default=600, help="seconds after which a system's job is given up")
    parser.add_argument("--isomer", type=Path, help="the binary to compare [default: a release build of this checkout]")
    parser.add_argument("--work", type=Path, default=HERE / "target", help="where everything is installed and loaded")
    parser.add_argument("--keep", action="store_true", help="leave the data and the databases where they are")
    return parser.parse_args()


def isomer(given):
    """The binary: the one that is named, or a release build."""
    if given:
        return given.resolve()
    root = HERE.parent
    build = ["cargo", "build", "--quiet", "--release", "--locked", "--package", "isomer-cli", "--bin", "isomer"]
    subprocess.run(build, cwd=root, check=True)
    return root / "target" / "release" / "isomer"


def main():
    given = arguments()
    benches = [name for name in given.benches.split(",") if name]
    there = [*(embedded.SYSTEMS if "uuid" in benches else []), *(install.SYSTEMS if set(benches) - {"uuid"} else [])]
    chosen = [name for name in given.systems.split(",") if name] if given.systems else there
    unknown = [name for name in chosen if name not in there]
    if unknown:
        sys.exit(f"error: unknown system {', '.join(unknown)}: choose from {', '.join(there)}")
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    binary = isomer(given.isomer)
    if "uuid" in benches:
        embedded.run([name for name in chosen if name in embedded.SYSTEMS], work, binary, given)
    if benches == ["uuid"]:
        return
    systems, install.engine = {}, given.engine
    for name in chosen:
        if name not in install.SYSTEMS:
            continue
        try:
            systems[name] = install.SYSTEMS[name](work, binary)
        except (OSError, subprocess.CalledProcessError, install.Missing) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    data = work / f"data-{given.scale:g}"
    network.make(binary, given.scale, data)
    runs = work / "run"
    shutil.rmtree(runs, ignore_errors=True)
    runs.mkdir()
    try:
        if "pokec" in benches:
            compare.pokec(systems, data, runs, given)
        if "guanciale" in benches:
            compare.guanciale(systems, data, runs, given)
    finally:
        if not given.keep:
            shutil.rmtree(runs, ignore_errors=True)
            shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    main()
