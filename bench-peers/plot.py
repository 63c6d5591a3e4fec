#!/usr/bin/env python3
"""Draws the JSON lines of a comparison as bars: one panel a figure, one bar a system, on a logarithmic axis.

    python3 bench-peers/plot.py figures.json --cases neighbors2_p50_us,shortest_path_p50_us > figures.svg
"""

import argparse
import json
import math
import sys
from html import escape

WIDTH, LABELS, VALUES, BAR, GAP, TITLE, FOOT = 760, 150, 90, 16, 6, 34, 26
COLOURS = {"isomer": "#0b6e4f", "limit": "#b8b8b8"}
OTHERS = "#7b9fc7"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", nargs="+", help="JSON lines of run.py; later ones replace earlier ones")
    parser.add_argument("--cases", required=True, help="comma-separated, in the order of the panels")
    parser.add_argument("--title", default="", help="what stands above all panels")
    return parser.parse_args()


def read(files):
    """Case -> (unit, system -> value)."""
    cases = {}
    for name in files:
        with open(name, encoding="utf-8") as lines:
            for line in filter(str.strip, lines):
                one = json.loads(line)
                _, systems = cases.setdefault(one["case"], (one["unit"], {}))
                systems[one["system"]] = one["value"]
    return cases


def shown(value):
    """Three digits."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}" if value > 0 else "0"


def panel(case, unit, systems, top, out):
    """Bars from the least to the greatest; answers where the next panel begins."""
    found = sorted(((value, name) for name, value in systems.items() if value > 0))
    if not found:
        return top
    least, most = found[0][0] / 2, found[-1][0]
    room = WIDTH - LABELS - VALUES
    scale = lambda value: max(2.0, room * math.log(value / least) / math.log(most / least)) if most > least else room
    more = "more is better" if unit in ("ops/s", "1/s") else "less is better"
    out.append(f'<text x="0" y="{top + 18}" class="case">{escape(case)} <tspan class="unit">({escape(unit)}, {more})</tspan></text>')
    y = top + TITLE - 6
    for decade in range(math.ceil(math.log10(least)), math.floor(math.log10(most)) + 1):
        x = LABELS + scale(10**decade)
        bottom = y + len(found) * (BAR + GAP)
        out.append(f'<line x1="{x:.1f}" y1="{y}" x2="{x:.1f}" y2="{bottom}" class="grid"/>')
        out.append(f'<text x="{x:.1f}" y="{bottom + 11}" class="tick">{10**decade:,g}</text>')
    for value, name in found:
        length, colour = scale(value), COLOURS.get(name, OTHERS)
        out.append(f'<text x="{LABELS - 8}" y="{y + BAR - 4}" class="name">{escape(name)}</text>')
        out.append(f'<rect x="{LABELS}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>')
        out.append(f'<text x="{LABELS + length + 6:.1f}" y="{y + BAR - 4}" class="value">{shown(value)}</text>')
        y += BAR + GAP
    return y + FOOT


def main():
    given = arguments()
    cases = read(given.file)
    out, top = [], 8
    if given.title:
        out.append(f'<text x="0" y="{top + 14}" class="title">{escape(given.title)}</text>')
        top += 30
    for case in given.cases.split(","):
        if case not in cases:
            print(f"no figure is called {case}", file=sys.stderr)
            continue
        top = panel(case, *cases[case], top, out)
    style = (
        "text{font:12px sans-serif;fill:#222}.title{font-weight:bold;font-size:15px}.case{font-weight:bold}"
        ".unit,.tick{fill:#666;font-weight:normal}.tick{font-size:10px;text-anchor:middle}.name{text-anchor:end}.grid{stroke:#e3e3e3}"
    )
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 0 {WIDTH + 20} {top}" width="{WIDTH + 20}" height="{top}">')
    print(f'<style>{style}</style><rect x="-10" width="{WIDTH + 20}" height="{top}" fill="#fff"/>')
    print("\n".join(out))
    print("</svg>")


if __name__ == "__main__":
    main()
