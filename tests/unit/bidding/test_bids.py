"""From actions to bids, worked by hand; what the FIFO market makes of bids; and rules and sizes."""

from dataclasses import replace

import numpy as np
import pytest

from envs.bidding import BiddingBatch, BiddingRules, BiddingSpec, columns, kernels
from envs.performance import Contention, IdealModel
from envs.simulation import Scenario, Setup
from envs.simulation.seen.fifo_market import FifoMarket
from envs.simulation.seen.market import BidArrays
from envs.types import ClusterSpec, MurmurationError, NodeSpec
from envs.workloads import Workload
from tests.conformance.worlds import HETEROGENEOUS, Curved
from tests.unit.bidding.bidders import silent
from tests.unit.episodes.players import jobs_like
from tests.unit.simulation.plays import held

FREE_OF_CHARGE = Scenario(restart_delay=0.0, horizon=1e6)
TWO_NODES = ClusterSpec((NodeSpec("V100", 4), NodeSpec("V100", 4)))


def begun(
    workload: Workload,
    cluster: ClusterSpec = TWO_NODES,
    skip: bool = True,
    rules: BiddingRules | None = None,
    scenario: Scenario = FREE_OF_CHARGE,
) -> BiddingBatch:
    """An episode at its first round."""
    setup = Setup(cluster, Curved() if cluster is HETEROGENEOUS else IdealModel(), scenario)
    batch = BiddingBatch(setup, workload.models, len(workload), 1, FifoMarket(skip), rules)
    batch.load(0, workload, np.random.default_rng(0))
    return batch


def row_of(batch: BiddingBatch, job: int) -> int:
    """The row of a job in `jobs`."""
    rows: list[int] = batch.auction.arrays.listed[0].tolist()
    return rows.index(job)


def say(batch: BiddingBatch, actions: np.ndarray, node: int, job: int, bid: int, value: float) -> None:
    """Let a node bid for a job."""
    rows = batch.observation["pair_jobs"][0, node]
    actions[0, node, int(np.flatnonzero(rows == row_of(batch, job))[0]), bid] = value


def bids_on(batch: BiddingBatch, actions: np.ndarray) -> BidArrays:
    """The bids that the market would clear; erased after this call."""
    auction = batch.auction
    assert auction.proposal is not None
    kernels.collect_batch(auction.arrays, auction.proposal, actions, auction.bids, auction._weights)
    found = BidArrays(*(offsets.copy() for offsets in auction.bids))
    kernels.erase_batch(auction.arrays, auction.bids)
    return found


def test_offsets_are_means_weighted_by_gpus_and_affinity_stays_with_the_node():
    """Job 0 runs with 3 GPUs on node 0 and would stay: node 0 weighs 1 + 3 + 3, node 1 weighs 1."""
    batch = begun(jobs_like((0, 3, 50), (1, 4, 50)))
    batch.step(silent(batch.observation))
    assert held(batch.state, 0) == {0: 3}
    actions = np.zeros(batch.auction.action_shape, np.float32)
    for bid in range(7):
        say(batch, actions, 0, 0, bid, 0.5)
        say(batch, actions, 1, 0, bid, -0.5)
    bids = bids_on(batch, actions)
    scale = columns.BID_SCALE
    assert bids.affinity[0].tolist() == [[0.5 * scale[0], -0.5 * scale[0]], [0.0, 0.0]]
    mean = (7 * 0.5 - 1 * 0.5) / 8
    for name, bid in (
        ("growth", columns.BID_APPETITE),
        ("priority", columns.BID_PRIORITY),
        ("size", columns.BID_SIZE),
        ("restart", columns.BID_RESTART),
        ("cores", columns.BID_CORES),
        ("batch", columns.BID_BATCH),
    ):
        assert getattr(bids, name)[0].tolist() == pytest.approx([scale[bid] * mean, 0.0]), name


def test_bids_for_empty_rows_have_no_effect():
    batch = begun(jobs_like((0, 3, 50), (1, 4, 50)))
    actions = np.ones_like(silent(batch.observation))
    actions[batch.auction.arrays.pair_jobs >= 0] = 0.0
    assert not any(offsets.any() for offsets in bids_on(batch, actions))


