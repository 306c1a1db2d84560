"""The reference engine alone: time, rounds, changes, the log, what it refuses. Every sequence is worked by hand."""

from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from baselines import Fifo
from envs.performance import CostByTable, IdealModel
from envs.simulation import Information, Rounds, Scenario, Simulator, run_episode
from envs.simulation.reference import ReferenceSimulator
from envs.types import (
    AllocationError,
    ClusterError,
    ClusterSpec,
    ExecutionPlan,
    JobSpec,
    MurmurationError,
    NodeSpec,
    Placement,
)
from envs.workloads import Workload
from tests.unit.simulation.reference_plays import Acts, Bench, Play, cluster_of, jobs_of

FREE_OF_CHARGE = Scenario(restart_delay=0.0)
COSTLY = Scenario(start_delay=2.0, restart_delay=3.0)
TWO = cluster_of(4, 4)
HALVES = ExecutionPlan(data=2, tensor=2)


def test_the_first_sample_waits_for_the_start_delay():
    """40 samples on 4 GPUs: 2 s of start, 10 s of work."""
    play = Play({0.0: {0: {0: 4}}}, jobs_of((0, 4, 40)), TWO, COSTLY)
    assert play.told == [(0, "ARRIVE", 0), (0, "START", 0), (12, "FINISH", 0)]
    assert play.records["attained_service"].tolist() == [48.0]
    assert play.records["num_restarts"].tolist() == [0]


def test_preemption_costs_a_restart():
    """A did 3 s (12 samples) when B takes its node at 5. B: starts 7, done 9. A: works from 12, 28 samples are 7 s."""
    acts: Acts = {0.0: {0: {0: 4}}, 5.0: {0: None, 1: {0: 4}}, 9.0: {0: {0: 4}}}
    play = Play(acts, jobs_of((0, 4, 40), (5, 4, 8)), cluster_of(4), COSTLY)
    assert play.told[3:] == [
        (5, "STOP", 0),
        (5, "START", 1),
        (9, "FINISH", 1),
        (9, "START", 0),
        (19, "FINISH", 0),
    ]
    assert play.records["num_preemptions"].tolist() == [1, 0]
    assert play.records["num_restarts"].tolist() == [1, 0]
    assert play.records["attained_service"].tolist() == [60.0, 16.0]
    assert play.records["start_time"].tolist() == [0.0, 5.0]


def test_a_resize_pays_and_goes_on_faster():
    """2 GPUs until 5 (3 s of work, 6 of 40 samples); then 4 GPUs, from 8 on: 34 / 4 = 8.5 s."""
    acts: Acts = {0.0: {0: {0: 2}, 1: {1: 1}}, 5.0: {0: {0: 4}}}
    play = Play(acts, jobs_of((0, 2, 40), (0, 2, 3), elastic=(1, 4)), TWO, COSTLY)
    assert play.told[-3:] == [(5, "FINISH", 1), (5, "RESIZE", 0), (16.5, "FINISH", 0)]
    assert play.records["attained_service"].tolist() == [2 * 5 + 4 * 11.5, 5.0]
    assert play.records["num_restarts"].tolist() == [1, 0]


def test_a_second_change_during_a_restart_begins_it_anew():
    """Resized at 5 and again at 6: nothing is done between 5 and 9."""
    acts: Acts = {0.0: {0: {0: 1}}, 5.0: {0: {0: 2}}, 6.0: {0: {0: 4}}}
    play = Play(acts, jobs_of((0, 1, 43), (5, 1, 1), (6, 1, 1), elastic=(1, 4)), TWO, COSTLY)
    assert play.finish[0] == 9 + (43 - 3) / 4


def test_what_does_not_change_goes_on_free_of_charge():
    """The wish names A's placement again, in another order: no event, no delay."""
    acts: Acts = {0.0: {0: {0: 2, 1: 2}}, 1.0: {0: {1: 2, 0: 2}, 1: {0: 2}}}
    play = Play(acts, jobs_of((0, 4, 20), (1, 2, 2)), TWO, COSTLY)
    assert [kind for _, kind, job in play.told if job == 0] == ["ARRIVE", "START", "FINISH"]
    assert play.finish[0] == 2 + 20 / 2


