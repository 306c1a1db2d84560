"""Throughput per GPU does not rise with the number of GPUs at equal samples per GPU."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance import TableModel
from envs.performance.concave import NOISE, ascending_fit, consistent, is_concave, pool_violators, slowest_so_far
from envs.performance.gavel_model import GavelModel
from envs.performance.gpus import gpu_types
from envs.performance.measurements import measured_points, played_points
from envs.performance.step_time import Priors, StepPoints, fit_step_time
from envs.performance.table_model import node_grid, raw_throughputs
from envs.performance.zoo import zoo
from envs.types import Configuration

CONCAVE = sorted(name for name, profile in zoo().items() if is_concave(profile))


def points(rows):
    return StepPoints(*np.array(rows, np.float64).T)


@given(st.sampled_from(CONCAVE), st.sampled_from(sorted(gpu_types())))
def test_throughput_per_gpu_never_rises_on_any_number_of_nodes_by_more_than_noise(name, gpu_type):
    """As long as every GPU keeps its samples: up to the model's largest batch."""
    profile = zoo()[name]
    counts = np.arange(-(-profile.min_batch // profile.batch), min(64, profile.max_batch // profile.batch) + 1)
    raw = raw_throughputs(profile, gpu_type, int(counts[-1]), node_grid(64))[counts]
    per_gpu = raw / counts[:, None]
    least = np.minimum.accumulate(per_gpu, axis=0)
    assert (per_gpu * (1 - NOISE) <= least * (1 + 1e-9)).all()


def test_gavels_jump_is_left_out_of_the_default_model_and_kept_by_gavels():
    """lm on V100: 1295, 2643, 2220 and 9946 samples/s on 1, 2, 4 and 8 GPUs of a node; that on 4 contradicts."""
    batch = {(p.num_gpus, p.num_nodes): p for p in measured_points()["lm", "V100"] if p.batch_size == 20 * p.num_gpus}
    assert batch[4, 1] not in played_points("lm", "V100")
    found = [TableModel().throughput("lm", Configuration("V100", n)) for n in (1, 2, 8)]
    assert found == pytest.approx([1295, 2643, 9946], rel=NOISE)
    assert found[1] < TableModel().throughput("lm", Configuration("V100", 4)) < found[2]


def test_gavels_own_model_keeps_the_raw_values(real_data):
    model = GavelModel(str(real_data("profiles/gavel/simulation_throughputs_isolated.csv")))
    raw = [model.throughput("LM (batch size 20)", Configuration("V100", n)) for n in (2, 4, 8)]
    measured = [gpus * throughput for gpus, throughput in ((2, 2643), (4, 2220), (8, 9946))]  # a step is every worker's
    assert raw == pytest.approx(measured, rel=1e-3)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12))
def test_the_ascending_fit_is_the_nearest_sequence_that_never_falls(values):
    found = ascending_fit(np.array(values))
    assert (np.diff(found) >= 0).all()
    assert found.sum() == pytest.approx(sum(values), abs=1e-9)
    distance = ((found - values) ** 2).sum()
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = np.sort(found + rng.normal(0, 0.3, len(values)))
        assert distance <= ((other - values) ** 2).sum() + 1e-9


def test_pooled_steps_by_hand():
    """4 s and 1 s become 2 s each; one GPU keeps its time; another batch and another placement are not touched."""
    rows = [(1, 1, 8, 1.5), (2, 1, 8, 4.0), (4, 1, 8, 1.0), (4, 1, 16, 0.5), (4, 2, 8, 0.25)]
    assert pool_violators(points(rows), 8).seconds.tolist() == pytest.approx([1.5, 2.0, 2.0, 0.5, 0.25])


def test_the_most_steps_that_do_not_contradict_each_other_by_hand():
    """Of 4 s, 1 s, 1.1 s after 1 s on one GPU, the first contradicts; of 4 s and 1 s the faster stays; 2 % is noise."""
    three = [(1, 1, 8, 1.0), (2, 1, 8, 4.0), (4, 1, 8, 1.0), (8, 1, 8, 1.1)]
    assert consistent(points(three)).tolist() == [True, False, True, True]
    assert consistent(points(three[:3])).tolist() == [True, False, True]
    assert consistent(points([(1, 1, 8, 1.0), (2, 1, 8, 0.98), (4, 4, 8, 0.9)])).tolist() == [True, True, False]


def test_no_step_is_faster_than_that_of_one_gpu():
    rows = [(1, 1, 8, 2.0), (2, 1, 8, 1.0), (4, 1, 8, 3.0), (2, 2, 8, 1.5), (4, 4, 8, 2.5)]
    assert pool_violators(points(rows), 8).seconds.tolist() == pytest.approx([2.0, 2.0, 3.0, 2.0, 2.5])


def test_slowest_so_far_by_brute_force():
    rng = np.random.default_rng(3)
    rows = [(n, 1, b, rng.uniform(0.5, 2.0)) for n in (1, 2, 4, 8) for b in (4, 8)]
    surface = fit_step_time(points(rows), Priors())
    local = np.array([8.0, 8.0, 4.0, 4.0, 8.0, 2.0, 2.0, 2.0])
    nodes = np.array([1, 2, 3])
    found = slowest_so_far(surface, local, 8, nodes)
    for n in range(1, 9):
        for column, on in enumerate(nodes):
            fewer = np.arange(1, n + 1)
            seconds = surface.seconds(fewer, np.minimum(fewer, on), np.array(local[n - 1]))
            assert found[n - 1, column] == pytest.approx(max(seconds[-1], seconds.max() * (1 - NOISE)))
