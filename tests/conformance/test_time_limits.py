"""Time limits of jobs: both engines agree, jobs end at them, and schedulers may know work by them alone."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from baselines import Fifo, Las, Srtf
from baselines.starling.market import StarlingMarket
from envs.evaluation.audit import Audit
from envs.options.rules import CHANGES
from envs.performance import IdealModel
from envs.simulation import (
    EndReason,
    EventKind,
    FifoMarket,
    Information,
    RunResult,
    Scenario,
    Setup,
    Simulator,
    run_episode,
)
from envs.simulation.reference import ReferenceSimulator
from envs.types import ClusterSpec, ImpossibleResultError, JobSpec, MurmurationError, NodeSpec, TraceError
from envs.workloads import Workload
from tests.conformance.constrained_worlds import HALLS, halls_workload
from tests.conformance.random_worlds import RandomWorld, random_world
from tests.conformance.test_reference import compare_results, play_both
from tests.conformance.worlds import Curved
from tests.unit.bidding.bidders import Bidder, loud, rolled_out
from tests.unit.options.test_reference import play as play_options
from tests.unit.options.worlds import begun, random_rules

CHUNK = 15
ENGINES = (Simulator, ReferenceSimulator)


Known = Literal["exact", "estimate", "limit", "none"]
KNOWN: tuple[Known, ...] = ("exact", "limit", "none", "estimate")


def limited_world(seed: int, information: Known = "exact") -> RandomWorld:
    """A random world in which two in three jobs, or with "limit" all, have time limits, some of them too short."""
    world, rng = random_world(seed, plain=seed % 3 == 0, pairs=seed % 4 == 0), np.random.default_rng(seed)
    jobs = [
        replace(spec, time_limit=float(rng.choice([32.0, rng.uniform(1.0, 400.0), rng.exponential(2000.0) + 1.0])))
        if information == "limit" or rng.random() < 2 / 3
        else spec
        for spec in world.workload
    ]
    scenario = replace(world.setup.scenario, information=Information(information))
    workload = replace(Workload.of(jobs, "limited"), window=world.workload.window)
    return replace(
        world, name=f"limited {world.name}", setup=replace(world.setup, scenario=scenario), workload=workload
    )


@pytest.mark.parametrize("chunk", range(4))
def test_both_engines_agree(chunk):
    """On random worlds with limits, of which jobs with pairs, failures and contention reach some."""
    ended = finished = 0
    for seed in range(8000 + CHUNK * chunk, 8000 + CHUNK * (chunk + 1)):
        world = limited_world(seed, KNOWN[seed % 4])
        first, second = play_both(world)
        compare_results(world, first, second)
        np.testing.assert_array_equal(first.left_times, second.left_times)
        check_limits(first)
        Audit(world.setup).check(first)
        ended, finished = ended + int(first.at_limit.sum()), finished + int(first.finished.sum())
    assert min(ended, finished) > 30


def check_limits(result: RunResult) -> None:
    """Assert from the log that each job holds GPUs no longer than its limit, and ends there if it says so."""
    began: dict[int, float] = {}
    for event in result.log.events:
        job, what, time = int(event["job"]), EventKind(int(event["kind"])), float(event["time"])
        if what is EventKind.START:
            began[job] = time
        if what in (EventKind.STOP, EventKind.INTERRUPT, EventKind.FINISH, EventKind.LIMIT):
            deadline = began.pop(job) + result.workload.spec(job).time_limit
            assert time <= deadline
            assert (time == deadline) or what is not EventKind.LIMIT
    if result.end_reason is EndReason.DONE:  # a run that was given up lets no job end up to its horizon
        assert all(result.end_time <= began[job] + result.workload.spec(job).time_limit for job in began)


def test_options_see_and_do_the_same_in_both_engines():
    """The environment of options, with limits that are all that is known of work."""
    for seed in range(8200, 8206):
        world, rng = limited_world(3 * seed, "limit"), np.random.default_rng(seed)
        batch, reference = begun(world, random_rules(rng, changes=CHANGES[seed % 3]))
        play_options(world.name, batch, reference, rng)
        assert batch.state.log(0) == reference.simulator.log


ONE_NODE = ClusterSpec((NodeSpec("V100", 2),))


def play(scheduler, *jobs: tuple[float, int, float, float], engine=Simulator, **scenario) -> RunResult:
    """Play jobs of (submission, GPUs, seconds of work, limit) on two GPUs that process a sample a second each."""
    specs = [
        JobSpec(i, submit, gpus, gpus * seconds, "any", time_limit=limit)
        for i, (submit, gpus, seconds, limit) in enumerate(jobs)
    ]
    setup = Setup(ONE_NODE, IdealModel(), Scenario(**{"restart_delay": 0.0, **scenario}))
    return run_episode(scheduler, engine(Workload.of(specs), setup))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_job_that_reaches_its_limit_ends_there_unfinished(engine):
    """A (10 s of work, 4 s allowed) ends at 4; B, which needs exactly its limit, finishes; C has none."""
    result = play(Fifo(), (0, 2, 10, 4), (1, 2, 5, 5), (2, 2, 3, np.inf), engine=engine)
    assert result.left_times.tolist() == [4, 9, 12]
    assert result.records["finish_time"].tolist()[1:] == [9, 12]
    assert (result.at_limit.tolist(), result.finished.tolist()) == ([True, False, False], [False, True, True])
    assert (result.num_unfinished, result.end_time, result.why_cut_short) == (0, 12, "")
    assert [record.limit_time == 4 and not record.finished for record in result] == [True, False, False]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_limit_begins_anew_when_a_job_comes_back_from_the_queue(engine):
    """A runs 0-3, is preempted for B (3-5), and has 4 s from 5 on: it ends at 9 with 7 of its 10 s."""
    result = play(Srtf(), (0, 2, 10, 4), (3, 2, 2, 4), engine=engine)
    assert result.at_limit.tolist() == [True, False]
    assert result.left_times.tolist() == [9, 5]


@pytest.mark.parametrize("engine", ENGINES)
def test_schedulers_see_what_limits_leave(engine):
    """Also of a job that will end sooner, and of one that comes back from the queue."""
    jobs = [JobSpec(0, 0.0, 2, 12.0, "any", time_limit=40.0), JobSpec(1, 3.0, 1, 5.0, "any", time_limit=9.0)]
    setup = Setup(ONE_NODE, IdealModel(), Scenario(restart_delay=0.0, information=Information("limit")))
    simulator, both = engine(Workload.of(jobs), setup), np.arange(2)
    rounds = simulator.rounds()
    view = next(rounds)
    assert view.remaining_work(both[:1]).tolist() == [80.0]
    assert np.isnan(view.job(0).work)
    assert view.job(0).time_limit == 40.0
    allocation = view.allocation()
    allocation.pack(0)
    simulator.apply(allocation)
    view = next(rounds)
    np.testing.assert_allclose(view.remaining_work(both), [74.0, 9.0], rtol=1e-12)
    np.testing.assert_allclose(view.remaining_time(both), [37.0, 9.0], rtol=1e-12)
    copy = view.snapshot()
    simulator.apply(view.allocation())
    view = next(rounds, None)
    assert view is not None  # a stall: both wait
    np.testing.assert_allclose(view.remaining_work(both), [80.0, 9.0], rtol=1e-12)
    copy.apply(copy.view.allocation(keep_running=True))
    assert copy.advance()
    assert copy.view.time == pytest.approx(40.0)


@pytest.mark.parametrize("engine", ENGINES)
def test_srtf_orders_by_limits_and_easy_plans_with_them(engine):
    """B needs less than C, but its limit is longer. EASY lets no job pass whose limit is beyond the reservation."""
    known = {"information": Information("limit"), "engine": engine}
    result = play(Srtf(), (0, 2, 2, 2), (0, 2, 3, 30), (0, 2, 6, 10), **known)
    assert result.records["finish_time"].tolist() == [2, 11, 8]
    # A holds one GPU until 10 by its limit, in truth until 8; B wants both; D may pass (5 s by its limit), C (20) not.
    jobs = (0, 1, 8, 10), (1, 2, 4, 9), (2, 1, 3, 20), (3, 1, 4, 5)
    result = play(Fifo(backfill="easy"), *jobs, **known)
    assert result.records["start_time"].tolist() == [0, 8, 12, 3]
    exact = play(Fifo(backfill="easy"), *jobs, engine=engine)
    assert exact.records["start_time"].tolist() == [0, 8, 2, 12]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_job_without_a_limit_is_refused_where_limits_are_all_that_is_known(engine):
    with pytest.raises(
        TraceError, match=r"job 1 has no time limit \(1 of 2 jobs\), and information.work is limit; state"
    ):
        play(Las(), (0, 1, 1, 1), (0, 1, 1, np.inf), information=Information("limit"), engine=engine)


def test_limits_that_no_job_reaches_change_no_log():
    for seed in range(8300, 8304):
        world = random_world(seed, plain=True)
        long = Workload.of([replace(spec, time_limit=1e9) for spec in world.workload], "long")
        logs = [
            run_episode(world.scheduler(), Simulator(workload, world.setup, seed)).log
            for workload in (Workload.of(list(world.workload)), long)
        ]
        assert logs[0] == logs[1]


@pytest.mark.parametrize(
    ("given", "said"),
    [({"time_limit": 0.0}, "time_limit is 0.0 s; it must be positive"), ({"priority": np.inf}, "must be finite")],
)
def test_a_job_that_states_nonsense_is_refused(given, said):
    with pytest.raises(MurmurationError, match=said):
        JobSpec(0, 0.0, 1, 1.0, "any", **given)


@pytest.mark.parametrize("seed", range(2))
def test_bids_are_the_same_as_agents_and_as_a_scheduler(seed):
    """A scheduler of bids plays on snapshots, which take what limits leave for the truth."""
    rng = np.random.default_rng(seed)
    limited = [replace(job, time_limit=float(rng.uniform(10, 90))) for job in halls_workload(seed)]
    setup = Setup(HALLS, Curved(), Scenario(restart_delay=2.0, horizon=1e7, information=Information("limit")))
    for market in (FifoMarket(), StarlingMarket()):
        batch = rolled_out(loud, market, setup, Workload.of(limited), seed)
        result = run_episode(Bidder(loud, market), Simulator(Workload.of(limited), setup))
        assert batch.state.log(0) == result.log
        assert result.at_limit.any()


def test_the_audit_finds_a_job_that_stays_beyond_its_limit_or_ends_before_it():
    result = play(Fifo(), (0, 2, 10, 4), (1, 2, 5, 5))
    setup = Setup(ONE_NODE, IdealModel(), Scenario(restart_delay=0.0))
    Audit(setup).check(result)
    for limit in (3.0, 5.0):
        changed = result.workload.jobs.copy()
        changed["time_limit"][0] = limit
        with pytest.raises(ImpossibleResultError, match=rf"GPUs from t = 0 to 4 s, with a time limit of {limit:g} s"):
            Audit(setup).check(replace(result, workload=replace(result.workload, jobs=changed)))
    with pytest.raises(ImpossibleResultError, match="different jobs that ended at their time limits"):
        Audit(setup).check(replace(result, limit_times=None))
