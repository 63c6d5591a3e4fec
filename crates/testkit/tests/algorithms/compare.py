"""Compares figures of nodes with those of networkx: one graph a line in, `N graphs agree` or the first difference out."""

import json
import math
import sys

import networkx as nx
from networkx.algorithms.link_analysis.pagerank_alg import _pagerank_python as pagerank  # the one without numpy


def graph_of(case, kind):
    graph = kind()
    graph.add_nodes_from(range(case["nodes"]))
    graph.add_weighted_edges_from(tuple(edge) for edge in case["edges"])
    return graph


def simple(case, kind):
    graph = kind(graph_of(case, nx.MultiDiGraph))
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return graph


def lightest(case, kind):
    """Parallel edges as the lightest of them."""
    graph = kind()
    graph.add_nodes_from(range(case["nodes"]))
    for source, target, weight in case["edges"]:
        if not graph.has_edge(source, target) or graph[source][target]["weight"] > weight:
            graph.add_edge(source, target, weight=weight)
    return graph


def twice(case):
    """Each edge both ways; a self loop once."""
    graph = graph_of(case, nx.MultiDiGraph)
    graph.add_weighted_edges_from((b, a, w) for a, b, w in case["edges"] if a != b)
    return graph


def figures(expected):
    def check(case):
        wanted = expected(case)
        wanted = {node: value if isinstance(value, tuple) else (value,) for node, value in wanted.items()}
        found = {row[0]: tuple(row[1:]) for row in case["rows"]}
        assert found.keys() == wanted.keys(), f"nodes {sorted(found)}, not {sorted(wanted)}"
        for node, values in wanted.items():
            for mine, theirs in zip(found[node], values, strict=True):
                assert math.isclose(mine, theirs, rel_tol=1e-6, abs_tol=1e-8), f"node {node}: {mine}, not {theirs}"

    return check


def groups(case):
    found = {}
    for node, group in case["rows"]:
        found.setdefault(group, set()).add(node)
    assert sum(map(len, found.values())) == case["nodes"], "not every node has one group"
    assert sorted(found) == list(range(len(found))), "groups are not numbered from 0"
    firsts = [min(found[group]) for group in sorted(found)]
    assert firsts == sorted(firsts), "groups are not numbered by their first nodes"
    return list(found.values())


def partition(expected):
    def check(case):
        mine, theirs = groups(case), list(expected(graph_of(case, nx.MultiDiGraph)))
        assert sorted(map(sorted, mine)) == sorted(map(sorted, theirs)), f"{mine}, not {theirs}"

    return check


def communities(weight):
    """A partition, about as good as what networkx finds in one order or another."""

    def check(case):
        mine = groups(case)
        if not case["edges"]:
            assert len(mine) == case["nodes"]
            return
        graph = graph_of(case, nx.MultiGraph)
        quality = lambda parts: nx.community.modularity(graph, parts, weight=weight)
        theirs = min(quality(nx.community.louvain_communities(graph, weight=weight, seed=seed)) for seed in range(10))
        assert quality(mine) >= theirs - 0.05, f"{quality(mine)}, networkx {theirs}"

    return check


def propagated(case):
    """Nobody has a neighbour's label that is more common than its own."""
    parts = groups(case)
    label = {node: number for number, part in enumerate(parts) for node in part}
    graph = graph_of(case, nx.MultiGraph)
    for node in graph:
        counts = {}
        for other, edges in graph[node].items():
            if other != node:
                counts[label[other]] = counts.get(label[other], 0) + len(edges)
        assert not counts or counts.get(label[node], 0) == max(counts.values()), f"node {node}: {counts}"
    components = list(nx.connected_components(graph))
    assert all(any(part <= component for component in components) for part in parts), "a label left its component"


def paths(kind, weight):
    def check(case):
        graph = lightest(case, kind)
        wanted = nx.single_source_dijkstra_path_length(graph, 0, weight=weight) if case["nodes"] else {}
        found = {node: distance for node, distance, _ in case["rows"]}
        assert found == wanted, f"{found}, not {wanted}"
        for node, distance, previous in case["rows"]:
            if node == 0:
                assert previous is None
                continue
            step = graph[previous][node]["weight"] if weight else 1
            assert found[previous] + step == distance, f"node {node} after {previous}"

    return check


def rank(weight=None, alpha=0.85, personal=False, graph=lambda case: graph_of(case, nx.MultiDiGraph)):
    def expected(case):
        built = graph(case)
        flat = nx.DiGraph()
        flat.add_nodes_from(built)
        for source, target, data in built.edges(data=True):
            more = data["weight"] if weight else 1
            before = flat[source][target]["weight"] if flat.has_edge(source, target) else 0
            flat.add_edge(source, target, weight=before + more)
        if personal and not case["nodes"]:
            return {}
        start = {0: 1.0} if personal else None
        return pagerank(flat, alpha=alpha, personalization=start, tol=1e-13, max_iter=10_000)

    return figures(expected)


def all_triangles(case):
    graph = simple(case, nx.Graph)
    counts, shares = nx.triangles(graph), nx.clustering(graph)
    return {node: (counts[node], shares[node]) for node in graph}


CHECKS = {
    "degree": figures(lambda case: {
        node: sum((a == node) + (b == node and a != b) for a, b, _ in case["edges"]) for node in range(case["nodes"])
    }),
    "out_degree": figures(lambda case: dict(graph_of(case, nx.MultiDiGraph).out_degree())),
    "in_degree": figures(lambda case: dict(graph_of(case, nx.MultiDiGraph).in_degree())),
    "pagerank": rank(),
    "pagerank_weighted": rank(weight="weight", alpha=0.6),
    "pagerank_personal": rank(personal=True),
    "pagerank_both": rank(graph=twice),
    "weak": partition(nx.weakly_connected_components),
    "strong": partition(nx.strongly_connected_components),
    "labels": propagated,
    "louvain": communities(None),
    "louvain_weighted": communities("weight"),
    "triangles": figures(all_triangles),
    "core": figures(lambda case: nx.core_number(simple(case, nx.Graph))),
    "betweenness": figures(lambda case: nx.betweenness_centrality(simple(case, nx.DiGraph), normalized=False)),
    "betweenness_both": figures(lambda case: nx.betweenness_centrality(simple(case, nx.Graph), normalized=True)),
    # networkx measures the way to a node, the procedure the way from it.
    "closeness": figures(lambda case: nx.closeness_centrality(simple(case, nx.DiGraph).reverse())),
    "closeness_both": figures(lambda case: nx.closeness_centrality(simple(case, nx.Graph))),
    "distances": paths(nx.DiGraph, None),
    "distances_weighted": paths(nx.DiGraph, "weight"),
    "distances_both": paths(nx.Graph, "weight"),
}


def main():
    check = CHECKS[sys.argv[1]]
    count = 0
    for line in sys.stdin:
        case = json.loads(line)
        try:
            check(case)
        except AssertionError as difference:
            print(f"seed {case['seed']}, {case['nodes']} nodes, edges {case['edges']}: {difference}")
            sys.exit(1)
        count += 1
    print(f"{count} graphs agree")


main()
