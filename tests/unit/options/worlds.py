"""Episodes of the options environment for tests, compiled and in the reference."""

from dataclasses import replace

import numpy as np

from envs.options import OptionBatch, OptionRules
from envs.options.columns import WAIT
from envs.options.reference import ReferenceOptions
from envs.performance import IdealModel, PerformanceModel
from envs.simulation import Scenario, Setup
from envs.simulation.reference import reference_at
from envs.simulation.world.state import State
from envs.types import ClusterSpec
from envs.workloads import Workload
from tests.conformance.random_worlds import RandomWorld

Listed = list[tuple[int, int, int, int]]  # change, job, node, GPUs there


def random_rules(rng: np.random.Generator, **fixed: object) -> OptionRules:
    """Any mix of rules."""
    rules = OptionRules(
        changes=("start", "resize", "move")[int(rng.integers(3))],
        num_candidates=int(rng.integers(1, 9)),
        candidates_per_node=0.0,
        queue_order=("shortest", "fifo", "least_service")[int(rng.integers(3))],
        max_decisions=int(rng.integers(1, 12)),
        decisions_per_gpu=0.0,
        distinct_nodes=bool(rng.random() < 0.7),
        turn=("auction", "turns")[int(rng.integers(2))],
        tune=bool(rng.random() < 0.5),
        max_starts=(8192, int(rng.integers(1, 30)))[int(rng.integers(2))],
        idle=("allowed", "limited", "never")[int(rng.integers(3))],
    )
    return replace(rules, **fixed)  # type: ignore[arg-type]


def play_area(
    cluster: ClusterSpec,
    workload: Workload,
    rules: OptionRules | None = None,
    scenario: Scenario | None = None,
    performance: PerformanceModel | None = None,
) -> OptionBatch:
    """One logged episode at its first decision; jobs restart free of charge."""
    setup = Setup(cluster, performance or IdealModel(), scenario or Scenario(restart_delay=0.0))
    return batch_of(setup, workload, rules)


def batch_of(setup: Setup, workload: Workload, rules: OptionRules | None = None, seed: int = 0) -> OptionBatch:
    """One logged episode at its first decision."""
    batch = OptionBatch(setup, workload.models, len(workload), rules=rules, logging=True)
    batch.load(0, workload, np.random.default_rng(seed))
    return batch


def begun(world: RandomWorld, rules: OptionRules) -> tuple[OptionBatch, ReferenceOptions]:
    """Both at the first decision; the reference has come there by itself from t = 0."""
    batch = batch_of(world.setup, world.workload, rules, world.seed)
    start = State.allocate(world.setup.cluster, len(world.workload), scenario=world.setup.scenario)
    scenario = replace(world.setup.scenario, horizon=float(batch.state.episode["horizon"][0, 0]))
    start.load(0, world.workload, scenario, batch.table, np.random.default_rng(world.seed))
    reference = ReferenceOptions(reference_at(start, 0, world.workload, world.setup), rules)
    reference.proceed()
    return batch, reference


def listed(batch: OptionBatch) -> Listed:
    """The options of the present decision, with the numbers of their jobs."""
    options = batch.options()
    jobs = [*options.job_ids.tolist(), -1]
    return [(change, jobs[row], node, gpus) for change, row, node, gpus in options.what.tolist()]


def choose(batch: OptionBatch, option: tuple[int, int, int, int]) -> None:
    """Carry out an option that is listed."""
    batch.step(np.array([listed(batch).index(option)]))


def draw(batch: OptionBatch, rng: np.random.Generator, waiting: float = 0.2) -> int:
    """The place of a random option; waiting with this probability where there are others too."""
    changes = batch.options().what[:, 0]
    if (changes == WAIT).any() and rng.random() < waiting:
        return int(np.flatnonzero(changes == WAIT)[0])
    others = np.flatnonzero(changes != WAIT)
    return int(rng.choice(others)) if len(others) else 0
