"""The coordination graph, worked by hand, and its cost."""

import numpy as np
import pytest

from envs.bidding import BiddingBatch, BiddingRules, columns
from envs.performance import Contention, IdealModel
from envs.simulation import Scenario, Setup
from envs.simulation.seen.market import BidArrays, Changes
from envs.simulation.world.arrays import World
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.unit.bidding.bidders import WhimMarket, one_of, silent

Gpus = dict[int, int]


class Told(WhimMarket):
    """Places waiting jobs as told; nodes that are not named get nothing.

    Args:
        placements: GPUs by node, for each job.
    """

    def __init__(self, placements: dict[int, Gpus]) -> None:
        super().__init__()
        self.placements = placements

    def attach(self, setup, table, state):
        """See `Market`."""
        made = Told(self.placements)
        base = super().attach(setup, table, state)
        made.proposed, made.cleared = base.proposed, base.cleared
        return made

    def clear(self, worlds: World, bids: BidArrays) -> Changes:
        """See `Market`."""
        self.cleared.num_rows[0] = 0
        for job, gpus in self.placements.items():
            if one_of(worlds, 0).jobs["status"][job] == 1:
                for node, count in gpus.items():
                    row = (job, node, count, np.nan, np.nan, -1, 0, 0, 0.0, 0.0, 0)
                    self.cleared.rows[0, self.cleared.num_rows[0]] = row
                    self.cleared.num_rows[0] += 1
        return self.cleared

    def propose(self, worlds: World) -> Changes:
        """See `Market`: nothing."""
        return self.proposed


def edges_after(
    placements: dict[int, Gpus],
    waiting: tuple[int, ...] = (),
    nodes: int = 5,
    contenders: int = 2,
    contention: str = "off",
) -> dict[tuple[int, int], dict[str, float]]:
    """Edges of the second round: jobs run where told, and others, of so many GPUs, have arrived."""
    specs = [JobSpec(job, 0.0, sum(gpus.values()), 1e6, "resnet50") for job, gpus in placements.items()]
    specs += [JobSpec(len(specs) + i, 1.0, gpus, 1e6, "resnet50") for i, gpus in enumerate(waiting)]
    specs.append(JobSpec(len(specs), 1.0, 1, 1e6, "resnet50"))
    specs = [JobSpec(i, s.submit_time, s.num_gpus, s.work, s.model) for i, s in enumerate(specs)]
    cluster = ClusterSpec(tuple(NodeSpec("V100", 4, inter_node_bandwidth=1.0) for _ in range(nodes)))
    scenario = Scenario(horizon=1e9, contention=Contention(contention))  # type: ignore[arg-type]
    workload = Workload.of(specs)
    rules = BiddingRules(num_candidates=len(waiting) + 1, contenders=contenders, queue_order="fifo")
    batch = BiddingBatch(
        Setup(cluster, IdealModel(("resnet50",)), scenario), workload.models, len(specs), 1, Told(placements), rules
    )
    batch.load(0, workload, np.random.default_rng(0))
    batch.step(silent(batch.observation))
    seen = batch.observation
    count = int(seen["num_edges"][0, 0])
    return {
        (int(source), int(target)): dict(zip(columns.EDGE_COLUMNS, features.tolist(), strict=True))
        for (source, target), features in zip(seen["edges"][0, :, :count].T, seen["edge_features"][0], strict=False)
    }


def both_ways(*pairs: tuple[int, int]) -> set[tuple[int, int]]:
    """Edges in both directions."""
    return {*pairs, *((target, source) for source, target in pairs)}


def test_nodes_that_share_a_job_are_linked_in_a_chain_and_to_the_first():
    edges = edges_after({0: {0: 1, 2: 2, 3: 3, 4: 4}}, contenders=0)
    assert set(edges) == both_ways((0, 2), (2, 3), (3, 4), (0, 3), (0, 4))
    assert edges[3, 2]["jobs"] == 1 / 8
    assert edges[3, 2]["gpus"] == pytest.approx(np.log2(1 + 2 + 3) / 8)
    assert edges[3, 2]["candidates"] == edges[3, 2]["contended"] == edges[3, 2]["traffic"] == 0.0


def test_two_shared_jobs_make_one_edge():
    edges = edges_after({0: {0: 1, 1: 1}, 1: {0: 2, 1: 2}}, contenders=0)
    assert set(edges) == both_ways((0, 1))
    assert edges[0, 1]["jobs"] == 2 / 8
    assert edges[0, 1]["gpus"] == pytest.approx(np.log2(1 + 6) / 8)


def test_the_best_places_of_a_candidate_are_linked():
    """Node 0 is full; nodes 1 and 3 fit the waiting jobs best, with the fewest free GPUs."""
    edges = edges_after({0: {0: 4}, 1: {1: 2}, 2: {3: 2}}, waiting=(2,))
    assert set(edges) == both_ways((1, 3))
    assert edges[1, 3]["candidates"] == 2 / 8  # two waiting jobs


def test_without_contenders_candidates_link_nothing():
    for contenders in (0, 1):
        assert edges_after({0: {0: 4}}, waiting=(2, 3), contenders=contenders) == {}


def test_jobs_that_contend_for_a_link_couple_their_other_nodes():
    """Jobs 0 and 1 meet on node 2; what node 0 does to job 0 concerns node 4, and the reverse."""
    placements = {0: {0: 2, 2: 2}, 1: {2: 2, 4: 2}}
    assert set(edges_after(placements, contenders=0)) == both_ways((0, 2), (2, 4))
    edges = edges_after(placements, contenders=0, contention="measured")
    assert set(edges) == both_ways((0, 2), (2, 4), (0, 4))
    assert edges[0, 4]["contended"] == edges[4, 0]["contended"] == 1.0
    assert edges[0, 2]["contended"] == edges[0, 4]["jobs"] == 0.0
    assert edges[0, 2]["traffic"] > 0.0


def test_the_number_of_edges_is_linear_in_jobs_and_candidates():
    """On 200 idle nodes, every node sees every candidate; a complete graph would have 39,800 edges."""
    edges = edges_after({0: {0: 4}}, waiting=(1, 2, 3), nodes=200, contenders=4)
    assert 0 < len(edges) <= 4 * 4 * 3
