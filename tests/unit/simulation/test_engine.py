"""Event sequences worked by hand."""

from dataclasses import dataclass

import pytest

from envs.simulation import Rounds, Scenario, Simulator, run_episode
from envs.types import ClusterSpec, ExecutionPlan, Gigabytes, NodeSpec
from tests.unit.simulation.plays import Acts, Script, cluster_of, jobs_of, play, told

FREE_OF_CHARGE = Scenario(restart_delay=0.0)
COSTLY = Scenario(start_delay=2.0, restart_delay=3.0)
TWO = cluster_of(4, 4)


@dataclass(frozen=True)
class ByType:
    """Linear in GPUs; "fast" does three samples a second, others one; two nodes halve the speed."""

    models: tuple[str, ...] = ("any",)

    def throughput(
        self,
        model: str,
        gpu_type: str,
        num_gpus: int,
        num_nodes: int = 1,
        *,
        batch_size: int | None = None,
        plan: ExecutionPlan | None = None,
        cpus_per_gpu: float | None = None,
        memory_per_gpu: Gigabytes | None = None,
    ) -> float:
        """Samples per second."""
        return num_gpus * (3.0 if gpu_type == "fast" else 1.0) * (0.5 if num_nodes > 1 else 1.0)


def test_the_first_sample_waits_for_the_start_delay():
    """40 samples on 4 GPUs: 2 s of start, 10 s of work."""
    result = play({0.0: {0: {0: 4}}}, jobs_of((0, 4, 40)), TWO, COSTLY)
    assert told(result) == [(0, "ARRIVE", 0), (0, "START", 0), (12, "FINISH", 0)]
    assert result.records["attained_service"].tolist() == [48.0]
    assert result.records["num_restarts"].tolist() == [0]


def test_preemption_costs_a_restart():
    """A has done 5 - 2 = 3 s (12 samples) when B takes its node at 5. B: starts 7, done 9. A: restarts at 9, works from
    12, 28 samples are 7 s: done at 19. It held GPUs 0-5 and 9-19.
    """
    acts: Acts = {0.0: {0: {0: 4}}, 5.0: {0: None, 1: {0: 4}}, 9.0: {0: {0: 4}}}
    result = play(acts, jobs_of((0, 4, 40), (5, 4, 8)), cluster_of(4), COSTLY)
    assert told(result) == [
        (0, "ARRIVE", 0),
        (0, "START", 0),
        (5, "ARRIVE", 1),
        (5, "STOP", 0),
        (5, "START", 1),
        (9, "FINISH", 1),
        (9, "START", 0),
        (19, "FINISH", 0),
    ]
    assert result.records["num_preemptions"].tolist() == [1, 0]
    assert result.records["num_restarts"].tolist() == [1, 0]
    assert result.records["attained_service"].tolist() == [60.0, 16.0]
    assert result.records["start_time"].tolist() == [0.0, 5.0]


def test_a_resize_pays_once_and_goes_on_faster():
    """2 GPUs until 5 (3 s of work, 6 of 40 samples); then 4 GPUs, from 8 on: 34 / 4 = 8.5 s, done at 16.5."""
    acts: Acts = {0.0: {0: {0: 2}, 1: {1: 1}}, 5.0: {0: {0: 4}}}
    result = play(acts, jobs_of((0, 2, 40), (0, 2, 3), elastic=(1, 4)), TWO, COSTLY)
    assert told(result)[-3:] == [(5, "FINISH", 1), (5, "RESIZE", 0), (16.5, "FINISH", 0)]
    assert result.records["attained_service"].tolist() == [2 * 5 + 4 * 11.5, 5.0]
    assert result.records["num_restarts"].tolist() == [1, 0]
    assert result.records["num_preemptions"].tolist() == [0, 0]


def test_a_migration_is_a_resize_to_other_nodes():
    """Same number of GPUs elsewhere: the same cost as any change."""
    acts: Acts = {0.0: {0: {0: 2}}, 4.0: {0: {1: 2}}}
    result = play(acts, jobs_of((0, 2, 20), (4, 2, 1)), TWO, COSTLY)
    assert (4, "RESIZE", 0) in told(result)
    assert dict(result.log.placement(3).gpus) == {1: 2}
    assert result.records["finish_time"][0] == 4 + 3 + (20 - 2 * 2) / 2


def test_a_second_change_during_a_restart_begins_it_anew():
    """Resized at 5 and again at 6: nothing is done between 5 and 9, since the restart from 5 would have ended at 8."""
    acts: Acts = {0.0: {0: {0: 1}}, 5.0: {0: {0: 2}}, 6.0: {0: {0: 4}}}
    result = play(acts, jobs_of((0, 1, 43), (5, 1, 1), (6, 1, 1), elastic=(1, 4)), TWO, COSTLY)
    assert result.records["finish_time"][0] == 9 + (43 - 3) / 4


def test_a_job_stopped_while_it_starts_has_done_nothing():
    acts: Acts = {0.0: {0: {0: 4}}, 1.0: {0: None, 1: {0: 4}}, 4.0: {0: {0: 4}}}
    result = play(acts, jobs_of((0, 4, 4), (1, 4, 4)), cluster_of(4), COSTLY)
    assert result.records["finish_time"].tolist() == [4 + 3 + 1, 1 + 2 + 1]
    assert result.records["attained_service"].tolist() == [4.0 + 16.0, 12.0]


