"""The time-priced bound: below every scheduler and every optimum, and near the optimum where that is known."""

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from baselines import ElasticDp, Fifo, Random, Srtf, Starling
from baselines.planner import OraclePlanner
from envs.metrics import time_prices
from envs.metrics.bounds import Relaxation
from envs.performance import Contention, CostBySize, IdealModel, TableModel
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, Configuration, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.conformance.constrained_worlds import HALLS, halls_workload
from tests.conformance.worlds import CLUSTERS, Curved

ONE_GPU = ClusterSpec((NodeSpec("plain", 1),))
ROUNDING = 1 - 1e-9
ZOO = TableModel(gpus_per_node=4)
MODELS = ("alexnet", "resnet50", "deepspeech2", "bert")


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


def zoo_setup(rng, sharing="off"):
    """Two or three small nodes of up to two GPU types, whose cores and memory are scarce."""
    gpu_types = rng.choice(["V100", "P100", "K80"], rng.integers(2, 4)).tolist()
    cores, memory, link = rng.uniform(4, 24), rng.uniform(60, 400), float(rng.choice([0.3, 1.25, 12.5]))
    cluster = ClusterSpec(tuple(NodeSpec(name, 4, cores, memory, inter_node_bandwidth=link) for name in gpu_types))
    scenario = Scenario(
        cpu_memory="shared",
        contention=Contention("measured" if rng.random() < 0.5 else "off"),
        reconfiguration=CostBySize() if rng.random() < 0.5 else None,
        restart_delay=float(rng.choice([0.0, 30.0])),
        sharing=sharing,
    )
    return Setup(cluster, ZOO, scenario)


