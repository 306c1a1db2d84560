"""The kernel of AFS-L against the paper's rule written out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.afs.pool import afs_sizes, next_step, prefers_longer


def next_step_slowly(throughputs, size, left):
    """Return the least size for a job without GPUs; else the size with the greatest gain per GPU."""
    larger = [n for n in range(size + 1, len(throughputs)) if n <= size + left and throughputs[n] > throughputs[size]]
    if not larger:
        return size, 0.0
    best = (
        larger[0] if size == 0 else max(larger, key=lambda n: ((throughputs[n] - throughputs[size]) / (n - size), -n))
    )
    return best, (throughputs[best] - throughputs[size]) / (best - size)


def sizes_slowly(work, throughputs, num_gpus):
    """Take one step at a time: compare every pair, and recompute all gains."""
    sizes, left = [0] * len(work), num_gpus
    while True:
        steps = [next_step_slowly(throughputs[job], sizes[job], left) for job in range(len(work))]
        owner = None
        for job in range(len(work)):
            if steps[job][1] <= 0:
                continue
            if owner is None:
                owner = job
                continue
            lengths = {
                j: work[j] / throughputs[j][sizes[j] or first_step(throughputs[j], num_gpus)] for j in (owner, job)
            }
            a, b = sorted((owner, job), key=lambda j: (lengths[j], j != owner))
            gain_a = math.inf if sizes[a] == 0 else steps[a][1] / throughputs[a][sizes[a]]
            gain_b = steps[b][1] / throughputs[b][steps[b][0]]
            owner = b if gain_b > gain_a else a
        if owner is None:
            return sizes
        left -= steps[owner][0] - sizes[owner]
        sizes[owner] = steps[owner][0]


def first_step(throughputs, num_gpus):
    """Return a job's least size."""
    return next_step_slowly(throughputs, 0, num_gpus)[0]


@given(seed=st.integers(0, 1_000_000))
def test_sizes_follow_the_rule(seed):
    rng = np.random.default_rng(seed)
    num_jobs = int(rng.integers(1, 7))
    throughputs = np.cumsum(rng.integers(0, 4, (num_jobs, 9)), axis=1).astype(float)
    throughputs[rng.random(throughputs.shape) < 0.25] = 0.0
    throughputs[:, 0] = 0.0
    work, gpus = rng.integers(1, 50, num_jobs).astype(float), int(rng.integers(0, 20))
    found = afs_sizes(work, throughputs, gpus)
    assert found.tolist() == sizes_slowly(work.tolist(), throughputs.tolist(), gpus)
    assert found.sum() <= gpus
    assert (throughputs[np.arange(num_jobs), found] > 0).tolist() == (found > 0).tolist()


@pytest.mark.parametrize(
    ("size", "left", "step"),
    [(0, 9, (2, 1.0)), (2, 1, (3, 0.5)), (2, 9, (5, 2.0)), (5, 9, (5, 0.0)), (0, 1, (0, 0.0))],
)
def test_steps_skip_sizes_that_do_not_pay(size, left, step):
    """The job does not run on 1 GPU; on 2 to 5 it does 2, 2.5, 3 and 8 samples/s."""
    assert next_step(np.array([0.0, 0.0, 2.0, 2.5, 3.0, 8.0]), size, left) == step


def test_the_inequality():
    """a, with 2 of (1, 2, 3), gains 1/2. b gains 1 by its first GPU, which is more; by its second 1/2, which is not."""
    line = np.array([0.0, 1, 2, 3])
    assert prefers_longer(line, 2, 1.0, line, 1, 1.0)
    assert not prefers_longer(line, 2, 1.0, line, 2, 1.0)
    assert not prefers_longer(line, 0, 1.0, line, 1, 1.0)  # the shorter of two without GPUs
