"""The kernels of the observation and of the coordination graph against their reference implementation."""

from collections import Counter

import numpy as np
import pytest

from envs.bidding import BiddingBatch, BiddingRules, columns
from envs.bidding.reference import BidObserver, reference_edges
from envs.simulation import FifoMarket
from envs.simulation.reference import reference_at
from envs.simulation.seen.clearing import placements_of
from envs.simulation.seen.market import Market
from tests.conformance.constrained_worlds import constrained_world
from tests.conformance.random_worlds import RandomWorld, random_world
from tests.unit.bidding.bidders import WhimMarket, loud

WORLDS = 12
MOST_ROUNDS = 25


def random_rules(rng: np.random.Generator) -> BiddingRules:
    """Any mix of rules."""
    return BiddingRules(
        num_candidates=int(rng.integers(1, 12)),
        candidates_per_node=float(rng.choice([0.0, 1.5])),
        queue_order=("shortest", "fifo", "least_service")[int(rng.integers(3))],
        contenders=int(rng.integers(0, 5)),
    )


def begun(world: RandomWorld, rules: BiddingRules, market: Market | None = None) -> BiddingBatch:
    """An episode at its first round, without failures of nodes later than the batch draws them."""
    market = market or WhimMarket()
    batch = BiddingBatch(
        world.setup, world.workload.models, len(world.workload), market=market, rules=rules, logging=True
    )
    batch.load(0, world.workload, np.random.default_rng(world.seed))
    return batch


def observer_of(batch: BiddingBatch, world: RandomWorld, rules: BiddingRules) -> BidObserver:
    """The reference of the present round."""
    engine = reference_at(batch.state, 0, world.workload, world.setup, batch.plans)
    changes = batch.auction.proposal
    assert changes is not None
    proposed: dict[int, dict[int, int]] = {job: {} for job in changes.stopped[0, : changes.num_stopped[0]].tolist()}
    proposed |= {job: dict(place.gpus) for job, place in placements_of(changes, 0).items()}
    return BidObserver(engine, rules, proposed)


def compare(told: str, batch: BiddingBatch, observer: BidObserver) -> Counter[str]:
    """Assert that both show the same, to the last bit of float32; count what the graph holds."""
    seen = batch.observation
    pairs, pair_jobs = observer.pair_rows()
    expected = {
        "jobs": observer.job_rows(),
        "nodes": observer.node_rows(),
        "pairs": pairs,
        "pair_jobs": pair_jobs,
        "cluster": observer.cluster_row(),
    }
    for key, other in expected.items():
        array = seen[key][0]
        assert (array.dtype, array.shape) == (other.dtype, other.shape), f"{told}: {key}"
        differs = np.argwhere(array != other)
        assert not len(differs), (
            f"{told}: {key}{differs[0]}: {array[tuple(differs[0])]}, reference {other[tuple(differs[0])]}"
        )
    return compare_edges(told, batch, reference_edges(observer))


def compare_edges(told: str, batch: BiddingBatch, edges: dict[tuple[int, int], list[float]]) -> Counter[str]:
    """Assert that the graph has the same edges, each once, grouped by target, with equal features."""
    seen = batch.observation
    count = int(seen["num_edges"][0, 0])
    ends = seen["edges"][0, :, :count]
    assert (seen["edges"][0, :, count:] == -1).all()
    assert not seen["edge_features"][0, count:].any()
    assert (np.diff(ends[1]) >= 0).all()
    found = {(int(s), int(t)): f for (s, t), f in zip(ends.T, seen["edge_features"][0, :count], strict=True)}
    assert len(found) == count
    assert set(found) == set(edges), told
    for edge, features in edges.items():
        np.testing.assert_allclose(found[edge], features, rtol=1e-6, err_msg=f"{told}: edge {edge}")
    held: Counter[str] = Counter(edges=count)
    for features in edges.values():
        held.update({name: int(value > 0) for name, value in zip(columns.EDGE_COLUMNS, features, strict=True)})
    return held


@pytest.mark.parametrize("rules_of_world", ["plain", "all rules", "constrained"])
def test_kernels_and_reference_observe_the_same(rules_of_world):
    """Random worlds and rules, and a market that does anything; where jobs have constraints, one that honours them."""
    rounds = 0
    for seed in range(WORLDS):
        constrained = rules_of_world == "constrained"
        world = constrained_world(seed) if constrained else random_world(seed, plain=rules_of_world == "plain")
        rules = random_rules(np.random.default_rng(seed))
        batch = begun(world, rules, FifoMarket() if constrained else None)
        for number in range(MOST_ROUNDS):
            if batch.ended[0]:
                break
            actions = loud(batch.observation)
            compare(f"{world.name}, round {number}, {rules}", batch, observer_of(batch, world, rules))
            batch.step(actions)
            rounds += 1
    assert rounds > 10 * WORLDS


def test_the_worlds_hold_what_counts():
    """Every feature that is not a constant of these worlds varies, and every reason for an edge occurs."""
    seen: dict[str, set[float]] = {}
    held: Counter[str] = Counter()
    for seed in range(10):
        world = random_world(seed)
        rules = BiddingRules(num_candidates=6)
        batch = begun(world, rules)
        for _ in range(25):
            if batch.ended[0]:
                break
            for part, prefix in {"jobs": "JOB", "nodes": "NODE", "pairs": "PAIR", "cluster": "CLUSTER"}.items():
                array = np.moveaxis(batch.observation[part], -1, 0)
                for name, values in zip(columns.names_of(prefix), array, strict=True):
                    seen.setdefault(f"{part} {name}", set()).update(np.unique(values).tolist()[:50])
            held += compare_edges(world.name, batch, reference_edges(observer_of(batch, world, rules)))
            batch.step(loud(batch.observation))
    constant = {name for name, values in seen.items() if len(values) < 2}
    assert constant == set()
    assert all(held[name] > 0 for name in columns.EDGE_COLUMNS), held
