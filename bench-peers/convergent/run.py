#!/usr/bin/env python3
"""Adds elements one at a time to a set, here and in the crates that people use for such, one system after another.

    python3 bench-peers/convergent/run.py --isomer target/quick/isomer > figures.json
    python3 bench-peers/convergent/run.py --draw figures.json > docs/images/convergent-add.svg

Prints JSON lines as `isomer bench convergent` does, with a "system" in each. A system that takes longer than --limit seconds ends
there, with the size that it came to (`gave_up_at`).
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
CRATES = ["crdts", "yrs", "automerge", "loro"]
OURS = {"isomer": "lsm", "isomer_redb": "redb"}
COLOURS = {"isomer": "#0b6e4f", "isomer_redb": "#63b995", "crdts": "#d1495b", "yrs": "#7b5ea7", "automerge": "#e08e45", "loro": "#30638e"}
# Riak's own library, a set in a map, on a machine like the one of docs/benchmarks.md: elements, milliseconds.
RIAK = {"Riak, before its faster merge": [(3_000, 762)], "Riak": [(3_000, 6.4), (20_000, 48)]}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--systems", default=",".join([*OURS, *CRATES]))
    parser.add_argument("--scale", type=float, default=1.0, help="1 is a million elements")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each of the crates")
    parser.add_argument("--isomer", default="target/quick/isomer", help="the program `isomer`")
    parser.add_argument("--draw", nargs="+", metavar="FILE", help="draw such figures as SVG; later ones replace earlier ones")
    return parser.parse_args()


def lines_of(command, seconds, system):
    """The JSON lines of a program, which is ended when its time is over."""
    print(f"{system} …", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=folder, text=True)
        try:
            out, _ = done.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            done.kill()
            out, _ = done.communicate()
            print(f"  {system}: ended after {seconds:.0f} s", file=sys.stderr)
    figures = []
    for line in out.splitlines():
        try:
            figures.append({"system": system} | json.loads(line))
        except ValueError:
            pass  # the line that it was ended in
    sizes = [int(one["case"].rsplit("_", 1)[1]) for one in figures if one["case"].startswith("add_us_")]
    if done.returncode and not any(one["case"] == "gave_up_at" for one in figures):
        figures.append(
            {"system": system, "bench": "convergent", "case": "gave_up_at", "value": max(sizes, default=0), "unit": "elements", "n": round(seconds)}
        )
    return figures


def measure(given):
    systems = given.systems.split(",")
    program = None
    if any(system in CRATES for system in systems):
        build = ["cargo", "build", "--release", "--locked", "--manifest-path", str(HERE / "Cargo.toml"), "--message-format=json"]
        built = subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True).stdout
        for line in built.splitlines():
            program = json.loads(line).get("executable") or program
    for system in systems:
        if system in OURS:
            command = [os.path.abspath(given.isomer), "bench", "convergent", "--engine", OURS[system], "--scale", str(given.scale)]
            figures = lines_of(command, 1800, system)
        else:
            command = [program, system, "--scale", str(given.scale), "--limit", str(given.limit)]
            # It looks at the time between its steps only.
            figures = lines_of(command, given.limit * 2, system)
        for figure in figures:
            print(json.dumps(figure), flush=True)


def read(files):
    """System -> case -> size -> microseconds."""
    systems = {}
    for name in files:
        with open(name, encoding="utf-8") as lines:
            for line in filter(str.strip, lines):
                one = json.loads(line)
                cases = systems.setdefault(one["system"], {})
                case, _, size = one["case"].rpartition("_")
                if one["case"] == "gave_up_at":
                    cases["gave_up"] = (one["value"], one["n"])
                elif size.isdigit():
                    cases.setdefault(case, {})[int(size)] = one["value"]
    return systems


WIDTH, HEIGHT, LEFT, TOP, RIGHT, FOOT = 620, 360, 70, 50, 190, 46
SIZES, TIMES = (2, 6), (-1, 6.4)  # powers of ten: elements, microseconds


def place(size, micros):
    across = (math.log10(size) - SIZES[0]) / (SIZES[1] - SIZES[0])
    up = (math.log10(micros) - TIMES[0]) / (TIMES[1] - TIMES[0])
    return LEFT + across * (WIDTH - LEFT - RIGHT), TOP + (1 - up) * (HEIGHT - TOP - FOOT)


def grid(title, out):
    out.append(f'<text x="{LEFT}" y="20" class="title">{escape(title)}</text>')
    out.append(f'<text x="{LEFT}" y="38" class="tick">time of one addition, against the elements that the set has</text>')
    for power in range(SIZES[0], SIZES[1] + 1):
        (x, bottom), (_, top) = place(10**power, 10 ** TIMES[0]), place(10**power, 10 ** TIMES[1])
        out.append(f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" class="grid"/>')
        out.append(f'<text x="{x:.1f}" y="{bottom + 16:.1f}" class="tick" text-anchor="middle">{10**power:,}</text>')
    for power in range(TIMES[0], math.floor(TIMES[1]) + 1):
        (left, y), (right, _) = place(10 ** SIZES[0], 10**power), place(10 ** SIZES[1], 10**power)
        shown = f"{10.0**power:g} µs" if power < 3 else f"{10 ** (power - 3)} ms" if power < 6 else "1 s"
        out.append(f'<line x1="{left:.1f}" y1="{y:.1f}" x2="{right:.1f}" y2="{y:.1f}" class="grid"/>')
        out.append(f'<text x="{left - 6:.1f}" y="{y + 4:.1f}" class="tick" text-anchor="end">{shown}</text>')


def curve(name, points, colour, dashed, labels, out):
    """Points of (elements, microseconds); what the line is called stands at its right, away from the others."""
    placed = [place(*point) for point in sorted(points)]
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
    out.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>')
    out.extend(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed)
    labels.append((placed[-1][1], name, colour, placed[-1]))


def put_labels(labels, out):
    last = TOP - 20
    for y, name, colour, (x, end) in sorted(labels):
        last = max(y, last + 15)
        out.append(f'<line x1="{x + 5:.1f}" y1="{end:.1f}" x2="{WIDTH - RIGHT + 8}" y2="{last:.1f}" stroke="{colour}" stroke-width="0.5"/>')
        out.append(f'<text x="{WIDTH - RIGHT + 12}" y="{last + 4:.1f}" fill="{colour}">{escape(name)}</text>')


def panel(title, systems, cases, riak):
    out, labels = [], []
    grid(title, out)
    for system, found in systems.items():
        points = found.get(cases(system))
        if not points:
            continue
        name = system.replace("isomer_redb", "IsomerDB, redb").replace("isomer", "IsomerDB")
        if "gave_up" in found:
            name += f": gave up after {found['gave_up'][1]:.0f} s"
        curve(name, points.items(), COLOURS.get(system, "#444"), "", labels, out)
    for name, points in RIAK.items() if riak else ():
        curve(name, [(size, 1000 * millis) for size, millis in points], "#888", ' stroke-dasharray="6 4"', labels, out)
    put_labels(labels, out)
    return "\n".join(out)


def draw(files):
    systems = read(files)
    stored = lambda system: "add_us" if system in OURS else "add_stored_us"
    panels = [
        panel("In a store: ours by element, others as one object (load, add, save)", systems, stored, True),
        panel("Ours in a transaction of its own, others in memory", systems, lambda _: "add_us", False),
    ]
    style = "text{font:12px sans-serif}.title{font-weight:bold;font-size:14px;fill:#222}.tick{font-size:10px;fill:#666}.grid{stroke:#e3e3e3}"
    height = HEIGHT * len(panels)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">')
    print(f'<style>{style}</style><rect width="{WIDTH}" height="{height}" fill="#fff"/>')
    for number, content in enumerate(panels):
        print(f'<g transform="translate(0 {number * HEIGHT})">\n{content}\n</g>')
    print("</svg>")


def main():
    given = arguments()
    if given.draw:
        draw(given.draw)
    else:
        measure(given)


if __name__ == "__main__":
    main()
