"""Reference implementation of the coordination graph, with sets and dicts; see `envs.bidding.graph`."""

import math
from collections import defaultdict
from itertools import pairwise

import numpy as np

from envs.bidding import columns
from envs.bidding.reference.observation import BidObserver
from envs.simulation.reference import Job, Node
from envs.types import NodeId

Edge = tuple[NodeId, NodeId]  # source, target


def reference_edges(observer: BidObserver) -> dict[Edge, list[float]]:
    """Return the features of every edge of the round, in the order of `EDGE_COLUMNS`."""
    edges: dict[Edge, dict[str, float]] = defaultdict(lambda: dict.fromkeys(columns.EDGE_COLUMNS, 0.0))
    for places in contenders(observer):
        for target in places:
            for source in places:
                if source != target:
                    edges[source, target]["candidates"] += 1.0 / 8.0
    for job in observer.engine.running():
        for source, target in linked(job):
            features, held = edges[source, target], observer.coupling.held(job)
            features["jobs"] += 1.0 / 8.0
            features["gpus"] += held[source] + held[target]
            features["traffic"] += job.traffic / observer.engine.nodes[target].spec.inter_node_bandwidth
    for node in observer.engine.nodes:
        for source, target in partners(node):
            edges[source, target]["contended"] = edges[target, source]["contended"] = 1.0
    for features in edges.values():
        features["gpus"] = math.log2(1.0 + features["gpus"]) / 8.0
    limit = columns.LIMIT
    return {edge: [min(features[name], limit) for name in columns.EDGE_COLUMNS] for edge, features in edges.items()}


def contenders(observer: BidObserver) -> list[list[NodeId]]:
    """Return the best places of every candidate that has some."""
    pairs, pair_jobs = observer.pair_rows()
    slots, count = observer.spec.num_slots, observer.spec.contenders
    throughput, fit = columns.PAIR_THROUGHPUT, columns.PAIR_FIT
    best: list[list[NodeId]] = []
    for row, job in enumerate(observer.listed[: observer.spec.num_candidates]):
        places: list[tuple[float, int, NodeId]] = []
        for node in observer.engine.nodes:
            seen = pairs[node.id, slots + row]
            score = float(np.float32(seen[throughput] * seen[fit]))
            if job is not None and pair_jobs[node.id, slots + row] >= 0 and score > 0:
                places.append((-score, node.free_gpus, node.id))
        best.append([node for *_, node in sorted(places)[:count]])
    return best if count > 1 else []


def linked(job: Job) -> set[Edge]:
    """Return the edges among the nodes of one job: to and from the first node, and between nodes that follow."""
    nodes = [share.node.id for share in job.shares]
    pairs = {*pairwise(nodes), *((nodes[0], node) for node in nodes[1:])}
    return pairs | {(target, source) for source, target in pairs}


def partners(node: Node) -> list[Edge]:
    """Return the pairs of nodes between which jobs contend for the link of this one."""
    with_traffic = [share.job for share in node.shares if share.job.traffic > 0]
    ends: list[NodeId] = []
    for job in with_traffic:
        nodes = [share.node.id for share in job.shares]
        at = nodes.index(node.id)
        ends.append(nodes[at + 1] if at + 1 < len(nodes) else nodes[at - 1])
    return [(one, other) for one, other in pairwise(ends) if one != other]
