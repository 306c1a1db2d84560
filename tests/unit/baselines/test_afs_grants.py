"""AFS-L over several GPU types against the rule written out, and what restarts do to throughputs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines import Afs
from baselines.afs.pool import afs_sizes
from baselines.afs.types import afs_grants, average_throughputs, step_over_types
from envs.types import MurmurationError


def step_over_types_slowly(table, grant, present, left):
    """Return (type, size, gain per GPU) of a job's best step from `grant`, (type, size); gain 0 for no step."""
    sizes = range(1, len(table[0]))
    if grant[1] == 0:
        least = {
            gpu_type: min((n for n in sizes if row[n] > 0), default=math.inf) for gpu_type, row in enumerate(table)
        }
        able = {gpu_type: int(n) for gpu_type, n in least.items() if n <= left[gpu_type]}
        if not able:
            return (*grant, 0.0)
        gpu_type = (
            present if present in able else max(able, key=lambda gpu_type: (table[gpu_type][able[gpu_type]], -gpu_type))
        )
        return gpu_type, able[gpu_type], table[gpu_type][able[gpu_type]] / able[gpu_type]
    now, found = table[grant[0]][grant[1]], (*grant, 0.0)
    for gpu_type, row in enumerate(table):
        given_up = grant[1] if gpu_type == grant[0] else 0
        for size in sizes:
            if given_up < size <= left[gpu_type] + given_up and row[size] > now * (1 + 1e-9):
                gain = (row[size] - now) / (size - given_up)
                if gain > found[2]:
                    found = gpu_type, size, gain
    return found


def grants_slowly(work, tables, present, capacity):
    """Take one step at a time with all steps computed anew; also check that steps never overcommit a type."""
    num_jobs, left = len(work), list(capacity)
    grants = [(-1, 0)] * num_jobs
    while True:
        steps = [step_over_types_slowly(tables[job], grants[job], present[job], left) for job in range(num_jobs)]
        owner = None
        for job in (job for job in range(num_jobs) if steps[job][2] > 0):
            if owner is None:
                owner = job
                continue
            at = {j: grants[j] if grants[j][1] else steps[j][:2] for j in (owner, job)}
            a, b = sorted((owner, job), key=lambda j: (work[j] / tables[j][at[j][0]][at[j][1]], j != owner))
            gain_a = math.inf if not grants[a][1] else steps[a][2] / tables[a][grants[a][0]][grants[a][1]]
            owner = b if steps[b][2] / tables[b][steps[b][0]][steps[b][1]] > gain_a else a
        if owner is None:
            return grants
        if grants[owner][1]:
            left[grants[owner][0]] += grants[owner][1]
        grants[owner] = steps[owner][:2]
        left[grants[owner][0]] -= grants[owner][1]
        assert min(left) >= 0


def random_tables(rng, num_jobs, num_types):
    """Throughputs that do not fall with the size, with gaps."""
    tables = np.cumsum(rng.integers(0, 4, (num_jobs, num_types, 7)), axis=2).astype(float)
    tables[rng.random(tables.shape) < 0.25] = 0.0
    tables[:, :, 0] = 0.0
    return tables


@given(seed=st.integers(0, 1_000_000))
def test_grants_follow_the_rule(seed):
    rng = np.random.default_rng(seed)
    num_jobs, num_types = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    tables, work = random_tables(rng, num_jobs, num_types), rng.integers(1, 50, num_jobs).astype(float)
    present, capacity = rng.integers(-1, num_types, num_jobs), rng.integers(0, 9, num_types)
    gpu_types, sizes = afs_grants(work, tables, present, capacity)
    expected = grants_slowly(work.tolist(), tables.tolist(), present.tolist(), capacity.tolist())
    assert list(zip(gpu_types.tolist(), sizes.tolist(), strict=True)) == expected


@given(seed=st.integers(0, 1_000_000))
def test_with_one_type_the_grants_are_the_papers(seed):
    rng = np.random.default_rng(seed)
    tables, gpus = random_tables(rng, int(rng.integers(1, 7)), 1), int(rng.integers(0, 20))
    work = rng.integers(1, 50, len(tables)).astype(float)
    _, sizes = afs_grants(work, tables, np.full(len(tables), -1), np.array([gpus]))
    assert sizes.tolist() == afs_sizes(work, tables[:, 0], gpus).tolist()


SLOW_AND_FAST = np.array([[0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 4.0, 5.0]])


@pytest.mark.parametrize(
    ("grant", "present", "left", "step"),
    [
        ((-1, 0), -1, (3, 3), (1, 2, 2.0)),  # first on the type that is fastest at the least size
        ((-1, 0), 0, (3, 3), (0, 1, 1.0)),  # a running job begins on the type that it holds
        ((-1, 0), 0, (0, 3), (1, 2, 2.0)),  # unless there is no room
        ((0, 1), 0, (2, 3), (1, 2, 1.5)),  # 3 more on 2 GPUs of the other type, or 1 more for each of its own
        ((0, 1), 0, (2, 1), (0, 2, 1.0)),
        ((1, 3), 1, (3, 3), (1, 3, 0.0)),
    ],
)
def test_steps_between_types(grant, present, left, step):
    assert step_over_types(SLOW_AND_FAST, grant[0], grant[1], present, np.array(left)) == step


def test_throughputs_include_the_restart_within_the_payback():
    """100 samples at 1, 2 and 4 samples/s end in 100, 50 and 25 s, a restart costs 10 s; within 40 s at most."""
    table = np.array([[[0.0, 1.0, 2.0, 4.0]]])
    found = average_throughputs(np.array([100.0]), table, np.array([0]), np.array([2]), np.array([10.0]), payback=40.0)
    assert found.tolist() == [[[0.0, pytest.approx(1 / 1.25), 2.0, pytest.approx(4 / 1.4)]]]
    waits = average_throughputs(np.array([100.0]), table, np.array([-1]), np.array([0]), np.array([10.0]), payback=40.0)
    assert waits.tolist() == table.tolist()


@pytest.mark.parametrize("payback", [0.0, -1.0, math.nan])
def test_the_payback_is_positive(payback):
    with pytest.raises(MurmurationError, match="Afs: payback is .* must be positive"):
        Afs(payback=payback)


@pytest.mark.parametrize("protection", [-1.0, math.nan, math.inf])
def test_the_protection_is_finite_and_not_negative(protection):
    with pytest.raises(MurmurationError, match="Afs: protection is .* must be finite and not negative"):
        Afs(protection=protection)
