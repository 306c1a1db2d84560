"""Schedulers where more GPUs or more nodes make a job slower: every curve has a peak."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from baselines.parts.scalability import fewest_nodes
from envs.metrics.bounds import Relaxation
from envs.simulation import Rounds, RunResult, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, Configuration, JobSpec
from envs.workloads import Workload
from tests.conformance.audit import check_run
from tests.conformance.test_schedulers import NAMES, SCHEDULERS
from tests.conformance.worlds import HETEROGENEOUS, HOMOGENEOUS

WORLDS = 4  # seeds for each scheduler
PEAKS = {"three": 3, "four": 4}
# Sizes at random, all free GPUs of a node as in the published code, and ablations that keep the requested size.
IGNORE_THROUGHPUTS = ("random", "rubick_artifact", "rubick_neither", "rubick_plans_only")
SIZED = [name for name in NAMES if getattr(SCHEDULERS[name], "elastic", False) and name not in IGNORE_THROUGHPUTS]


@dataclass(frozen=True)
class Peaked:
    """Throughput rises up to a number of GPUs, one more on the slower type; then it falls. A node more costs 40 %."""

    models: tuple[str, ...] = tuple(PEAKS)

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        alone = {"new": 2.0, "old": 1.0, "small": 0.75}[configuration.gpu_type]
        gpus, peak = configuration.num_gpus, PEAKS[model] + (configuration.gpu_type == "old")
        scaled = min(gpus, peak) ** 0.8 * 0.8 ** max(gpus - peak, 0)
        return float(alone * scaled * 0.6 ** (configuration.num_nodes - 1))


@cache  # every scheduler plays the same worlds
def peaked_world(seed: int) -> tuple[Workload, Setup]:
    """Twelve jobs, most of them elastic over sizes on both sides of the peak."""
    rng = np.random.default_rng(seed)
    cluster = (HOMOGENEOUS, HETEROGENEOUS)[seed % 2]
    largest = 12 if cluster is HOMOGENEOUS else 6
    rounds = Rounds(interval=5.0) if seed % 4 > 1 else Rounds()
    setup = Setup(cluster, Peaked(), Scenario(restart_delay=(0.0, 1.5)[seed % 2], rounds=rounds))
    specs: list[JobSpec] = []
    for place in range(12):
        gpus = int(rng.integers(1, largest + 1))
        elastic = rng.random() < 0.8
        specs.append(
            JobSpec(
                id=place,
                submit_time=float(rng.choice([0.0, 0.5, 20.0, 100.0])),
                num_gpus=gpus,
                work=float(rng.uniform(0.5, 200.0)),
                model=str(rng.choice(list(PEAKS))),
                min_gpus=int(rng.integers(1, min(gpus, 3) + 1)) if elastic else 0,
                max_gpus=largest if elastic else 0,
            )
        )
    return Workload.of(specs, f"peaked-{seed}"), setup


@cache
def play(name: str, seed: int) -> RunResult:
    """Play one world."""
    return run_episode(SCHEDULERS[name], Simulator(*peaked_world(seed)), name)


@pytest.mark.parametrize("name", NAMES)
def test_all_jobs_end_and_no_schedule_beats_the_bound(name):
    for seed in range(WORLDS):
        workload, setup = peaked_world(seed)
        result = play(name, seed)
        check_run(result, setup.performance, setup.scenario)
        assert result.finished.all(), f"{workload.name}: {name} leaves jobs unfinished"
        bound, end = Relaxation.of(workload, setup), result.records["finish_time"]
        submit = workload.jobs["submit_time"]
        assert (end - submit >= bound.alone * (1 - 1e-9)).all()
        assert (end - submit).mean() >= bound.mean_jct() * (1 - 1e-9)
        assert end.max() - submit.min() >= bound.makespan() * (1 - 1e-9)


@pytest.mark.parametrize("name", SIZED)
def test_no_elastic_job_has_more_gpus_than_its_fastest_size(name):
    """On the fewest nodes of the GPU type that it has."""
    for seed in range(WORLDS):
        workload, setup = peaked_world(seed)
        result, specs = play(name, seed), list(workload)
        for row in np.flatnonzero(result.log.events["num_shares"]).tolist():
            job, placement = specs[int(result.log.events["job"][row])], result.log.placement(row)
            types = {int(setup.cluster.node_types[node]) for node in placement.gpus}
            if job.min_gpus < job.max_gpus and len(types) == 1:
                fastest = peak(setup, job.model, types.pop())
                assert placement.num_gpus <= max(fastest, job.min_gpus), f"{workload.name}: {name}, {job}"


def peak(setup: Setup, model: str, gpu_type: int) -> int:
    """The number of GPUs with the largest throughput."""
    cluster: ClusterSpec = setup.cluster
    nodes = fewest_nodes(cluster)[gpu_type].tolist()
    curve = [
        setup.performance.throughput(model, Configuration(cluster.gpu_types[gpu_type], gpus, on)) if on else 0.0
        for gpus, on in enumerate(nodes)
    ]
    return int(np.argmax(curve))
