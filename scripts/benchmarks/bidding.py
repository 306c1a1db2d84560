"""The bidding environment's round: its step, its parts beside each other, and the reference observation."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.report import Report
from benchmarks.suite import Suite
from benchmarks.timing import cpu_seconds
from benchmarks.worlds import FULL, WORKLOAD_MODELS, Size, loaded_state
from envs.bidding import BiddingBatch, BiddingRules, kernels
from envs.bidding.reference import BidObserver, reference_edges
from envs.episodes.candidates import Features
from envs.performance import default_model
from envs.simulation import Setup, State
from envs.simulation.reference import reference_at
from envs.simulation.seen.clearing import placements_of

MOST_NODES = 1024  # bids are kept for every pair of a job and a node; on larger clusters they need too much memory
BATCH = 16  # episodes on up to 8 nodes; fewer on more
LEAST_ROUNDS = {8: 3000, 64: 500, 1000: 20}  # per second, by nodes
LOUDNESS = 0.3  # bids are drawn from -0.3 ... 0.3 of their bounds


def measure_bidding(report: Report, suite: Suite) -> None:
    """Time rounds of bids at all sizes up to `MOST_NODES`: the FIFO market, cores and contention, 32 candidates."""
    for size in suite.sizes:
        if size.nodes <= MOST_NODES:
            _measure_rounds(report, suite, replace(size, elastic=True))


def _measure_rounds(report: Report, suite: Suite, size: Size) -> None:
    start, batch = loaded_state(size), make_bidding_batch(size, max(1, BATCH * 8 // size.nodes))
    restore_batch(batch, start)
    _measure_reference(report, size, batch)
    pairs = float((batch.auction.arrays.pair_jobs >= 0).sum()) / batch.batch_size
    report.add("bidding", size, "pairs of a job and a node that nodes see", pairs, "")
    report.add("bidding", size, "edges of the coordination graph", int(batch.auction.arrays.num_edges[0, 0]), "")
    actions = draw_bids(batch)
    steps = max(1, suite.steps // 4)

    def play() -> None:
        for _ in range(steps):
            batch.step(actions)

    cost = cpu_seconds(play, suite.repeats, lambda: restore_batch(batch, start)) / steps / batch.batch_size
    report.add("bidding", size, "round", 1e6 * cost, "us")
    report.add("bidding", size, "rounds", 1 / cost, "1/s", least=LEAST_ROUNDS[size.nodes])
    restore_batch(batch, start)
    _ = batch.observation
    auction = batch.auction
    assert auction.proposal is not None
    proposal = auction.proposal
    parts: dict[str, Callable[[], object]] = {
        "market's proposal": lambda: auction.market.propose(auction.worlds),
        "observation and graph": lambda: kernels.observe_batch(auction.arrays, proposal),
        "bids and market": lambda: auction.clear(actions),
    }
    for what, call in parts.items():
        spent = cpu_seconds(lambda call=call: [call() for _ in range(steps)], suite.repeats)  # type: ignore[misc]
        report.add("bidding", size, what, 1e6 * spent / steps / batch.batch_size, "us")


def make_bidding_batch(size: Size, num_envs: int) -> BiddingBatch:
    """Environments of one size, each with the same workload."""
    setup = Setup(size.cluster(), default_model(), FULL)
    batch = BiddingBatch(setup, WORKLOAD_MODELS, size.jobs, num_envs, rules=BiddingRules())
    workload = size.workload()
    for b in range(num_envs):
        batch.load(b, workload, np.random.default_rng(0))
    return batch


def restore_batch(batch: BiddingBatch, start: State) -> None:
    """Set every episode to the first round after a loaded instant."""
    for b in range(batch.batch_size):
        batch.state.episode_view(b).copy_from(start)
    batch.proceed(0, batch.batch_size)


def draw_bids(batch: BiddingBatch) -> Features:
    """Random bids for all pairs."""
    shape = batch.auction.action_shape
    return np.random.default_rng(0).uniform(-LOUDNESS, LOUDNESS, shape).astype(np.float32)


def _measure_reference(report: Report, size: Size, batch: BiddingBatch) -> None:
    """Time the reference observation of one round and check that the kernels observe the same."""
    seen = {name: array[0].copy() for name, array in batch.observation.items()}
    engine = reference_at(batch.state, 0, size.workload(), batch.setup)
    changes = batch.auction.proposal
    assert changes is not None
    proposed = {job: dict(place.gpus) for job, place in placements_of(changes, 0).items()}
    began = time.process_time()
    observer = BidObserver(engine, batch.rules, proposed)
    pairs, pair_jobs = observer.pair_rows()
    rows = {"jobs": observer.job_rows(), "nodes": observer.node_rows(), "cluster": observer.cluster_row()}
    edges = reference_edges(observer)
    spent = time.process_time() - began
    rows |= {"pairs": pairs, "pair_jobs": pair_jobs}
    differ = sorted(name for name, array in rows.items() if (seen[name] != array).any())
    report.same(f"what differs between observations of {size}", differ, [])
    report.same(f"edges of {size}", int(seen["num_edges"][0]), len(edges))
    report.add("bidding", size, "reference observation", 1e6 * spent, "us")
