"""Every scheduler avoids the placements for which the performance model gives 0."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from baselines.parts.scalability import fewest_nodes
from envs.simulation import Rounds, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, Configuration, JobSpec
from envs.workloads import Workload
from tests.conformance.audit import check_run
from tests.conformance.test_schedulers import NAMES, SCHEDULERS
from tests.conformance.worlds import HETEROGENEOUS, HOMOGENEOUS, Curved

WORLDS = 4  # seeds for each scheduler
GPU_TYPES = ("new", "old", "small")


@dataclass(frozen=True)
class Holed(Curved):
    """`Curved`, but 0 for some models on some numbers of GPUs of some types, and on too many nodes."""

    holes: frozenset[tuple[str, str, int]] = frozenset()  # (model, GPU type, GPUs)
    most_nodes: int = 3

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        if (model, configuration.gpu_type, configuration.num_gpus) in self.holes:
            return 0.0
        if configuration.num_nodes > self.most_nodes:
            return 0.0
        return super().throughput(model, configuration)


@cache  # every scheduler plays the same worlds
def holed_world(seed: int, most_nodes: int = 3, *, as_requested: bool = True) -> tuple[Workload, Setup]:
    """Ten jobs, some elastic, in a world where a third of all sizes give 0.

    Each job runs as requested on one type; without `as_requested` none does, but each runs with another size.
    """
    rng = np.random.default_rng(seed)
    cluster = (HOMOGENEOUS, HETEROGENEOUS)[seed % 2]
    largest = 12 if cluster is HOMOGENEOUS else 6
    every = [(model, gpu_type, gpus) for model in Curved().models for gpu_type in GPU_TYPES for gpus in range(1, 15)]
    model = Holed(holes=frozenset(each for each in every if rng.random() < 1 / 3), most_nodes=most_nodes)
    rounds = Rounds(interval=5.0) if rng.random() < 0.5 else Rounds()
    setup = Setup(cluster, model, Scenario(restart_delay=float(rng.choice([0.0, 1.5])), rounds=rounds))
    specs: list[JobSpec] = []
    while len(specs) < 10:
        gpus = int(rng.integers(1, largest + 1))
        elastic = rng.random() < 0.6
        spec = JobSpec(
            id=len(specs),
            submit_time=float(rng.choice([0.0, 0.5, 3.0, 20.0])),
            num_gpus=gpus,
            work=float(rng.uniform(0.5, 200.0)),
            model=str(rng.choice(Curved().models)),
            min_gpus=int(rng.integers(1, gpus + 1)) if elastic else 0,
            max_gpus=int(rng.integers(gpus, largest + 1)) if elastic else 0,
        )
        others = range(spec.min_gpus, spec.max_gpus + 1)
        if runs_on_one_type(spec.model, spec.num_gpus, cluster, setup):
            specs.extend([spec] if as_requested else [])
        elif not as_requested and any(runs_on_one_type(spec.model, gpus, cluster, setup) for gpus in others):
            specs.append(spec)
    return Workload.of(specs, f"holed-{seed}"), setup


def runs_on_one_type(model: str, gpus: int, cluster: ClusterSpec, setup: Setup) -> bool:
    """Whether a model runs with so many GPUs on one type that has so many."""
    fewest: Sequence[int] = []
    if gpus <= max(cluster.gpus_by_type.values()):
        fewest = fewest_nodes(cluster)[:, gpus].tolist()
    return any(
        nodes > 0 and setup.performance.throughput(model, Configuration(gpu_type, gpus, nodes)) > 0
        for gpu_type, nodes in zip(cluster.gpu_types, fewest, strict=False)
    )


@pytest.mark.parametrize("name", NAMES)
def test_sizes_that_do_not_run_are_avoided(name):
    for seed in range(WORLDS):
        check_episode(name, *holed_world(seed))


@pytest.mark.parametrize("name", ["pollux", "sia", "starling", "themis"])
@pytest.mark.parametrize("most_nodes", [1, 2])
def test_numbers_of_nodes_that_do_not_run_are_avoided(name, most_nodes):
    for seed in range(WORLDS):
        check_episode(name, *holed_world(seed, most_nodes))


def test_starling_finds_another_size_where_the_request_runs_nowhere():
    for seed in range(0, 2 * WORLDS, 2):  # with one GPU type; with three, few requests run nowhere
        for most_nodes in (1, 3):
            check_episode("starling", *holed_world(seed, most_nodes, as_requested=False))


def check_episode(name: str, workload: Workload, setup: Setup) -> None:
    """Check that an episode is valid and that every job finishes."""
    result = run_episode(SCHEDULERS[name], Simulator(workload, setup), name)
    check_run(result, setup.performance, setup.scenario)
    assert result.finished.all(), f"{workload.name}: {name} leaves jobs unfinished"