def test_a_wish_in_full_stops_what_it_leaves_out():
    engine = ReferenceSimulator(jobs_of((0, 4, 40), (1, 2, 2)), TWO, Bench(), FREE_OF_CHARGE)
    rounds = engine.rounds()
    view = next(rounds)
    wish = view.allocation()
    wish.place(0, {0: 4})
    engine.apply(wish)
    view = next(rounds)
    engine.apply(view.allocation())
    assert view.running.tolist() == []
    assert view.queued.tolist() == [0, 1]
    assert view.remaining_work(np.array([0, 1])).tolist() == [36.0, 2.0]


def test_everything_has_its_order_within_an_instant():
    """At 10 A and B end (by id), then two come, then decisions act: stops, starts, resizes."""
    acts: Acts = {
        0.0: {0: {0: 4}, 1: {1: 1}, 2: {1: 1}, 3: {1: 2}},
        10.0: {2: None, 3: {1: 3}, 5: {0: 2}, 4: {0: 2}},
        12.0: {2: {0: 1}},
    }
    workload = jobs_of((0, 1, 40), (0, 1, 10), (0, 1, 100), (0, 1, 100), (10, 1, 4), (10, 1, 4), elastic=(1, 4))
    play = Play(acts, workload, TWO, FREE_OF_CHARGE)
    assert [(kind, job) for time, kind, job in play.told if time == 10] == [
        ("FINISH", 0),
        ("FINISH", 1),
        ("ARRIVE", 4),
        ("ARRIVE", 5),
        ("STOP", 2),
        ("START", 4),
        ("START", 5),
        ("RESIZE", 3),
    ]


def test_two_jobs_swap_nodes_in_one_round():
    acts: Acts = {0.0: {0: {0: 4}, 1: {1: 4}}, 2.0: {0: {1: 4}, 1: {0: 4}}}
    play = Play(acts, jobs_of((0, 4, 40), (0, 4, 40), (2, 1, 1)), TWO, Scenario(restart_delay=1.0))
    assert play.finish[:2] == [11.0, 11.0]
    assert dict(play.placement("RESIZE", 0).gpus) == {1: 4}


@pytest.mark.parametrize(("shares", "speed"), [("proportional", 5.0), ("equal", 2.0)])
def test_unequal_gpus_divide_the_batch_by_speed_or_equally(shares, speed):
    """3 fast GPUs and 1 slow over two nodes (half speed): (3 * 6 + 1 * 2) / 4 = 5, or 4 times the slowest / 2 = 2."""
    mixed = ClusterSpec((NodeSpec("fast", 3), NodeSpec("slow", 1)))
    play = Play({0.0: {0: {0: 3, 1: 1}}}, jobs_of((0, 4, 60)), mixed, Scenario(worker_shares=shares))
    assert play.finish == [60 / speed]


def test_delays_by_model():
    """Restarts of vgg16 take 10 s, others 30; first starts are free."""
    cost = CostByTable({"vgg16": 10.0}, 30.0)
    acts: Acts = {0.0: {0: {0: 4}}, 2.0: {0: {1: 4}, 1: {0: 4}}}
    jobs = Workload.of([JobSpec(0, 0, 4, 40, "vgg16"), JobSpec(1, 2, 4, 4, "resnet50")])
    play = Play(acts, jobs, TWO, Scenario(reconfiguration=cost, start_delay=99.0, restart_delay=99.0))
    assert play.finish == [2 + 10 + (40 - 8) / 4, 3.0]
    assert play.engine.view.restart_delay.tolist() == [10.0, 30.0]
    assert play.engine.view.start_delay.tolist() == [0.0, 0.0]