def test_what_does_not_change_goes_on_free_of_charge():
    """B comes at 1; the wish names A's placement again, written anew: no event and no delay for A."""
    acts: Acts = {0.0: {0: {0: 2, 1: 2}}, 1.0: {0: {1: 2, 0: 2}, 1: {0: 2}}}
    result = play(acts, jobs_of((0, 4, 40), (1, 2, 2)), TWO, COSTLY)
    assert [kind for _, kind, job in told(result) if job == 0] == ["ARRIVE", "START", "FINISH"]
    assert result.records["finish_time"][0] == 12.0
    assert result.records["num_restarts"].tolist() == [0, 0]


def test_an_allocation_from_scratch_that_names_the_same_costs_nothing():
    """The whole wish and the delta are two ways to say one thing."""
    simulator = Simulator(jobs_of((0, 4, 40), (1, 2, 2)), TWO, IdealLike(), COSTLY)
    for view in simulator.rounds():
        wish = view.allocation()
        wish.place(0, {0: 4})
        if 1 in view.queued or 1 in view.running:
            wish.place(1, {1: 2})
        simulator.apply(wish)
        if view.time == 4:
            break
    assert simulator.state.jobs[0, 0].num_restarts == 0
    assert simulator.state.jobs[0, 0].finish == 12.0


def test_a_job_that_the_wish_leaves_out_stops():
    simulator = Simulator(jobs_of((0, 4, 40), (1, 2, 2)), TWO, IdealLike(), FREE_OF_CHARGE)
    rounds = simulator.rounds()
    view = next(rounds)
    wish = view.allocation()
    wish.place(0, {0: 4})
    simulator.apply(wish)
    view = next(rounds)
    simulator.apply(view.allocation())
    assert view.running.tolist() == []
    assert view.queued.tolist() == [0, 1]


def test_completions_free_gpus_before_arrivals_and_both_before_decisions():
    """At 10 A and B end (by id), then two come (by submission), then decisions act: stops, starts, resizes."""
    acts: Acts = {
        0.0: {0: {0: 4}, 1: {1: 1}, 2: {1: 1}, 3: {1: 2}},
        10.0: {2: None, 3: {1: 3}, 4: {0: 2}, 5: {0: 2}},
        12.0: {2: {0: 1}},
    }
    workload = jobs_of((0, 1, 40), (0, 1, 10), (0, 1, 100), (0, 1, 100), (10, 1, 4), (10, 1, 4), elastic=(1, 4))
    result = play(acts, workload, TWO, FREE_OF_CHARGE)
    assert [(kind, job) for time, kind, job in told(result) if time == 10] == [
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
    """Neither has room until the other is gone: the wish counts as a whole."""
    acts: Acts = {0.0: {0: {0: 4}, 1: {1: 4}}, 2.0: {0: {1: 4}, 1: {0: 4}}}
    result = play(acts, jobs_of((0, 4, 40), (0, 4, 40), (2, 1, 1)), TWO, Scenario(restart_delay=1.0))
    assert [(time, kind) for time, kind, job in told(result) if job < 2][-4:] == [
        (2, "RESIZE"),
        (2, "RESIZE"),
        (11, "FINISH"),
        (11, "FINISH"),
    ]


@pytest.mark.parametrize(("shares", "speed"), [("proportional", 5.0), ("equal", 2.0)])
def test_unequal_gpus_divide_the_batch_by_speed_or_equally(shares, speed):
    """3 fast GPUs (3/s) and 1 slow (1/s) over two nodes (half speed): 10 / 2 = 5, or 4 times the slowest / 2 = 2."""
    mixed = ClusterSpec((NodeSpec("fast", 3), NodeSpec("slow", 1)))
    scenario = Scenario(restart_delay=0.0, worker_shares=shares)
    result = play({0.0: {0: {0: 3, 1: 1}}}, jobs_of((0, 4, 60)), mixed, scenario, ByType())
    assert result.records["finish_time"].tolist() == [pytest.approx(60 / speed)]


def test_a_gang_over_nodes_runs_at_the_speed_of_its_node_count():
    """4 GPUs at one sample a second each: on one node 4/s, on two 2/s."""
    for placement, finish in (({0: 4}, 10.0), ({0: 2, 1: 2}, 20.0)):
        result = play({0.0: {0: placement}}, jobs_of((0, 4, 40)), TWO, FREE_OF_CHARGE, ByType())
        assert result.records["finish_time"].tolist() == [finish]


def test_a_run_leaves_the_wall_clock_out_of_simulated_time():
    """Deciding takes no simulated time; the scheduler is asked at every event and at no other instant."""
    script = Script({0.0: {0: {0: 4}}, 3.0: {1: {1: 4}}})
    workload = jobs_of((0, 4, 40), (3, 4, 40))
    result = run_episode(script, Simulator(workload, TWO, IdealLike(), Scenario(rounds=Rounds())))
    assert script.rounds == [0.0, 3.0, 10.0]
    assert result.num_rounds == 3
    assert result.end_time == 13.0


class IdealLike(ByType):
    """As `ByType`, on one type: a plain GPU does one sample a second."""