def test_a_bid_that_is_left_out_counts_as_none():
    batch = begun(jobs_like((0, 3, 50), (1, 4, 50)))
    actions = np.full_like(silent(batch.observation), 0.5)
    bids = bids_on(batch, actions)
    assert bids.cores.any()
    assert not bids.batch.any()


def test_the_fifo_market_leaves_batch_sizes_to_the_world():
    """Nothing but bids for batch sizes is the same as no bids."""
    found = []
    for value in (0.0, 1.0):
        batch = begun(jobs_like((0, 3, 50), (1, 4, 50)))
        actions = np.zeros(batch.auction.action_shape, np.float32)
        actions[..., columns.BID_BATCH] = value
        batch.step(actions)
        found.append((held(batch.state, 0), held(batch.state, 1), batch.state.jobs["batch_size"].tolist()))
    assert found[0] == found[1]


def test_a_job_that_is_no_candidate_gets_bids_from_its_nodes_only():
    """One candidate place, taken by the waiting job; job 0 is seen by node 0, on which it runs."""
    batch = begun(jobs_like((0, 3, 50), (1, 8, 50)), rules=BiddingRules(num_candidates=1))
    batch.step(silent(batch.observation))
    shown = [
        [int(batch.auction.arrays.listed[0, row]) for row in rows if row >= 0]
        for rows in batch.observation["pair_jobs"][0]
    ]
    assert shown == [[0, 1], [1]]


def test_affinity_chooses_the_node():
    for node in (0, 1):
        batch = begun(jobs_like((0, 2, 1e4), (1, 1, 10)))
        actions = silent(batch.observation)
        say(batch, actions, node, 0, columns.BID_AFFINITY, 0.1)
        batch.step(actions)
        assert held(batch.state, 0) == {node: 2}


def test_affinity_outweighs_a_faster_type_only_if_it_is_large_enough():
    """On "new" GPUs a job is twice as fast as on "old" ones: log 2 = 0.69, so 0.7 wins and 0.68 does not."""
    scale = columns.BID_SCALE[columns.BID_AFFINITY]
    for offset, node in ((0.68, 1), (0.7, 0)):
        batch = begun(jobs_like((0, 2, 1e4), (1, 1, 10)), HETEROGENEOUS)
        actions = silent(batch.observation)
        say(batch, actions, 0, 0, columns.BID_AFFINITY, offset / scale)
        batch.step(actions)
        holder = next(iter(held(batch.state, 0)))
        assert (HETEROGENEOUS.nodes[holder].gpu_type == "old") is (node == 0)


def test_priority_and_size():
    """Three jobs want all GPUs of a node; the one with the lowest key comes first, and half the size makes room."""
    jobs = jobs_like((0, 4, 1e4, 1, 4), (0, 4, 1e4, 1, 4), (0, 4, 1e4, 1, 4), (1, 1, 10))
    batch = begun(jobs)
    actions = silent(batch.observation)
    for node in (0, 1):
        say(batch, actions, node, 2, columns.BID_PRIORITY, -0.5)
        say(batch, actions, node, 0, columns.BID_SIZE, float(np.log(0.5)))
    batch.step(actions)
    assert [sum(held(batch.state, job).values()) for job in range(3)] == [2, 0, 4]


def test_a_gang_prefers_whole_nodes_by_affinity():
    cluster = ClusterSpec(tuple(NodeSpec("V100", 4) for _ in range(4)))
    batch = begun(jobs_like((0, 10, 1e4), (1, 1, 10)), cluster)
    actions = silent(batch.observation)
    for node, value in ((3, 0.2), (1, 0.1), (2, 0.05)):
        say(batch, actions, node, 0, columns.BID_AFFINITY, value)
    batch.step(actions)
    assert held(batch.state, 0) == {1: 4, 2: 2, 3: 4}


