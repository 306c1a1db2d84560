"""Shares of a mini-batch: exact min-max against brute force, never worse than equal shares, and the slowest link."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance import IdealModel, default_model
from envs.performance.heterogeneous import (
    equal_shares,
    mixed_speed,
    mixed_throughput,
    proportional_shares,
    ring_all_reduce,
    step_seconds,
)
from envs.performance.zoo import zoo
from envs.types import PerformanceError

rates = st.lists(st.integers(1, 50), min_size=1, max_size=6)
small_rates = st.lists(st.integers(1, 12), min_size=1, max_size=4)


def last(shares, speeds):
    """When the last worker finishes, exactly."""
    return max(Fraction(int(share), speed) for share, speed in zip(shares, speeds, strict=True))


def brute_force(speeds, batch):
    options = product(range(batch + 1), repeat=len(speeds))
    return min(last(shares, speeds) for shares in options if sum(shares) == batch)


@given(small_rates, st.integers(0, 10))
def test_no_shares_finish_earlier(speeds, batch):
    assert last(proportional_shares(speeds, batch), speeds) == brute_force(speeds, batch)


@given(rates, st.integers(0, 10_000))
def test_every_sample_is_given_once(speeds, batch):
    for shares in (proportional_shares(speeds, batch), equal_shares(speeds, batch)):
        assert shares.sum() == batch
        assert (shares >= 0).all()
        assert shares.dtype == np.int64


@given(rates, st.integers(1, 10_000))
def test_proportional_is_never_slower_than_equal(speeds, batch):
    assert last(proportional_shares(speeds, batch), speeds) <= last(equal_shares(speeds, batch), speeds)
    assert step_seconds(speeds, batch) <= step_seconds(speeds, batch, shares="equal")


def test_rounding_to_nearest_can_lose_to_equal_shares():
    """Rates 10, 9, 9 and 4 samples: quotas 1.43, 1.29, 1.29 round to 1, 1, 1 and one is left over; it must go to 10."""
    shares = proportional_shares([10, 9, 9], 4)
    assert shares.tolist() == [2, 1, 1]
    careless = [1, 1, 2]
    assert last(shares, [10, 9, 9]) < last(careless, [10, 9, 9])


def test_a_slow_worker_may_be_better_off_without_a_sample():
    assert proportional_shares([100, 1], 3).tolist() == [3, 0]
    assert equal_shares([100, 1], 3).tolist() == [2, 1]


def test_equal_rates_get_equal_shares_and_ties_go_to_the_first():
    assert proportional_shares([5, 5, 5], 9).tolist() == [3, 3, 3]
    assert proportional_shares([5, 5, 5], 10).tolist() == [4, 3, 3]


@pytest.mark.parametrize("scale", [1e-9, 0.1, 1 / 3, 1e9])
def test_exact_quotas_stay_exact_whatever_the_unit(scale):
    """Shares 1 : 2 : 3 of 600 are whole; floating-point quotients must not disturb them."""
    assert proportional_shares(np.array([1, 2, 3]) * scale, 600).tolist() == [100, 200, 300]


@given(rates, st.integers(1, 500))
def test_the_real_valued_bound_holds_within_one_sample_of_the_slowest(speeds, batch):
    """max share / rate is at least batch / sum of rates, and at most one sample of the slowest worker above it."""
    bound = Fraction(batch, sum(speeds))
    assert bound <= last(proportional_shares(speeds, batch), speeds) <= bound + Fraction(1, min(speeds))


@given(rates, st.integers(1, 500), st.integers(1, 50))
def test_one_worker_more_never_delays_computation(speeds, batch, newcomer):
    assert last(proportional_shares([*speeds, newcomer], batch), [*speeds, newcomer]) <= last(
        proportional_shares(speeds, batch), speeds
    )


def test_a_ring_by_hand():
    """4 workers, 2 GB of gradients, slowest link 3 GB/s: 2 x 3/4 x 2 / 3 = 1 s."""
    assert ring_all_reduce(4, 2.0, [10.0, 3.0, 5.0]) == pytest.approx(1.0)
    assert ring_all_reduce(1, 2.0, 3.0) == 0


def test_the_slowest_link_gates_the_step():
    fast = step_seconds([10, 10], 20, gradient_gb=1.0, link_gb_s=[10.0, 10.0])
    slow = step_seconds([10, 10], 20, gradient_gb=1.0, link_gb_s=[10.0, 1.0])
    assert [fast, slow] == pytest.approx([1.1, 2.0])


def test_throughput_by_hand():
    """Rates 3 and 1, 8 samples: 6 and 2, two seconds; equal shares wait four seconds for the slow one."""
    assert mixed_throughput([3, 1], 8) == pytest.approx(4.0)
    assert mixed_throughput([3, 1], 8, shares="equal") == pytest.approx(2.0)


def test_a_worker_that_cannot_hold_the_model_stops_all():
    assert mixed_throughput([3, 0], 8) == 0


@pytest.mark.parametrize(
    ("speeds", "batch", "message"),
    [
        ([], 4, "at least one worker"),
        ([[1, 2]], 4, "one rate for each"),
        ([1, 0], 4, "worker 1: rate is 0.0"),
        ([1, np.nan], 4, "worker 1: rate is nan"),
        ([np.inf], 4, "worker 0: rate is inf"),
        ([1], -1, "batch_size is -1"),
    ],
)
def test_nonsense_is_refused(speeds, batch, message):
    with pytest.raises(PerformanceError, match=message):
        proportional_shares(speeds, batch)
    with pytest.raises(PerformanceError, match=message):
        equal_shares(speeds, batch)


def test_a_dead_link_is_refused():
    with pytest.raises(PerformanceError, match="every link must be positive"):
        ring_all_reduce(2, 1.0, [1.0, 0.0])


MODEL = default_model()
counts = st.integers(1, 8)


@given(st.sampled_from(sorted(zoo())), st.sampled_from(["K80", "V100", "A800"]), counts)
def test_one_type_is_the_performance_models_own_speed(name, kind, gpus):
    assert mixed_speed(MODEL, name, {kind: gpus}) == MODEL.throughput(name, kind, gpus)


@given(st.sampled_from(["resnet50", "transformer", "bert", "vgg16"]), counts, counts)
def test_a_mixed_job_lies_between_its_types(name, old, new):
    """No faster than on as many of the fast type; no slower than with equal shares, waiting for the slowest."""
    total = old + new
    batch = zoo()[name].usual_batch(total)
    kinds = ("K80", "A100")
    together = {kind: MODEL.throughput(name, kind, total) for kind in kinds}
    alone = {kind: MODEL.throughput(name, kind, 1) for kind in kinds}
    waiting = max(0.0, *(batch / together[kind] - batch / (total * alone[kind]) for kind in kinds))
    mixed = mixed_speed(MODEL, name, {"K80": old, "A100": new})
    assert mixed <= max(together.values()) * (1 + 1e-9)
    assert batch / mixed <= -(-batch // total) / alone["K80"] + waiting + 1e-9


@given(st.sampled_from(["resnet50", "transformer", "bert", "vgg16"]), counts, counts, st.integers(1, 4))
def test_proportional_shares_are_never_slower_on_mixed_types(name, old, new, nodes):
    workers = {"P100": old, "A100": new}
    on = min(nodes, old + new)
    fair = mixed_speed(MODEL, name, workers, on)
    assert fair >= mixed_speed(MODEL, name, workers, on, shares="equal") * (1 - 1e-12)
    assert fair <= mixed_speed(MODEL, name, workers, 1) * (1 + 1e-12)


def test_mixed_types_by_hand():
    """Ideal GPUs process one sample a second each and never synchronise: 4 GPUs, 4 samples/s."""
    ideal = IdealModel(models=("bert",))
    assert mixed_speed(ideal, "bert", {"K80": 2, "A100": 2}, batch_size=128) == pytest.approx(4)


def test_a_type_that_cannot_hold_the_model_stops_a_mixed_job():
    assert mixed_speed(MODEL, "llama7b", {"K80": 4, "A800": 4}) == 0


@pytest.mark.parametrize("workers", [{}, {"V100": 0}, {"V100": 2, "K80": -1}])
def test_workers_that_are_none_are_refused(workers):
    with pytest.raises(PerformanceError, match="give at least one GPU type"):
        mixed_speed(MODEL, "bert", workers)
