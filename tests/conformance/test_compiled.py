"""A scheduler that runs whole episodes in compiled code produces the same log as decision by decision."""

from typing import cast

import numpy as np
import pytest

from envs.simulation import CompiledScheduler, EventKind, Simulator, run_episode
from envs.types import ClusterError, MurmurationError
from tests.conformance.random_worlds import RandomWorld, random_world
from tests.conformance.test_schedulers import SCHEDULERS

NEVER = {"fifo_easy"}  # reservations are decided in Python
COMPILED = [name for name, one in SCHEDULERS.items() if isinstance(one, CompiledScheduler) and name not in NEVER]
every_compiled = pytest.mark.parametrize("name", COMPILED)
WORLDS_EACH = 16


def engine(world: RandomWorld) -> Simulator:
    """A fresh episode of a world."""
    return Simulator(world.workload, world.setup, world.seed)


def test_there_are_compiled_schedulers():
    assert {"fifo", "fifo_backfill", "srtf", "srtf_gpu_time", "starling"} <= set(COMPILED)


@every_compiled
@pytest.mark.parametrize("plain", [True, False], ids=["gpus alone", "all rules"])
def test_both_ways_produce_the_same_log(name, plain):
    played = 0
    for seed in range(WORLDS_EACH):
        world = random_world(seed, plain=plain)
        simulator = engine(world)
        scheduler = cast(CompiledScheduler, SCHEDULERS[name])
        scheduler.reset(world.setup.cluster, simulator.rng)
        if not scheduler.play(simulator):
            assert simulator.state.episode[0, 0].num_rounds == 0, "it refused, but changed the episode"
            continue
        compiled = simulator.result(name)
        slow = run_episode(scheduler, engine(world), name, compiled=False)
        assert compiled.log == slow.log, f"world {seed}"
        assert compiled.records.tobytes() == slow.records.tobytes(), f"world {seed}"
        assert compiled.num_rounds == slow.num_rounds
        played += 1
    assert played >= WORLDS_EACH // 8, "too few worlds that support compiled runs"


@every_compiled
def test_a_log_that_grows_during_a_run_is_the_same(name, monkeypatch):
    """The log is often full, also in the middle of rounds."""
    world = random_world(3, plain=True)
    expected = run_episode(SCHEDULERS[name], engine(world))
    tight = engine(world)

    def grow_a_little() -> None:
        state = tight.state
        state.events = np.concatenate([state.events, np.zeros((1, 1), state.events.dtype)], axis=1)
        state.log_shares = np.concatenate([state.log_shares, np.zeros((1, 2), state.log_shares.dtype)], axis=1)
        tight._world = None

    tight.state.events = tight.state.events[:, :1].copy()
    tight.state.log_shares = tight.state.log_shares[:, :1].copy()
    monkeypatch.setattr(tight, "grow_log", grow_a_little)
    assert run_episode(SCHEDULERS[name], tight).log == expected.log


@every_compiled
def test_without_a_log_records_are_the_same(name):
    world = random_world(5, plain=True)
    logged = run_episode(SCHEDULERS[name], engine(world))
    silent = run_episode(
        SCHEDULERS[name],
        Simulator(world.workload, world.setup, world.seed, logging=False),
    )
    assert len(silent.log) == 0 < len(logged.log)
    assert silent.records.tobytes() == logged.records.tobytes()


@pytest.mark.parametrize("name", sorted(SCHEDULERS))
def test_every_scheduler_runs_with_all_rules(name):
    """Allocations stay valid and no job is lost with cores, memory, contention, costs by model and failures."""
    played = 0
    for seed in range(100, 104):
        world = random_world(seed)
        try:
            simulator = engine(world)
        except ClusterError:
            continue
        try:
            result = run_episode(SCHEDULERS[name], simulator)
        except MurmurationError as error:
            if "hides" in str(error):  # it needs to know the remaining work
                continue
            raise
        event_kinds = result.log.events["kind"]
        assert (event_kinds == EventKind.FINISH).sum() == result.finished.sum()
        assert (event_kinds == EventKind.INTERRUPT).sum() == result.records["num_interruptions"].sum()
        played += 1
    assert played >= 2
