"""Candidates, local changes, and the planner in random worlds."""

from collections import Counter

import numpy as np
import pytest

from baselines.hesrpt import HeSrpt
from baselines.planner import OraclePlanner, RolloutPlanner
from baselines.planner.changes import LocalChanges
from baselines.planner.rollouts import prolong_restarts
from baselines.planner.round_placements import RoundPlacements
from baselines.planner.scheduler import continue_as
from baselines.starling.scheduler import Starling
from envs.performance import PerformanceModel
from envs.scheduling import Scheduler
from envs.simulation import RunResult, Setup, Simulator, run_episode
from envs.simulation.reference import ReferenceSimulator
from envs.types import AllocationError, ClusterError, MurmurationError, Placement
from tests.conformance.random_worlds import RandomWorld, random_world
from tests.golden.playground import SlowerBeyondTwo, TwoThroughputs, fast_and_slow, jobs

SIX = jobs((0, 4, 10), (0, 2, 20), (0, 1, 5), (0, 3, 7), (0, 2, 9), (0, 1, 4), elastic=(1, 4))


def in_a_round(rounds: int, performance: PerformanceModel | None = None) -> Simulator:
    """Six elastic jobs on a fast and a slow node, after some rounds of Starling."""
    simulator, scheduler = Simulator(SIX, Setup(fast_and_slow(), performance or TwoThroughputs())), Starling()
    scheduler.reset(simulator.cluster, simulator.rng)
    for _ in range(rounds):
        assert simulator.advance()
        simulator.apply(scheduler.schedule(simulator.view))
    assert simulator.advance()
    return simulator


def test_a_candidate_is_the_allocation_that_made_it():
    view = in_a_round(1).view
    present = RoundPlacements.present(view)
    assert present.free.tolist() == view.free_gpus.tolist()
    scheduler = Starling()
    scheduler.reset(view.cluster, np.random.default_rng(0))
    allocation = scheduler.schedule(view)
    candidate = present.with_allocation(allocation)
    again = present.with_allocation(candidate.allocation(view, present))
    assert candidate.key == again.key
    assert candidate.free.tolist() == again.free.tolist() == allocation.free_gpus.tolist()
    anew = view.allocation()
    anew.place(int(view.queued[0]), {0: 2})
    assert set(present.with_allocation(anew).placements) == {int(view.queued[0])}


def test_a_placement_needs_room():
    candidate = RoundPlacements({0: Placement({0: 3})}, np.array([1, 4]))
    assert candidate.with_placement(1, {0: 2}) is None
    moved = candidate.with_placement(0, {0: 4})
    assert moved is not None
    assert moved.free.tolist() == [0, 4]
    assert candidate.placements[0].gpus == {0: 3}, "candidates never change"
    stopped = candidate.with_placement(0, None)
    assert stopped is not None
    assert stopped.is_idle()
    assert stopped.free.tolist() == [4, 4]


@pytest.mark.parametrize("rounds", range(4))
def test_local_changes_are_allocations_that_fit(rounds):
    """In range, on free GPUs, another candidate each; and of all kinds: jobs start, stop, move, grow and shrink."""
    simulator = in_a_round(rounds)
    view, rng = simulator.view, np.random.default_rng(rounds)
    present = RoundPlacements.present(view)
    base = Starling()
    base.reset(view.cluster, simulator.rng)
    candidate = present.with_allocation(base.schedule(view))
    changes, seen = LocalChanges(view, present, candidate), Counter[str]()
    for _ in range(400):
        changed = changes.draw(candidate, rng)
        assert changed is not None
        held = np.zeros(2, np.int64)
        for job, placement in changed.placements.items():
            assert view.min_gpus[job] <= placement.num_gpus <= view.max_gpus[job]
            for node, gpus in placement.gpus.items():
                held[node] += gpus
        assert (held + changed.free).tolist() == view.capacity.tolist()
        view.snapshot().apply(changed.allocation(view, present))
        for job in changes.jobs:
            before, after = candidate.placements.get(job), changed.placements.get(job)
            if before is None or after is None:
                seen["starts" if before is None and after else "stops" if before else "waits"] += 1
            elif set(before.gpus) != set(after.gpus):
                seen["moves"] += 1
            else:
                seen["grows" if after.num_gpus > before.num_gpus else "shrinks"] += before != after
    assert min(seen[change] for change in ("starts", "stops", "moves", "shrinks")) > 5, seen


def test_no_local_change_gives_a_job_gpus_that_slow_it():
    view, rng = in_a_round(0, SlowerBeyondTwo()).view, np.random.default_rng(0)
    present = RoundPlacements.present(view)
    scheduler = Starling()
    scheduler.reset(view.cluster, rng)
    candidate = present.with_allocation(scheduler.schedule(view))
    changes, largest = LocalChanges(view, present, candidate), np.zeros(2, np.int64)
    for _ in range(400):
        changed = changes.draw(candidate, rng)
        assert changed is not None
        for placement in changed.placements.values():
            for node, gpus in placement.gpus.items():
                largest[node] = max(largest[node], gpus)
    assert largest.tolist() == [4, 2]