def test_rounds_of_a_fixed_interval():
    """Jobs come at 3 and 12; they start at 10 and 20. At 25 B ends unnoticed; the round at 30 sees only A."""
    rounds = Rounds(on_events=False, interval=10.0)
    acts: Acts = {10.0: {0: {0: 4}}, 20.0: {1: {1: 4}}}
    play = Play(acts, jobs_of((3, 4, 100), (12, 4, 20)), TWO, Scenario(rounds=rounds))
    assert play.asked == [10.0, 20.0, 30.0]
    assert play.finish == [35.0, 25.0]


def test_rounds_at_events_and_ticks_that_stay_multiples_after_an_idle_time():
    """A: 3 to 7. Nobody is in the system until 47; ticks go on at 50."""
    rounds = Rounds(on_events=True, interval=10.0)
    acts: Acts = {3.0: {0: {0: 4}}, 50.0: {1: {0: 4}}}
    play = Play(acts, jobs_of((3, 4, 16), (47, 4, 16)), TWO, Scenario(rounds=rounds))
    assert play.asked == [3.0, 47.0, 50.0]


@pytest.mark.parametrize(
    ("rounds", "asked"),
    [
        (Rounds(stall_interval=7.0, max_stalls=3), [5.0, 12.0, 19.0, 26.0]),
        (Rounds(on_events=False, interval=10.0, max_stalls=2), [10.0, 20.0, 30.0]),
        (Rounds(on_events=True, interval=10.0, max_stalls=2), [5.0, 10.0, 20.0]),
    ],
)
def test_a_stalled_system_asks_again_and_then_gives_up(rounds, asked):
    play = Play({}, jobs_of((5, 4, 40)), TWO, Scenario(rounds=rounds))
    assert play.asked == asked
    assert play.engine.time == asked[-1]
    assert np.isnan(play.finish).all()
    assert not play.engine.advance()


