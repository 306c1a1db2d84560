"""Begin times, dependencies and time limits of jobs: both engines agree, and schedulers see what they may.

No scheduler sees a job that is held; jobs end at their limits, which may be all that is known of their work.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from baselines import Fifo, Las, Srtf, Starling
from baselines.starling.market import StarlingMarket
from envs.evaluation.audit import Audit
from envs.metrics import censored_completion_times, waits
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
WORDS = ("afterok", "afterok", "afterany", "afternotok")
Known = Literal["exact", "estimate", "limit", "none"]
KNOWN: tuple[Known, ...] = ("exact", "limit", "none", "estimate")
ONE_NODE = ClusterSpec((NodeSpec("V100", 2),))
both_engines = pytest.mark.parametrize("engine", [Simulator, ReferenceSimulator])


def plain_world(seed: int) -> RandomWorld:
    """A random world, in which every fourth seed has pairs of jobs."""
    return random_world(seed, plain=seed % 3 == 0, pairs=seed % 4 == 0)


def limited_world(seed: int, information: Known = "exact") -> RandomWorld:
    """A random world in which two in three jobs, or with "limit" all, have time limits, some of them too short."""
    world, rng = plain_world(seed), np.random.default_rng(seed)
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


def holding(workload: Workload, rng: np.random.Generator) -> Workload:
    """The same jobs: some with begin times, dependencies on earlier ones, or limits that these reach."""
    jobs: list[JobSpec] = []
    for spec in workload:
        parts = [f"{rng.choice(WORDS)}:{on}" for on in rng.integers(0, max(spec.id, 1), rng.integers(0, 3))]
        parts += ["singleton"] * int(rng.random() < 0.1)
        begin = spec.submit_time + float(rng.exponential(60.0)) * (rng.random() < 0.3)
        limit = float(rng.exponential(300.0) + 1.0) if rng.random() < 0.3 else spec.time_limit
        own: dict[str, Any] = {
            "begin_time": begin,
            "dependency": ",".join(parts) if spec.id else "",
            "time_limit": limit,
        }
        jobs.append(replace(spec, user=f"u{spec.id % 3}", name="sweep" if spec.id % 2 else spec.name, **own))
    return replace(Workload.of(jobs, f"holding {workload.name}"), window=workload.window)


def holding_world(seed: int) -> RandomWorld:
    """A random world whose jobs wait for times and for each other."""
    world, rng = plain_world(seed), np.random.default_rng(seed)
    return replace(world, name=f"holding {world.name}", workload=holding(world.workload, rng))


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


def check_holds(result: RunResult) -> None:
    """Assert from the log that no job enters the queue before its time and the ends of those for which it waits."""
    ends = {}
    for event in result.log.events:
        job, what, time = int(event["job"]), EventKind(int(event["kind"])), float(event["time"])
        if what in (EventKind.FINISH, EventKind.LIMIT, EventKind.NEVER):
            ends[job] = what
        if what is EventKind.ARRIVE:
            assert time >= result.workload.spec(job).begin_time
        for one, on, met_by in result.workload.dependencies if what in (EventKind.ARRIVE, EventKind.NEVER) else ():
            if one == job and what is EventKind.ARRIVE:
                assert met_by & (1 if ends[on] is EventKind.FINISH else 2)
    for job in np.flatnonzero(result.never_ran).tolist():
        assert np.isnan(result.records["start_time"][job])


WORLDS: dict[str, tuple[int, Callable[[int], RandomWorld], Callable[[RunResult], None], int, int]] = {
    "limits": (8000, lambda seed: limited_world(seed, KNOWN[seed % 4]), check_limits, -1, 30),
    "holds": (8500, holding_world, check_holds, 3, 3),
}


@pytest.mark.parametrize("chunk", range(4))
@pytest.mark.parametrize("what", WORLDS)
def test_both_engines_agree(chunk, what):
    """On random worlds with pairs, failures and contention: some jobs end at limits, are held, or never run."""
    first_seed, world_of, check, held, ended = WORLDS[what]
    counts = np.zeros(4, np.int64)
    for seed in range(first_seed + CHUNK * chunk, first_seed + CHUNK * (chunk + 1)):
        world = world_of(seed)
        first, second = play_both(world)
        compare_results(world, first, second)
        np.testing.assert_array_equal(first.left_times, second.left_times)
        np.testing.assert_array_equal(first.never_ran, second.never_ran)
        check(first)
        Audit(world.setup).check(first)
        arrived = first.log.events[first.log.events["kind"] == EventKind.ARRIVE]
        late = arrived["time"] > first.records["submit_time"][arrived["job"]]
        counts += first.never_ran.sum(), late.sum(), first.finished.sum(), first.at_limit.sum()
    assert (counts > (held, held, ended, ended)).all(), counts


@pytest.mark.parametrize(
    ("first", "world_of"), [(8200, lambda seed: limited_world(seed, "limit")), (8700, holding_world)]
)
def test_options_see_and_do_the_same_in_both_engines(first, world_of):
    """Also where limits are all that is known of work."""
    for seed in range(first, first + 5):
        world, rng = world_of(3 * seed), np.random.default_rng(seed)
        batch, reference = begun(world, random_rules(rng, changes=CHANGES[seed % 3]))
        play_options(world.name, batch, reference, rng)
        assert batch.state.log(0) == reference.simulator.log


@pytest.mark.parametrize("what", WORLDS)
@pytest.mark.parametrize("seed", range(2))
def test_bids_are_the_same_as_agents_and_as_a_scheduler(seed, what):
    """A scheduler of bids plays on snapshots: held jobs stay where they are, and what limits leave is the truth."""
    rng, workload = np.random.default_rng(seed), halls_workload(seed)
    scenario = Scenario(restart_delay=2.0, horizon=1e7)
    if what == "limits":
        workload = Workload.of([replace(job, time_limit=float(rng.uniform(10, 90))) for job in workload])
        scenario = replace(scenario, information=Information("limit"))
    else:
        workload = holding(workload, rng)
    setup = Setup(HALLS, Curved(), scenario)
    for market in (FifoMarket(), StarlingMarket()):
        batch = rolled_out(loud, market, setup, workload, seed)
        result = run_episode(Bidder(loud, market), Simulator(workload, setup))
        assert batch.state.log(0) == result.log
        assert (result.at_limit if what == "limits" else result.never_ran).any()


@pytest.mark.parametrize(
    ("first", "changed"),
    [
        (8300, lambda spec: replace(spec, time_limit=1e9)),
        (8800, lambda spec: replace(spec, begin_time=spec.submit_time)),
    ],
)
def test_limits_and_times_that_reach_no_job_change_no_log(first, changed):
    for seed in range(first, first + 4):
        world = random_world(seed, plain=True)
        logs = [
            run_episode(world.scheduler(), Simulator(Workload.of(jobs, "one"), world.setup, seed)).log
            for jobs in (list(world.workload), list(map(changed, world.workload)))
        ]
        assert logs[0] == logs[1]


@pytest.mark.parametrize("known", ["predicted", "limit", "none"])
def test_engines_agree_where_work_is_not_known(known):
    """What has not run teaches predictors nothing, and views show no more of held jobs than of others."""
    for seed in range(8600, 8604):
        world = holding_world(3 * seed)
        scenario = replace(world.setup.scenario, information=Information(known))
        jobs = [replace(spec, time_limit=min(spec.time_limit, 1e5)) for spec in world.workload]
        world = replace(world, setup=replace(world.setup, scenario=scenario), workload=Workload.of(jobs, "limited"))
        compare_results(world, *play_both(world))


def test_held_jobs_teach_no_scheduler_how_long_jobs_run():
    """Starling, which learns run times from jobs that have ended, assumes the same with ninety held jobs more."""
    setup = Setup(ONE_NODE, IdealModel(), Scenario(information=Information("none")))
    jobs = [JobSpec(i, 0.0, 1, 100.0, "any", begin_time=0.0 if i < 10 else 1e5) for i in range(100)]
    assumed = []
    for given in (jobs[:10], jobs):
        view = next(Simulator(Workload.of(given), setup).rounds())
        scheduler = Starling()
        scheduler.reset(ONE_NODE, np.random.default_rng(0))
        scheduler.schedule(view)
        found = scheduler.assumed_work(view)
        assert found is not None
        assumed.append(found[:10].tolist())
    assert assumed[0] == assumed[1]


def play_limited(scheduler, *jobs: tuple[float, int, float, float], engine=Simulator, **scenario) -> RunResult:
    """Play jobs of (submission, GPUs, seconds of work, limit) on two GPUs that process a sample a second each."""
    specs = [
        JobSpec(i, submit, gpus, gpus * seconds, "any", time_limit=limit)
        for i, (submit, gpus, seconds, limit) in enumerate(jobs)
    ]
    setup = Setup(ONE_NODE, IdealModel(), Scenario(**{"restart_delay": 0.0, **scenario}))
    return run_episode(scheduler, engine(Workload.of(specs), setup))


@both_engines
def test_a_job_that_reaches_its_limit_ends_there_unfinished(engine):
    """A (10 s of work, 4 s allowed) ends at 4; B, which needs exactly its limit, finishes; C has none."""
    result = play_limited(Fifo(), (0, 2, 10, 4), (1, 2, 5, 5), (2, 2, 3, np.inf), engine=engine)
    assert result.left_times.tolist() == [4, 9, 12]
    assert result.records["finish_time"].tolist()[1:] == [9, 12]
    assert (result.at_limit.tolist(), result.finished.tolist()) == ([True, False, False], [False, True, True])
    assert (result.num_unfinished, result.end_time, result.why_cut_short) == (0, 12, "")
    assert [record.limit_time == 4 and not record.finished for record in result] == [True, False, False]


@both_engines
def test_a_limit_begins_anew_when_a_job_comes_back_from_the_queue(engine):
    """A runs 0-3, is preempted for B (3-5), and has 4 s from 5 on: it ends at 9 with 7 of its 10 s."""
    result = play_limited(Srtf(), (0, 2, 10, 4), (3, 2, 2, 4), engine=engine)
    assert result.at_limit.tolist() == [True, False]
    assert result.left_times.tolist() == [9, 5]


@both_engines
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


@both_engines
def test_srtf_orders_by_limits_and_easy_plans_with_them(engine):
    """B needs less than C, but its limit is longer. EASY lets no job pass whose limit is beyond the reservation."""
    known = {"information": Information("limit"), "engine": engine}
    result = play_limited(Srtf(), (0, 2, 2, 2), (0, 2, 3, 30), (0, 2, 6, 10), **known)
    assert result.records["finish_time"].tolist() == [2, 11, 8]
    # A holds one GPU until 10 by its limit, in truth until 8; B wants both; D may pass (5 s by its limit), C (20) not.
    jobs = (0, 1, 8, 10), (1, 2, 4, 9), (2, 1, 3, 20), (3, 1, 4, 5)
    result = play_limited(Fifo(backfill="easy"), *jobs, **known)
    assert result.records["start_time"].tolist() == [0, 8, 12, 3]
    exact = play_limited(Fifo(backfill="easy"), *jobs, engine=engine)
    assert exact.records["start_time"].tolist() == [0, 8, 2, 12]


@both_engines
def test_a_job_without_a_limit_is_refused_where_limits_are_all_that_is_known(engine):
    with pytest.raises(
        TraceError, match=r"job 1 has no time limit \(1 of 2 jobs\), and information.work is limit; state"
    ):
        play_limited(Las(), (0, 1, 1, 1), (0, 1, 1, np.inf), information=Information("limit"), engine=engine)


@pytest.mark.parametrize(
    ("given", "said"),
    [({"time_limit": 0.0}, "time_limit is 0.0 s; it must be positive"), ({"priority": np.inf}, "must be finite")],
)
def test_a_job_that_states_nonsense_is_refused(given, said):
    with pytest.raises(MurmurationError, match=said):
        JobSpec(0, 0.0, 1, 1.0, "any", **given)


def test_the_audit_finds_a_job_that_stays_beyond_its_limit_or_ends_before_it():
    result = play_limited(Fifo(), (0, 2, 10, 4), (1, 2, 5, 5))
    setup = Setup(ONE_NODE, IdealModel(), Scenario(restart_delay=0.0))
    Audit(setup).check(result)
    for limit in (3.0, 5.0):
        changed = result.workload.jobs.copy()
        changed["time_limit"][0] = limit
        with pytest.raises(ImpossibleResultError, match=rf"GPUs from t = 0 to 4 s, with a time limit of {limit:g} s"):
            Audit(setup).check(replace(result, workload=replace(result.workload, jobs=changed)))
    with pytest.raises(ImpossibleResultError, match="different jobs that ended at their time limits"):
        Audit(setup).check(replace(result, limit_times=None))


def play_held(*jobs: dict[str, Any], scheduler=Fifo, engine=Simulator, **scenario) -> RunResult:
    """Play jobs of 2 GPUs and 10 s, submitted a second after another unless they say otherwise."""
    specs = [
        JobSpec(i, float(i), 2, 2 * float(job.pop("seconds", 10)), "any", **job)
        for i, job in enumerate(map(dict, jobs))
    ]
    setup = Setup(ONE_NODE, IdealModel(), Scenario(**{"restart_delay": 0.0, **scenario}))
    return run_episode(scheduler(), engine(Workload.of(specs), setup))


@both_engines
@pytest.mark.parametrize("scheduler", [Fifo, Las, Srtf])
def test_jobs_wait_for_times_and_for_others(engine, scheduler):
    """A 0-10. B may begin at 25, C after A, D after B: C 10-20, B 25-35, D 35-45; from 20 to 25 nothing runs."""
    result = play_held(
        {}, {"begin_time": 25.0}, {"dependency": "afterok:0"}, {"dependency": "afterok:1"},
        engine=engine, scheduler=scheduler,
    )  # fmt: skip
    assert result.records["start_time"].tolist() == [0, 25, 10, 35]
    assert result.records["finish_time"].tolist() == [10, 35, 20, 45]
    assert censored_completion_times(result).tolist() == [10, 34, 18, 42]  # from the submission
    assert waits(result).tolist() == [0, 0, 0, 0]  # from the entry into the queue


@both_engines
def test_a_job_whose_dependency_cannot_be_met_leaves_at_once(engine):
    """A reaches its limit at 4: B and C, which needs B, leave then, and D runs; E, for A's failure, after it.

    F is submitted after A's end.
    """
    jobs = (
        {"time_limit": 4.0}, {"dependency": "afterok:0"}, {"dependency": "afterok:1"}, {"dependency": "afterany:2"},
        {"dependency": "afternotok:0"}, {"dependency": "afterok:0"},
    )  # fmt: skip
    result = play_held(*jobs, engine=engine)
    assert result.never_ran.tolist() == [False, True, True, False, False, True]
    assert result.left_times.tolist() == [4, 4, 4, 14, 24, 5]
    assert (result.at_limit.tolist(), result.num_unfinished) == ([True] + 5 * [False], 0)
    assert [record.never_time for record in result][1] == 4
    found = result.log.events["kind"][np.isin(result.log.events["job"], (1, 2, 5))]
    assert (found == EventKind.NEVER).all()
    assert result.end_time == 24


@both_engines
def test_singletons_run_one_after_another(engine):
    """Three jobs of a user with one name on a GPU each run alone; those of other users and names do not wait."""
    mine: dict[str, Any] = {"user": "ann", "name": "sweep", "dependency": "singleton"}
    jobs = [
        JobSpec(i, 0.0, 1, 10.0, "any", **own)
        for i, own in enumerate((mine, mine, mine | {"user": "bob"}, mine | {"name": "other"}, mine))
    ]
    setup = Setup(ClusterSpec((NodeSpec("V100", 8),)), IdealModel())
    result = run_episode(Fifo(), engine(Workload.of(jobs), setup))
    assert result.records["start_time"].tolist() == [0, 10, 0, 0, 20]


@both_engines
def test_a_held_job_is_in_no_view_and_stays_held_in_a_copy(engine):
    setup = Setup(ONE_NODE, IdealModel(), Scenario(restart_delay=0.0, horizon=12.0))
    jobs = [JobSpec(0, 0.0, 2, 20.0, "any"), JobSpec(1, 0.0, 2, 20.0, "any", dependency="afterany:0")]
    jobs.append(JobSpec(2, 0.0, 2, 20.0, "any", begin_time=30.0))
    simulator = engine(Workload.of(jobs), setup)
    rounds = simulator.rounds()
    view = next(rounds)
    assert view.queued.tolist() == [0]
    allocation = view.allocation()
    allocation.pack(0)
    copy = view.snapshot()
    copy.apply(allocation)
    assert not copy.advance()
    simulator.apply(allocation)
    view = next(rounds)
    assert (view.time, view.queued.tolist()) == (10.0, [1])
    assert copy.view.time == 10.0
    copy = view.snapshot()
    assert copy.view.queued.tolist() == [1]
    simulator.apply(view.allocation())
    assert next(rounds, None) is None
    result = simulator.result("waits")
    assert (result.held.tolist(), result.num_unfinished, result.end_time) == ([False, False, True], 2, 12.0)


@pytest.mark.parametrize(
    ("dependency", "error", "said"),
    [
        ("after:0", MurmurationError, r"'after:0' is not understood; it must be afterok, afternotok, afterany with"),
        ("afterok:0?afterok:1", MurmurationError, "is not understood"),
        ("afterok", MurmurationError, "is not understood"),
        ("afterok:7", TraceError, "job 1 depends on job '7', which is none of the jobs"),
        ("afterok:1", TraceError, "job 1 depends on job '1', which is not submitted before it"),
        ("afterok:2", TraceError, "job 1 depends on job '2', which is not submitted before it"),
    ],
)
def test_a_dependency_that_cannot_be_is_refused(dependency, error, said):
    with pytest.raises(error, match=said):
        play_held({}, {"dependency": dependency}, {})


def test_the_audit_finds_jobs_that_enter_too_early_or_too_late():
    result = play_held(
        {"time_limit": 4.0}, {"dependency": "afterany:0"}, {"begin_time": 20.0}, {"dependency": "afterok:0"}
    )
    setup = Setup(ONE_NODE, IdealModel(), Scenario(restart_delay=0.0))
    Audit(setup).check(result)
    for changed in (((1, 0, 3), (3, 0, 3)), ((1, 0, 1), (3, 0, 1)), ((3, 0, 1),)):
        with pytest.raises(ImpossibleResultError, match="submitted at|without having run|arrive in the log"):
            Audit(setup).check(replace(result, workload=replace(result.workload, dependencies=changed)))


def test_parts_of_a_workload_keep_the_dependencies_among_their_jobs():
    jobs = [JobSpec(i, float(i), 1, 1.0, "any", tenant="ab"[i % 2]) for i in range(4)]
    jobs[2] = replace(jobs[2], dependency="afterok:0", begin_time=5.0)
    jobs[3] = replace(jobs[3], dependency="afterany:2,afterok:1")
    workload = Workload.of(jobs)
    assert workload.dependencies == ((2, 0, 1), (3, 2, 3), (3, 1, 1))
    assert workload.spec(3).dependency == "afterany:2,afterok:1"
    part = workload.slice(1, 4)
    assert (part.dependencies, part.jobs["begin_time"].tolist()) == (((2, 1, 3), (2, 0, 1)), [0, 4, 0])
    assert workload.of_tenant(1).dependencies == ((1, 0, 1),)
    assert not workload.slice(0, 2).waits