def zoo_jobs(rng):
    """Two jobs of each of four models, of half an hour on average, that arrive within as long."""
    times, specs = np.sort(rng.uniform(0, 2000, 8)).tolist(), []
    for i, model in enumerate(MODELS * 2):
        gpus = int(rng.integers(1, 6))
        work = float(rng.exponential(1500) + 20) * ZOO.throughput(model, Configuration("V100", gpus, -(-gpus // 4)))
        low, high = (1, 8) if rng.random() < 0.6 else (gpus, gpus)
        specs.append(JobSpec(i, times[i], gpus, work, model, min_gpus=low, max_gpus=high))
    return Workload.of(specs)


def jct_of(scheduler, workload, setup):
    """float64[num_jobs]: the JCT of each job, in seconds."""
    records, jct = run_episode(scheduler, Simulator(workload, setup)).records, np.full(len(workload), np.nan)
    jct[records["job"]] = records["finish_time"] - records["submit_time"]
    assert np.isfinite(jct).all()
    return jct


@pytest.mark.parametrize("delays", [(0.0, 0.0), (7.0, 4.0), (4.0, 7.0)])
@pytest.mark.parametrize("cluster", sorted(CLUSTERS))
def test_no_scheduler_is_below_the_bound_of_all_jobs_or_some(cluster, delays):
    setup = Setup(CLUSTERS[cluster], Curved(), Scenario(start_delay=delays[0], restart_delay=delays[1]))
    workload = random_workload(np.random.default_rng(0), most_gpus=min(4, CLUSTERS[cluster].num_gpus))
    relaxation = Relaxation.of(workload, setup)
    bounds = [(jobs, relaxation.of_jobs(jobs).mean_jct()) for jobs in (np.arange(25), np.arange(5, 15))]
    for scheduler in (Fifo(), Random(), Srtf(), ElasticDp(), Starling()):
        jct = jct_of(scheduler, workload, setup)
        for jobs, bound in bounds:
            assert jct[jobs].mean() >= bound * ROUNDING


@pytest.mark.parametrize("seed", range(10))
def test_on_500_random_worlds_no_scheduler_is_below_any_prices(seed):
    """Scarce cores and memory, narrow links, delays, pairs on a GPU: every vector of prices gives a bound."""
    setup = zoo_setup(np.random.default_rng(seed), sharing="pairs" if seed % 3 == 0 else "off")
    players = [Random(), Fifo(), Srtf(), Random(), Starling()]
    for trial in range(50):
        rng, scheduler = np.random.default_rng([seed, trial]), players[trial % len(players)]
        workload = zoo_jobs(rng)
        relaxation = Relaxation.of(workload, setup, any_batch=isinstance(scheduler, Starling))
        jct = jct_of(scheduler, workload, setup)
        assert (jct >= (relaxation.alone + relaxation.delay) * ROUNDING).all()
        priced, edges = relaxation.priced, np.linspace(0.0, 9000.0, 31)
        assert priced is not None
        for scale in (0.3, 2.0):
            prices = scale * rng.exponential(1.0, (*priced.supply.shape, 30)) * (rng.random(30) < 0.5)
            bound = priced.total(prices / priced.supply[:, :, None], edges)[0] + relaxation.delay.sum()
            assert jct.sum() >= bound * ROUNDING


@pytest.mark.parametrize("seed", range(3))
def test_the_oracle_is_not_below_the_bound(seed):
    rng = np.random.default_rng(seed)
    setup, workload = zoo_setup(rng), zoo_jobs(rng)
    setup = replace(setup, scenario=replace(setup.scenario, batch_sizes="usual"))
    bound = Relaxation.of(workload, setup).mean_jct()
    for scheduler in (OraclePlanner(), Starling()):
        assert jct_of(scheduler, workload, setup).mean() >= bound * ROUNDING


def test_scarce_cores_and_memory_raise_the_bound():
    """Without limits of cores and memory the same jobs have a bound that is a twentieth lower."""
    workload, setup = zoo_jobs(np.random.default_rng(5)), zoo_setup(np.random.default_rng(5))
    ample = replace(setup, scenario=replace(setup.scenario, cpu_memory="unlimited"))
    assert Relaxation.of(workload, ample).mean_jct() < 0.95 * Relaxation.of(workload, setup).mean_jct()


def test_a_job_alone_has_the_cores_of_its_nodes():
    """AlexNet on 4 GPUs of a node with 12 cores: 3 cores for each, with which it keeps 1 / 2.33 of its throughput."""
    cluster = ClusterSpec((NodeSpec("V100", 4, 12.0, 1000.0),))
    ample = ZOO.throughput("alexnet", Configuration("V100", 4))
    workload = Workload.of([JobSpec(0, 0.0, 4, 1000 * ample, "alexnet", min_gpus=4, max_gpus=4)])
    setup = Setup(cluster, ZOO, Scenario(cpu_memory="shared"))
    kept = ZOO.throughput("alexnet", Configuration("V100", 4, cpus_per_gpu=3.0, memory_per_gpu=250.0)) / ample
    assert kept < 0.8
    assert Relaxation.of(workload, setup).alone == pytest.approx(1000 / kept)
    assert jct_of(Fifo(), workload, setup) == pytest.approx(1000 / kept)


SPEEDUPS = (0, 2, 3, 4, 4)  # of an elastic job on 0 to 4 GPUs


class Steps(IdealModel):
    """Samples per second by `SPEEDUPS`."""

    def throughput(self, model, configuration):
        """Samples per second."""
        return float(SPEEDUPS[min(configuration.num_gpus, 4)])


def least_total(jobs):
    """The least sum of JCTs on four GPUs over all schedules that change at whole seconds, by exhaustive search.

    Args:
        jobs: for each job its submission, work and most GPUs.
    """

    @cache
    def cost(now, left):
        here = [i for i, (submit, _, _) in enumerate(jobs) if left[i] > 0 and submit <= now]
        if not any(left):
            return 0.0
        if not here:
            return cost(now + 1, left)
        best = np.inf
        for given in itertools.product(*(range(min(jobs[i][2], 4) + 1) for i in here)):
            if 0 < sum(given) <= 4:
                after, spent = list(left), 0.0
                for i, gpus in zip(here, given, strict=True):
                    spent += min(left[i] / SPEEDUPS[gpus], 1.0) if gpus else 1.0
                    after[i] = max(left[i] - SPEEDUPS[gpus], 0)
                best = min(best, spent + cost(now + 1, tuple(after)))
        return best

    return cost(0, tuple(work for _, work, _ in jobs))


@pytest.mark.parametrize("seed", range(6))
def test_below_the_optimum_of_exhaustive_search_on_tiny_worlds(seed):
    """Up to five jobs on four GPUs; the bound is at most a quarter below the optimum, a tenth on average."""
    rng = np.random.default_rng(seed)
    rows = [(int(rng.integers(0, 3)), int(rng.integers(1, 9)), int(rng.integers(1, 5))) for _ in range(3 + seed % 3)]
    jobs = sorted(rows)
    specs = [JobSpec(i, s, 1, float(work), "any", min_gpus=1, max_gpus=most) for i, (s, work, most) in enumerate(jobs)]
    setup = Setup(ClusterSpec((NodeSpec("plain", 4),)), Steps(), Scenario(restart_delay=0.0))
    bound = len(jobs) * Relaxation.of(Workload.of(specs), setup).mean_jct()
    assert 0.75 * least_total(jobs) < bound <= least_total(jobs)


def test_one_gpu_bound_is_within_a_tenth_of_the_optimum():
    """On one GPU, shortest remaining time first is optimal (Schrage 1968), and the other bound is exact."""
    rng = np.random.default_rng(0)
    jobs = sorted(zip(rng.integers(0, 60, 12).tolist(), rng.integers(2, 30, 12).tolist(), strict=True))
    specs = [JobSpec(i, float(s), 1, float(work), "any", min_gpus=1, max_gpus=1) for i, (s, work) in enumerate(jobs)]
    relaxation = Relaxation.of(Workload.of(specs), Setup(ONE_GPU, IdealModel()))
    optimum = 12 * relaxation.mean_jct()
    assert relaxation.priced is not None
    assert 0.9 * optimum < relaxation.priced.total_jct(relaxation.makespan()) <= optimum


@pytest.mark.parametrize(("restart", "certain"), [(9.0, 7.0), (0.0, 0.0)])
def test_the_shorter_of_start_and_restart_delay_is_part_of_the_bound(restart, certain):
    """A start delay of 7 s is certain only if a restart during it costs no less."""
    workload = Workload.of([JobSpec(0, 3.0, 1, 10.0, "any", min_gpus=1, max_gpus=1)])
    setup = Setup(ONE_GPU, IdealModel(), Scenario(start_delay=7.0, restart_delay=restart))
    relaxation = Relaxation.of(workload, setup)
    assert relaxation.mean_jct() == pytest.approx(relaxation.alone[0] + certain)
    assert relaxation.makespan() == pytest.approx(relaxation.alone[0] + certain)


def test_of_very_many_jobs_or_with_time_limits_one_machine_gives_the_bound(monkeypatch):
    workload, setup = random_workload(np.random.default_rng(0)), Setup(CLUSTERS["homogeneous"], Curved())
    tighter = Relaxation.of(workload, setup).mean_jct()
    monkeypatch.setattr(time_prices, "OPERATIONS", (1e4, 1e4))
    plain = Relaxation.of(workload, setup).mean_jct()
    assert plain == replace(Relaxation.of(workload, setup), priced=None).mean_jct()
    assert plain < tighter
    limited = Workload.of([replace(job, time_limit=20.0) for job in halls_workload(0)])
    assert Relaxation.of(limited, Setup(HALLS, Curved())).priced is None