def test_a_gang_larger_than_any_type_spans_types_on_which_it_runs():
    """Five nodes of three types with 6, 6 and 2 GPUs; "large" runs on no small GPU."""
    specs = jobs_like((0, 10, 1e3), (1, 1, 10))
    batch = begun(specs, HETEROGENEOUS)
    batch.step(silent(batch.observation))
    assert sum(held(batch.state, 0).values()) == 10


def test_without_skipping_the_first_job_that_does_not_fit_blocks_the_others():
    jobs = jobs_like((0, 6, 1e4), (0, 6, 1e4), (0, 1, 1e4), (1, 1, 10))
    for skip, started in ((True, [6, 0, 1]), (False, [6, 0, 0])):
        batch = begun(jobs, skip=skip)
        batch.step(silent(batch.observation))
        assert [sum(held(batch.state, job).values()) for job in range(3)] == started


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"num_candidates": 0}, "num_candidates is 0; it must be 1 or more"),
        ({"candidates_per_node": -0.5}, "candidates_per_node is -0.5"),
        ({"contenders": -1}, "contenders is -1; it must be 0 or more"),
        ({"queue_order": "random"}, "queue_order is 'random'; it must be one of shortest, fifo, least_service"),
    ],
)
def test_wrong_rules_are_refused(rules, told):
    with pytest.raises(MurmurationError, match=told):
        BiddingRules(**rules)


def test_sizes_follow_from_cluster_and_rules():
    spec = BiddingSpec.of(
        HETEROGENEOUS, BiddingRules(num_candidates=3, candidates_per_node=1.5, contenders=9), Scenario()
    )
    assert (spec.num_slots, spec.num_candidates, spec.num_pairs, spec.num_job_rows) == (4, 8, 12, 22)
    assert (spec.contenders, spec.num_bids, spec.most_edges) == (5, 7, 20)
    assert len(columns.BID_SCALE) == len(columns.BID_COLUMNS) == spec.num_bids
    assert BiddingSpec.of(HETEROGENEOUS, BiddingRules(), Scenario(batch_sizes="usual")).num_bids == 6


def test_features_do_not_depend_on_names_or_positions():
    """Nodes in another order and types under other names: the rows are the same, in the other order."""
    names = {"old": "older", "new": "brand-new", "small": "little"}

    class Renamed(Curved):
        """The same throughputs under other names."""

        def throughput(self, model, configuration):
            """Samples per second."""
            back = {other: name for name, other in names.items()}
            return super().throughput(model, replace(configuration, gpu_type=back[configuration.gpu_type]))

    nodes = HETEROGENEOUS.nodes
    turned = ClusterSpec(tuple(NodeSpec(names[node.gpu_type], node.num_gpus) for node in reversed(nodes)), "turned")
    scenario = Scenario(horizon=1e6, contention=Contention("off"))
    seen = []
    for cluster, performance in ((HETEROGENEOUS, Curved()), (turned, Renamed())):
        workload = jobs_like((0, 3, 1e4), (0, 1, 1e4, 1, 4), (0, 9, 1e4, 9, 9), (5, 2, 1e3))
        batch = BiddingBatch(Setup(cluster, performance, scenario), workload.models, len(workload))
        batch.load(0, workload, np.random.default_rng(0))
        order = slice(None) if cluster is HETEROGENEOUS else slice(None, None, -1)
        observation = batch.observation
        # Best fit takes the lower of equal nodes, so compare what does not depend on the proposal.
        kept = [name for name in columns.NODE_COLUMNS if not name.startswith("proposed")]
        at = [columns.NODE_COLUMNS.index(name) for name in kept]
        pair = [columns.PAIR_COLUMNS.index(name) for name in columns.PAIR_COLUMNS if name != "proposed_gpus"]
        job = [columns.JOB_COLUMNS.index(name) for name in columns.JOB_COLUMNS if not name.startswith("proposed")]
        seen.append(
            (
                observation["nodes"][0, order][:, at],
                observation["pairs"][0, order][:, :, pair],
                observation["jobs"][0][:, job],
                observation["cluster"][0],
            )
        )
    for one, other in zip(*seen, strict=True):
        np.testing.assert_array_equal(one, other)
