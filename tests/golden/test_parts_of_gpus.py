"""Schedules on parts of GPUs, worked by hand: slices, and jobs that ask for half a GPU."""

import pytest

from baselines import Fifo, Packing, Starling
from envs.evaluation.audit import Audit
from envs.performance import default_model, find_throughput
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, Configuration, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.golden.playground import times

HALF = "resnet50@0.5"


def throughput_of(model, gpu_type="V100"):
    return find_throughput(default_model(), model, Configuration(gpu_type, 1))


def play(scheduler, gpu_type, num_gpus, *models, sharing="off"):
    """Jobs that take 100 s each at what half a V100 does with resnet50, all submitted at 0 to one node."""
    work = 100.0 * throughput_of(HALF)
    specs = [JobSpec(i, 0.0, 1, work, model) for i, model in enumerate(models)]
    scenario = Scenario(sharing=sharing, restart_delay=0.0)
    setup = Setup(ClusterSpec((NodeSpec(gpu_type, num_gpus),), "one"), default_model(), scenario)
    result = run_episode(scheduler, Simulator(Workload.of(specs), setup))
    Audit(setup).check(result)
    return [(round(start, 6), round(end, 6)) for start, end in times(result)]


def test_two_halves_share_a_gpu_and_neither_notices():
    assert play(Packing(Fifo()), "V100", 1, HALF, HALF, sharing="pairs") == [(0, 100), (0, 100)]


def test_without_sharing_a_half_keeps_the_gpu_to_itself():
    assert play(Fifo(), "V100", 1, HALF, HALF) == [(0, 100), (100, 200)]


def test_a_whole_job_does_not_join_a_half():
    """resnet50 is twice as fast on a whole V100 as on half of one, by Gavel's pair with itself."""
    assert play(Packing(Fifo()), "V100", 1, HALF, "resnet50", sharing="pairs") == [(0, 100), (100, 150)]


@pytest.mark.parametrize("scheduler", [Fifo, Starling])
def test_slices_run_a_job_each(scheduler):
    assert play(scheduler(), "V100/2", 2, HALF, "resnet50") == [(0, 100), (0, 100)]
