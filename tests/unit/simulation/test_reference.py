"""The reference engine agrees with the compiled one."""

from typing import cast

from baselines import Fifo
from envs.performance import IdealModel
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.simulation.reference import ReferenceSimulator
from envs.types import JobSpec
from envs.workloads import Workload
from tests.unit.simulation.plays import cluster_of


def test_it_agrees_with_the_compiled_engine():
    """Both run in the same loop with the same schedulers."""
    rows = [(float(i), 1 + i % 4, 5.0 + i) for i in range(12)]
    jobs = Workload.of([JobSpec(i, *row, "any") for i, row in enumerate(rows)])
    runs = [
        run_episode(
            Fifo(),
            cast(
                Simulator,
                make(jobs, Setup(cluster_of(4, 4), IdealModel(), Scenario(start_delay=2.0, restart_delay=3.0)), 3),
            ),
            compiled=False,
        )
        for make in (Simulator, ReferenceSimulator)
    ]
    assert runs[0].log == runs[1].log
    assert runs[0].records.tobytes() == runs[1].records.tobytes()
    assert runs[0].scheduler == runs[1].scheduler == "Fifo"
    rngs = [
        make(jobs, Setup(cluster_of(4, 4), IdealModel(), Scenario(start_delay=2.0, restart_delay=3.0)), 3).rng
        for make in (Simulator, ReferenceSimulator)
    ]
    assert rngs[0].random() == rngs[1].random()
