"""Batch sizes under bids: the nearest that is offered, found by trying all of them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.parts.scalability import most_per_gpu
from baselines.parts.submitted import SubmittedJobs
from baselines.starling.batch_bids import name_batches, nearest_within, runs_at, shift_batches, shifted_batch
from baselines.starling.episode_jobs import EpisodeJobs
from envs.performance import EFFICIENCY_SETTINGS, TableModel, model_profile
from envs.scheduling import ClusterView
from envs.simulation import Scenario, Setup, Simulator, State
from envs.simulation.seen.market import add_row, no_changes
from envs.simulation.world.arrays import batch_world
from envs.simulation.world.exact import ExactThroughputs
from envs.types import ClusterSpec, Configuration, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.conformance.random_worlds import Workshop

CLUSTER = ClusterSpec((NodeSpec("V100", 4), NodeSpec("K80", 4), NodeSpec("V100", 4), NodeSpec("P100", 2)))
RANGES = ((0, 0), (16, 100), (100, 300), (70, 70), (3000, 4000))
SEEDS = st.integers(0, 10_000)


def jobs_in(scenario: Scenario, performance: Any, cluster: ClusterSpec, specs: list[JobSpec]) -> ClusterView:
    """The jobs of one episode."""
    setup = Setup(cluster, performance, scenario)
    simulator = Simulator(Workload.of(specs), setup)
    worlds = batch_world(simulator.state, simulator.table)
    return EpisodeJobs(worlds, 0, cluster, simulator.table, ExactThroughputs(setup)).view


def drawn(seed: int) -> tuple[ClusterView, int, Configuration, float, bool]:
    """A job with GPUs and a batch size, and a bid."""
    rng = np.random.default_rng(seed)
    scenario = Scenario(statistical_efficiency=EFFICIENCY_SETTINGS[seed % 3])
    specs = [
        JobSpec(i, 0.0, 1, 100.0, str(rng.choice(["resnet18", "resnet50", "lm"])), 1, 8, *RANGES[i])
        for i in range(len(RANGES))
    ]
    jobs = jobs_in(scenario, TableModel(), CLUSTER, specs)
    job, gpu_type, gpus = int(rng.integers(len(RANGES))), str(rng.choice(["V100", "K80"])), int(rng.integers(1, 9))
    offered = jobs.batch_range(job, gpu_type, gpus)
    named = None if offered is None or rng.random() < 0.3 else int(rng.integers(offered[0], offered[1] + 1))
    bid = float(rng.choice([0.0, -0.1, *rng.uniform(-2, 2, 3)]))
    return jobs, job, Configuration(gpu_type, gpus, 1 + gpus // 5, batch_size=named), bid, bool(rng.random() < 0.5)


@given(SEEDS)
def test_it_is_the_best_of_all_that_are_offered(seed: int) -> None:
    jobs, job, on, bid, measured_only = drawn(seed)
    found = shifted_batch(jobs, job, on, bid, measured_only=measured_only)
    spec, offered = jobs.job(job), jobs.batch_range(job, on.gpu_type, on.num_gpus)
    usual = model_profile(spec.model).usual_batch(on.num_gpus)
    sizes = set() if offered is None else set(range(max(offered[0], on.num_gpus), offered[1] + 1))
    if measured_only:
        sizes = {size for size in sizes if size <= most_per_gpu(spec.model, on.gpu_type) * on.num_gpus}
    if offered is not None and (spec.min_batch or 0) <= usual <= (spec.max_batch or usual):
        sizes.add(usual)
    if not sizes:
        assert found == on.batch_size
        return
    target = (on.batch_size or usual) * np.exp(bid)
    nearest = min(sorted(sizes), key=lambda size: abs(size - target))
    assert (found or usual) == nearest or not runs_at(jobs, job, on, None if nearest == usual else nearest)


def test_worlds_offer_a_choice_and_bids_are_heard() -> None:
    """The test above would pass where nothing is ever offered."""
    cases = [drawn(seed) for seed in range(200)]
    moved = [
        shifted_batch(jobs, job, on, bid, measured_only=only) != on.batch_size for jobs, job, on, bid, only in cases
    ]
    assert 40 < sum(moved) < 200


@given(st.floats(0.0, 40.0), st.integers(1, 20), st.integers(0, 10))
def test_nearest_within_equals_a_search(target: float, low: int, more: int) -> None:
    sizes = range(low, low + more + 1)
    assert nearest_within(target, low, low + more) == min(sizes, key=lambda size: abs(size - target))


def test_equally_near_batch_sizes_give_the_smaller_one() -> None:
    """At 64 x 2 = 128 without a named size, and 2.5 GPUs' worth beside: exp(0) of 101 stays, ties go down."""
    assert [nearest_within(target, 1, 9) for target in (2.5, 3.5, 8.5, 9.5)] == [2, 3, 8, 9]


def test_where_the_job_does_not_run_at_the_batch_size_found_the_choice_stays() -> None:
    """`Workshop` knows batch sizes up to 2,048, and resnet18 is offered 4,096 where every sample counts alike."""
    cluster = ClusterSpec((NodeSpec("swift", 8),))
    jobs = jobs_in(Scenario(statistical_efficiency="every_sample"), Workshop(), cluster,
                   [JobSpec(0, 0.0, 8, 100.0, "resnet18")])  # fmt: skip
    on = Configuration("swift", 8, 1, batch_size=2000)
    assert shifted_batch(jobs, 0, on, 0.02, measured_only=False) == 2040
    assert shifted_batch(jobs, 0, on, 0.1, measured_only=False) == 2000


def test_names_follow_from_the_type_and_the_sum_of_gpus() -> None:
    """Job 0 on one type gets the batch size for its 3 GPUs, job 2 on two types none; the rows of others are left."""
    submitted = SubmittedJobs()
    submitted.table = np.array([1, 0, 1])
    submitted.batches = np.arange(2 * 2 * 4).reshape(2, 2, 4)
    changes = no_changes(State.allocate(CLUSTER, 3))
    for job, node, gpus in ((2, 0, 1), (2, 1, 1), (0, 0, 2), (0, 2, 1)):
        add_row(changes, 0, job, node, gpus)
    changes.rows["batch_size"][0, 4:] = 99
    name_batches(changes, 0, np.array([1, 0, 1]), submitted)
    assert changes.rows["batch_size"][0, :5].tolist() == [0, 0, 15, 15, 99]


@pytest.mark.parametrize("bid", [-0.5, 0.5])
def test_only_jobs_with_bids_on_one_gpu_type_are_shifted(bid: float) -> None:
    """Jobs 0 and 1 hold V100 of two nodes, job 2 holds two types. Job 1 has no bid."""
    specs = [JobSpec(i, 0.0, 2, 100.0, "resnet18", 1, 8) for i in range(3)]
    jobs = jobs_in(Scenario(statistical_efficiency="every_sample"), TableModel(), CLUSTER, specs)
    changes = no_changes(State.allocate(CLUSTER, 3))
    for job, node, gpus in ((0, 0, 1), (0, 2, 1), (1, 0, 1), (1, 2, 1), (2, 1, 1), (2, 3, 1)):
        add_row(changes, 0, job, node, gpus)
    changes.rows["batch_size"][0, :4] = 200
    shift_batches(changes, 0, np.array([bid, 0.0, bid]), jobs, measured_only=True)
    shifted = round(200 * float(np.exp(bid)))
    assert changes.rows["batch_size"][0, :6].tolist() == [shifted, shifted, 200, 200, 0, 0]
