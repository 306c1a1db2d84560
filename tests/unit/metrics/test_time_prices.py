"""The time-priced bound: below every scheduler and every optimum, and near the optimum where that is known."""

from dataclasses import replace

import numpy as np
import pytest

from baselines import ElasticDp, Fifo, Random, Srtf, Starling
from envs.metrics.bounds import Relaxation
from envs.metrics.time_prices import TimePrices
from envs.performance import IdealModel
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, JobSpec, MurmurationError, NodeSpec
from envs.workloads import Workload
from tests.conformance.constrained_worlds import HALLS, halls_workload
from tests.conformance.worlds import CLUSTERS, Curved

ONE_GPU = ClusterSpec((NodeSpec("plain", 1),))
ROUNDING = 1 - 1e-9


def random_workload(rng, count=25, most_gpus=4):
    """Jobs on 1 to `most_gpus` GPUs that arrive within a minute, of 1 to 100 s each on one GPU."""
    times = np.sort(rng.uniform(0, 60, count)).round(2).tolist()
    sizes, works = rng.integers(1, most_gpus + 1, count).tolist(), rng.exponential(40, count) + 1
    return Workload.of(
        [
            JobSpec(i, time, int(rng.integers(1, size + 1)), float(work), "any", min_gpus=1, max_gpus=size)
            for i, (time, size, work) in enumerate(zip(times, sizes, works, strict=True))
        ]
    )


@pytest.mark.parametrize("delays", [(0.0, 0.0), (7.0, 0.0), (7.0, 4.0), (4.0, 7.0)])
@pytest.mark.parametrize("cluster", sorted(CLUSTERS))
def test_no_scheduler_is_below_the_bound_of_all_jobs_or_some(cluster, delays):
    setup = Setup(CLUSTERS[cluster], Curved(), Scenario(start_delay=delays[0], restart_delay=delays[1]))
    for seed in range(2):
        workload = random_workload(np.random.default_rng(seed), most_gpus=min(4, CLUSTERS[cluster].num_gpus))
        some = np.arange(5, 15)
        bounds = [(jobs, TimePrices.of(workload, setup, jobs).mean_jct(25)) for jobs in (np.arange(25), some)]
        for scheduler in (Fifo(), Random(), Srtf(), ElasticDp(), Starling()):
            records = run_episode(scheduler, Simulator(workload, setup)).records
            jct = np.empty(25)
            jct[records["job"]] = records["finish_time"] - records["submit_time"]
            for jobs, bound in bounds:
                assert jct[jobs].mean() >= bound * ROUNDING


def least_total(jobs):
    """The least sum of JCTs on one GPU: shortest remaining time first (Schrage 1968), in steps of a second."""
    left, total, now = {i: work for i, (_, work) in enumerate(jobs)}, 0, 0
    while left:
        here = [i for i in left if jobs[i][0] <= now]
        now += 1
        if here:
            shortest = min(here, key=left.__getitem__)
            left[shortest] -= 1
            if not left[shortest]:
                total += now - jobs[shortest][0]
                del left[shortest]
    return total


@pytest.mark.parametrize("seed", range(3))
def test_one_gpu_bound_is_within_a_tenth_of_the_optimum(seed):
    rng = np.random.default_rng(seed)
    jobs = sorted(zip(rng.integers(0, 60, 12).tolist(), rng.integers(2, 30, 12).tolist(), strict=True))
    workload = Workload.of(
        [JobSpec(i, float(time), 1, float(work), "any", min_gpus=1, max_gpus=1) for i, (time, work) in enumerate(jobs)]
    )
    setup = Setup(ONE_GPU, IdealModel())
    throughput = workload.jobs["work"][0] / Relaxation.of(workload, setup).alone[0]
    optimum = least_total(jobs) / len(jobs) / throughput
    assert throughput == 1
    assert 0.9 * optimum < TimePrices.of(workload, setup, np.arange(len(jobs))).mean_jct(150) <= optimum * ROUNDING


@pytest.mark.parametrize("seed", range(8))
def test_every_vector_of_prices_gives_a_bound(seed):
    rng, setup = (
        np.random.default_rng(seed),
        Setup(CLUSTERS[sorted(CLUSTERS)[0]], Curved(), Scenario(restart_delay=0.0)),
    )
    workload = random_workload(rng, most_gpus=min(4, setup.cluster.num_gpus))
    best = min(
        (records["finish_time"] - records["submit_time"]).sum()
        for scheduler in (Srtf(), ElasticDp(), Starling())
        for records in [run_episode(scheduler, Simulator(workload, setup)).records]
    )
    priced = TimePrices.of(workload, setup, np.arange(25))
    edges = np.linspace(workload.jobs["submit_time"].min(), 400.0, 31)
    for scale in (0.0, 0.1, 1.0, 10.0):
        prices = scale * rng.exponential(1.0, (len(priced.num_gpus), 30))
        assert priced.total(prices, edges)[0] <= best / ROUNDING


@pytest.mark.parametrize(("restart", "certain"), [(9.0, 7.0), (0.0, 0.0)])
def test_the_shorter_of_start_and_restart_delay_is_part_of_the_bound(restart, certain):
    """A start delay of 7 s is certain only if a restart during it costs no less."""
    workload = Workload.of([JobSpec(0, 3.0, 1, 10.0, "any", min_gpus=1, max_gpus=1)])
    setup = Setup(ONE_GPU, IdealModel(), Scenario(start_delay=7.0, restart_delay=restart))
    alone = Relaxation.of(workload, setup).alone[0]
    assert TimePrices.of(workload, setup, np.array([0])).mean_jct(20) == pytest.approx(alone + certain)


def test_jobs_with_time_limits_are_refused():
    limited = Workload.of([replace(job, time_limit=20.0) for job in halls_workload(0)])
    with pytest.raises(MurmurationError, match="do not cover time limits"):
        TimePrices.of(limited, Setup(HALLS, Curved()), np.arange(3))