def test_jobs_with_named_batch_sizes_are_left_alone():
    simulator = in_a_round(0)
    view = simulator.view
    allocation = view.allocation()
    allocation.place(0, Placement({0: 2}, batch_size=8))
    allocation.place(1, {1: 2})
    present = RoundPlacements.present(view)
    candidate = present.with_allocation(allocation)
    changes, rng = LocalChanges(view, present, candidate), np.random.default_rng(0)
    assert changes.jobs == [1], "waiting jobs would need batch sizes too"
    for _ in range(50):
        changed = changes.draw(candidate, rng)
        assert changed is not None
        assert changed.placements[0] == Placement({0: 2}, batch_size=8)


def result_of(scheduler: Scheduler, world: RandomWorld) -> RunResult | None:
    """A run in a random world; None if the world or its scheduler does not allow one."""
    try:
        return run_episode(scheduler, Simulator(world.workload, world.setup, world.seed))
    except (AllocationError, ClusterError):
        return None


@pytest.mark.parametrize("planner", [RolloutPlanner(rollouts=0), RolloutPlanner(milliseconds=0.0)])
def test_without_a_budget_it_is_starling_in_random_worlds(planner):
    compared = 0
    for seed in range(16):
        world = random_world(seed)
        expected = result_of(Starling(), world)
        if expected is not None:
            found = result_of(planner, world)
            assert found is not None
            assert found.log == expected.log, world.name
            assert found.records.tobytes() == expected.records.tobytes(), world.name
            compared += 1
    assert compared > 8


def test_all_jobs_end_and_the_seed_decides():
    """Hidden and estimated work, failures, cores, memory and contention; the oracle too."""
    played, changed, ended = 0, 0, 0
    for seed in range(209, 219):
        world = random_world(seed)
        expected = result_of(Starling(), world)
        if expected is None:
            continue
        planner = RolloutPlanner(rollouts=6, rounds=20, margin=0.0, proposers=[HeSrpt()])
        one, two = (result_of(planner, world) for _ in range(2))
        assert one is not None
        assert two is not None
        assert one.log == two.log, world.name
        if one.end_time < world.setup.scenario.horizon and not one.why_cut_short:
            assert one.finished.all(), world.name
            ended += 1
        assert result_of(OraclePlanner(RolloutPlanner(rollouts=2)), world) is not None
        played += 1
        changed += one.log != expected.log
    assert played > 3
    assert changed > 1
    assert ended > 1


def job_seconds(scheduler: Scheduler, world: RandomWorld) -> float | None:
    """The sum of the JCTs; None if not all jobs end, or the world or its scheduler does not allow a run."""
    result = result_of(scheduler, world)
    if result is None or result.why_cut_short or not result.finished.all():
        return None
    return float((result.records["finish_time"] - result.records["submit_time"]).sum())


def test_a_planner_that_knows_the_future_is_never_behind_its_base():
    """Rollouts that the base continues are exact then, so each decision keeps or improves the sum of the JCTs.

    The planner that continues with another scheduler has no such guarantee.
    """
    compared, better = 0, 0
    for seed in range(300, 308):
        world = random_world(seed)
        expected = job_seconds(Starling(batch="usual"), world)
        found = job_seconds(
            OraclePlanner(RolloutPlanner(Starling(batch="usual"), 4, rounds=None, margin=0.0, restart_weight=1.0)),
            world,
        )
        if expected is not None and found is not None:
            assert found <= expected * (1.0 + 1e-9), world.name
            compared, better = compared + 1, better + (found < expected * 0.999)
    assert compared > 3
    assert better > 1


@pytest.mark.parametrize("rounds", range(3))
def test_rollouts_decide_like_the_base(rounds):
    """Restarts that take five times as long there, and are counted once, are those that the base counts five times."""
    simulator = in_a_round(rounds)
    base = Starling()
    continuation = continue_as(base, None, 5.0)
    copy = simulator.view.snapshot()
    prolong_restarts(copy, 5.0)
    for scheduler in (base, continuation):
        scheduler.reset(simulator.cluster, np.random.default_rng(0))
    assert continuation.known.restart_weight == 1.0
    assert continuation.schedule(copy.view).changes == base.schedule(simulator.view).changes
    assert continue_as(base, 0, 5.0).variants == ()


def test_it_needs_the_engine_whose_snapshots_are_fast():
    world = random_world(1)
    reference = ReferenceSimulator(world.workload, world.setup, world.seed)
    assert reference.advance()
    planner = RolloutPlanner()
    planner.reset(world.setup.cluster, reference.rng)
    with pytest.raises(MurmurationError, match="needs a view of Simulator, not ReferenceView"):
        planner.schedule(reference.view)
