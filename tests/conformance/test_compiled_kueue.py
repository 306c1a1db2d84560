"""Kueue before Fifo as compiled code leaves the log that decision by decision leaves, in random worlds with queues."""

import numpy as np
import pytest

from baselines import Fifo, Kueue
from baselines.kueue import QueueSettings
from envs.performance import IdealModel
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload

RULES = ("never", "lower_priority", "any")


def random_queues(rng: np.random.Generator) -> list[QueueSettings]:
    """Two or three levels of queues, with limits, weights and rules of all forms."""
    cohorts = [QueueSettings("root", nominal=float(rng.integers(3)))]
    if rng.random() < 0.6:
        cohorts += [
            QueueSettings(name, "root", float(rng.integers(2)), weight=float(rng.integers(1, 3))) for name in ("x", "y")
        ]
    parents = [cohort.name for cohort in cohorts[-2:]]
    leaves = []
    for name in "abcde"[: rng.integers(2, 6)]:
        limits = {key: float(rng.integers(4)) for key in ("borrowing_limit", "lending_limit") if rng.random() < 0.3}
        alone = rng.random() < 0.1
        leaves.append(
            QueueSettings(
                name,
                "" if alone else str(rng.choice(parents)),
                float(rng.integers(1, 5)),
                **({} if alone else limits),
                weight=float(rng.integers(1, 4)),
                strict=bool(rng.random() < 0.3),
                within_queue=RULES[rng.integers(2)],
                reclaim=RULES[rng.integers(3)],
            )
        )
    return [*cohorts, *leaves]


def random_jobs(rng: np.random.Generator, names: list[str]) -> Workload:
    """Jobs of which many come and end at the same instant."""
    return Workload.of(
        [
            JobSpec(
                i,
                float(rng.integers(30)),
                gpus := int(rng.integers(1, 5)),
                gpus * float(rng.integers(1, 20)),
                "any",
                tenant=str(rng.choice(names)),
                priority=float(rng.integers(3)),
            )
            for i in range(40)
        ]
    )


@pytest.mark.parametrize("chunk", range(2))
def test_compiled_code_decides_the_same(chunk: int):
    stops = 0
    for seed in range(60 * chunk, 60 * (chunk + 1)):
        rng = np.random.default_rng(seed)
        queues = random_queues(rng)
        inner_names = {queue.parent for queue in queues}
        load = random_jobs(rng, [queue.name for queue in queues if queue.name not in inner_names])
        cluster = ClusterSpec((NodeSpec("plain", 4), NodeSpec("plain", 4), NodeSpec("plain", 8)), "small")
        setup = Setup(cluster, IdealModel(), Scenario(restart_delay=float(rng.integers(2))))
        strategies = [("final",), ("initial",), ("final", "initial")][seed % 3]
        scheduler = Kueue(Fifo(("none", "skip")[seed % 2]), queues, seed % 4 > 0, strategies, overcommit=True)
        one = run_episode(scheduler, Simulator(load, setup, 0), compiled=False)
        simulator = Simulator(load, setup, 0)
        scheduler.reset(cluster, simulator.rng)
        assert scheduler.play(simulator)
        other = simulator.result("compiled")
        assert one.log == other.log, f"seed {seed}"
        assert one.num_rounds == other.num_rounds
        stops += int(one.records["num_preemptions"].sum())
    assert stops > 50


def test_without_queues_tenants_are_numbered_alike():
    load = random_jobs(np.random.default_rng(1), ["a", "b", "c"])
    setup = Setup(ClusterSpec((NodeSpec("plain", 4),) * 3, "three"), IdealModel(), Scenario())
    runs = [run_episode(Kueue(Fifo("skip")), Simulator(load, setup, 0), compiled=each) for each in (True, False)]
    assert runs[0].log == runs[1].log