def test_a_start_ends_a_row_of_stalls():
    """Two stalls before A, two after it was stopped at the tick of 40: both within the two allowed."""
    rounds = Rounds(on_events=False, interval=10.0, max_stalls=2)
    acts: Acts = {20.0: {0: {0: 4}}, 40.0: {0: None}, 60.0: {0: {0: 4}}}
    play = Play(acts, jobs_of((0, 4, 400)), TWO, Scenario(restart_delay=0.0, rounds=rounds))
    assert play.asked[:7] == [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
    assert play.finish == [60 + (400 - 80) / 4]


def test_the_horizon_cuts_off_what_runs_and_what_waits():
    """A runs from 0, B waits from 2, C would come after the end: it is not in the records."""
    play = Play({0.0: {0: {0: 4}}}, jobs_of((0, 4, 400), (2, 4, 4), (60, 4, 4)), TWO, Scenario(horizon=50.0))
    assert play.engine.time == 50.0
    assert play.records["attained_service"].tolist() == [200.0, 0.0]
    assert np.isnan(play.finish).all()


def test_what_happens_at_the_horizon_still_happens_and_giving_up_is_charged_up_to_it():
    assert Play({0.0: {0: {0: 4}}}, jobs_of((0, 4, 200)), TWO, Scenario(horizon=50.0)).finish == [50.0]
    given_up = Play({}, jobs_of((5, 4, 40)), TWO, Scenario(horizon=500.0, rounds=Rounds(max_stalls=2)))
    assert given_up.engine.time == 500.0


def test_a_plan_and_a_batch_size_get_their_exact_speed_and_stand_in_the_log():
    """4 GPUs, doubled by the plan, doubled by the batch size: 16 samples/s."""
    wish = Placement({0: 4}, plan=HALVES, batch_size=128)
    play = Play({0.0: {0: wish}}, jobs_of((0, 4, 64)), TWO, FREE_OF_CHARGE)
    assert play.finish == [4.0]
    assert play.log.plans == (HALVES,)
    assert play.log.events["plan"].tolist() == [-1, 0, -1]
    assert play.log.events["batch_size"].tolist() == [0, 128, 0]
    assert play.placement("START", 0) == wish


def test_another_plan_or_batch_size_is_a_restart_and_the_same_is_not():
    """4 samples/s until 2; 3 s of restart for the batch size, 8 samples/s until 7, unchanged at 6; then the plan."""
    batch = Placement({0: 4}, batch_size=128)
    acts: Acts = {0.0: {0: {0: 4}}, 2.0: {0: batch}, 6.0: {0: batch}, 7.0: {0: replace(batch, plan=HALVES)}}
    jobs = jobs_of((0, 4, 56), (2, 1, 1), (6, 1, 1), (7, 1, 1))
    play = Play(acts, jobs, TWO, Scenario(restart_delay=3.0))
    assert [(time, kind) for time, kind, job in play.told if job == 0][2:-1] == [(2, "RESIZE"), (7, "RESIZE")]
    assert play.finish[0] == 10 + (56 - 8 - 16) / 16
    assert play.records["num_restarts"][0] == 2


def refusals() -> list[tuple[int, Placement | dict[int, int], str]]:
    """(job, placement, part of the message) for `at_five`."""
    return [
        (1, {1: 1}, "job 1: is given 1 GPUs; its range is 2 to 4"),
        (1, {1: 4, 0: 1}, "job 1: is given 5 GPUs; its range is 2 to 4"),
        (2, {1: 1}, "job 2 is not in the system at t = 5 s"),
        (7, {1: 2}, "job 7 is not in the system"),
        (-1, {1: 2}, "job -1 is not in the system"),
        (1, {0: 2}, "node 0: 2 GPUs are asked for, 0 are free"),
        (1, {5: 2}, "job 1: asks for 2 GPUs on node 5; nodes are 0 to 2"),
        (1, {2: 2}, "job 1: bert does not run on {2: 2}"),
        (1, Placement({1: 2}, plan=ExecutionPlan(data=3)), "job 1: the plan is for 3 GPUs"),
        (1, Placement({1: 2}, cpus={1: 2.0}), "job 1: names cpus, of which the scenario has no end"),
    ]


def at_five() -> ReferenceSimulator:
    """Nodes of 4 plain, 4 plain and 2 slow GPUs. Job 0 (4 GPUs) runs on node 0, 1 (2 to 4) waits, 2 comes at 9."""
    specs = [
        JobSpec(0, 0, 4, 40, "vgg16"),
        JobSpec(1, 5, 2, 40, "bert", min_gpus=2, max_gpus=4),
        JobSpec(2, 9, 1, 1, "vgg16"),
    ]
    cluster = ClusterSpec((NodeSpec("plain", 4), NodeSpec("plain", 4), NodeSpec("slow", 2)))
    engine = ReferenceSimulator(Workload.of(specs), cluster, Bench(), FREE_OF_CHARGE)
    rounds = engine.rounds()
    wish = next(rounds).allocation()
    wish.place(0, {0: 4})
    engine.apply(wish)
    assert next(rounds).time == 5
    return engine


@pytest.mark.parametrize("case", range(len(refusals())))
def test_a_wish_that_does_not_fit_is_refused_and_changes_nothing(case):
    job, placement, says = refusals()[case]
    engine = at_five()
    wish = engine.view.allocation(keep_running=True)
    wish.changes[job] = placement if isinstance(placement, Placement) else Placement(placement)
    with pytest.raises(AllocationError) as error:
        engine.apply(wish)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert len(engine.log) == 3
    assert engine.view.queued.tolist() == [1]
    assert engine.view.free_gpus.tolist() == [0, 4, 2]
    wish.changes = {1: Placement({1: 2})}
    engine.apply(wish)
    assert engine.view.running.tolist() == [0, 1]


def test_a_job_that_can_never_run_is_refused_at_once():
    with pytest.raises(ClusterError, match="needs 9 GPUs"):
        ReferenceSimulator(jobs_of((0, 9, 1)), TWO, Bench())


def test_the_view_shows_what_is_and_nothing_of_the_future():
    view = at_five().view
    assert (view.running.tolist(), view.queued.tolist()) == ([0], [1])
    assert view.num_gpus.tolist() == [4, 2]
    assert (view.min_gpus.tolist(), view.max_gpus.tolist()) == ([4, 2], [4, 4])
    assert view.submit_time.tolist() == [0.0, 5.0]
    assert view.capacity.tolist() == [4, 4, 2]
    assert view.attained_service(np.array([0, 1])).tolist() == [20.0, 0.0]
    assert view.remaining_work(np.array([1, 0])).tolist() == [40.0, 20.0]
    assert view.remaining_time(np.array([0])).tolist() == [5.0]
    assert view.placement(0) == Placement({0: 4})
    assert view.speed(1)[:, 2].tolist() == [2.0, 0.0]
    assert view.throughput(1, 0, 4, 2, batch_size=128) == 4.0
    for ask in (view.job, view.speed):
        with pytest.raises(MurmurationError, match="job 2 is not submitted at t = 5 s"):
            ask(2)
    with pytest.raises(KeyError, match="job 1 is not running"):
        view.placement(1)
    with pytest.raises(ValueError, match="read-only"):
        view.num_gpus[0] = 3


def test_tenants_and_quotas():
    specs = [JobSpec(i, 0, 1, 1, "bert", tenant=name, guaranteed=i == 1) for i, name in enumerate(("a", "b"))]
    engine = ReferenceSimulator(Workload.of(specs), TWO, Bench(), Scenario(quotas={"b": 3}))
    assert engine.advance()
    assert engine.view.tenant.tolist() == [0, 1]
    assert engine.view.guaranteed.tolist() == [False, True]
    assert engine.view.quotas.tolist() == [8, 3]


def test_allocations_prefer_the_fastest_type():
    mixed = ClusterSpec((NodeSpec("slow", 4), NodeSpec("fast", 4)))
    engine = ReferenceSimulator(jobs_of((0, 4, 12), model="bert"), mixed, Bench())
    assert engine.advance()
    wish = engine.view.allocation()
    assert wish.pack(0)
    assert not wish.pack(0, gpu_types=[])
    assert wish.placement(0) == Placement({1: 4})


@pytest.mark.parametrize("known", ["exact", "estimate", "none"])
def test_what_schedulers_know_of_work(known):
    engine = ReferenceSimulator(jobs_of((0, 1, 50)), TWO, Bench(), Scenario(information=Information(known)), seed=4)
    assert engine.advance()
    noise = np.random.default_rng(np.random.SeedSequence(4).spawn(3)[0]).standard_normal(1)[0]
    shown = {"exact": 50.0, "estimate": 50.0 * np.exp(0.3 * noise), "none": np.nan}[known]
    np.testing.assert_equal(engine.view.remaining_work(np.array([0]))[0], shown)
    np.testing.assert_equal(engine.view.job(0).work, 50.0 if known == "exact" else np.nan)


def test_it_plays_as_the_compiled_engine_does():
    """One loop serves both, and so do schedulers."""
    rows = [(float(i), 1 + i % 4, 5.0 + i) for i in range(12)]
    jobs = Workload.of([JobSpec(i, *row, "any") for i, row in enumerate(rows)])
    runs = [
        run_episode(Fifo(), cast(Simulator, make(jobs, TWO, IdealModel(), COSTLY, 3)), compiled=False)
        for make in (Simulator, ReferenceSimulator)
    ]
    assert runs[0].log == runs[1].log
    assert runs[0].records.tobytes() == runs[1].records.tobytes()
    assert runs[0].scheduler == runs[1].scheduler == "Fifo"
    rngs = [make(jobs, TWO, IdealModel(), COSTLY, 3).rng for make in (Simulator, ReferenceSimulator)]
    assert rngs[0].random() == rngs[1].random()
