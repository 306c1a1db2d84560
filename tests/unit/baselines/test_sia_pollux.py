"""Choices of Sia and Pollux, compared with a second implementation of their published objectives, job by job."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Pollux, Sia
from baselines.parts.grants import Grant, capacity_by_type, held_grants
from baselines.parts.sizing import restart_factor
from envs.scheduling import ClusterView
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.conformance.worlds import Curved
from tests.unit.baselines.rounds import round_at, runs_on_one_type

CLUSTER = ClusterSpec((NodeSpec("new", 4), NodeSpec("new", 4), NodeSpec("old", 4)))
Choice = dict[int, Grant]


def busy(seed: int) -> ClusterView:
    """Return a round at t = 40 with up to five elastic jobs, some running since t = 0, with restarts of 10 s."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(int(rng.integers(2, 6))):
        gpus = int(rng.integers(1, 5))
        rows.append(JobSpec(i, 0.0, gpus, 1e6, "any", min_gpus=1, max_gpus=int(rng.integers(gpus, 9))))
    first = round_at(0, Workload.of(rows), CLUSTER, performance=Curved())
    allocation = first.allocation()
    for job in range(len(rows)):
        if rng.random() < 0.5:
            allocation.pack(job, gpu_types=[int(rng.integers(2))])
    running = {job: place.gpus for job in range(len(rows)) if (place := allocation.placement(job))}
    return round_at(40, Workload.of(rows), CLUSTER, place=[(0, running)], performance=Curved(), restart_delay=10.0)


def alternatives(view: ClusterView, seed: int, sizes: list[int]) -> list[Choice]:
    """Draw random choices of type and size for random jobs, within the capacity."""
    rng = np.random.default_rng(seed)
    found: list[Choice] = []
    for _ in range(200):
        left, choice = capacity_by_type(view), {}
        for job in rng.permutation(len(view.num_gpus)).tolist():
            gpu_type, size = int(rng.integers(2)), int(rng.choice(sizes))
            if view.min_gpus[job] <= size <= min(view.max_gpus[job], left[gpu_type]) and rng.random() < 0.9:
                choice[job] = Grant(gpu_type, size)
                left[gpu_type] -= size
        found.append(choice)
    return found


def factor(view: ClusterView, job: int, grant: Grant) -> float:
    """Return the restart factor of a job that was never changed, with S = 10 s and age 40 s: 40 / 50."""
    now = held_grants(view).get(job)
    once = restart_factor(np.array([40.0]), np.array([0]), np.array([10.0]))
    return 1.0 if now in (None, grant) else float(once[0])


def sia_objective(view: ClusterView, choice: Choice) -> float:
    """Sum of (r G) ** -0.5 + 0.01 for each configuration changed, + 1.1 for each job without (SOSP'23, section 3.3)."""
    held, total = held_grants(view), 0.0
    for job in range(len(view.num_gpus)):
        now, new = held.get(job), choice.get(job)
        total += 0.01 * ((now is not None and now != new) + (now is not None and new not in (None, now)))
        if new is None:
            total += 1.1
            continue
        # The least goodput of all configurations: one GPU of the slower type.
        total += (
            factor(view, job, new) * view.throughputs(job)[new.gpu_type, new.num_gpus] / view.throughputs(job)[1, 1]
        ) ** -0.5
    return float(total)


def pollux_objective(view: ClusterView, choice: Choice) -> float:
    """Sum of 1 / (speedup + 0.001) over the fair share of 12 GPUs; throughput is the mean over both types."""
    count = len(view.num_gpus)
    total = 0.0
    for job in range(count):
        new = choice.get(job)
        if new is None:
            total += 1e3
            continue
        mean = view.throughputs(job).mean(axis=0)
        mean[5:] = view.throughputs(job)[0, 5:]  # only the first type has more than four GPUs
        mean = np.maximum.accumulate(mean)
        fair = min(math.ceil(12 / count), int(view.max_gpus[job]))
        total += 1 / (factor(view, job, new) * mean[new.num_gpus] / mean[fair] + 1e-3)
    return float(total)


@pytest.mark.parametrize(
    ("scheduler", "objective", "sizes"),
    [(Sia(), sia_objective, [1, 2, 4, 8]), (Pollux(), pollux_objective, [1, 2, 3, 4, 5, 6, 7, 8])],
)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=20)
def test_no_other_choice_is_better(scheduler, objective, sizes, seed):
    view = busy(seed)
    assert runs_on_one_type(view, np.arange(len(view.num_gpus))).all()
    scheduler.reset(view.cluster, np.random.default_rng(0))
    chosen, spanning = scheduler._rounds.grants(view)
    assert spanning == []
    used = np.zeros(2, np.int64)
    for grant in chosen.values():
        used[grant.gpu_type] += grant.num_gpus
    assert (used <= capacity_by_type(view)).all()
    best = objective(view, chosen)
    for other in alternatives(view, seed, sizes):
        assert best <= objective(view, other) * (1 + 1e-5) + 1e-6
