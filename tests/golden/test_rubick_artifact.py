"""The policy of Rubick's artifact on schedules worked by hand. Throughputs as in `test_rubick`."""

import numpy as np
import pytest

from baselines import RubickArtifact
from baselines.rubick.artifact import PATTERNS
from envs.performance.rubick.plans import BestPlan
from envs.types import ExecutionPlan, MurmurationError
from tests.golden.playground import places, restarts, times
from tests.unit.baselines.rubick_worlds import Names, Told, job, nodes, play

LLAMA = {24: 3.0, 32: 6.0, 40: 6.5, 48: 8.0}
EIGHT_NODES = (8,) * 8


def large(submit, work, **more):
    """A LLaMA job that may have 1 to 64 GPUs."""
    return job(submit, "llama30b", 40, work, most=64, **more)


def test_a_job_takes_a_node_and_gives_nothing_back():
    """A takes all of node 0, B of node 1; C waits for the first of them, A at 10, and D for B at 11."""
    jobs = [job(0, "linear", 1, 40, most=4), job(1, "linear", 1, 40, most=4), job(2, "flat", 1, 2.875, most=4)]
    result = play(RubickArtifact(), [*jobs, job(2, "linear", 1, 8, most=4)], nodes(4, 4))
    assert [places(result, number) for number in range(4)] == [
        [(0, {0: 4})],
        [(1, {1: 4})],
        [(11, {1: 4})],
        [(10, {0: 4})],
    ]
    assert times(result) == [(0, 10), (1, 11), (11, 12), (10, 12)]


def test_lower_slopes_go_first():
    """Both wait for one node of 4. One GPU gives 2 / 2.875 of flat's throughput on four and 1 / 4 of linear's."""
    pair = [job(0, "flat", 1, 2.875, most=4), job(0, "linear", 1, 8, most=4)]
    assert times(play(RubickArtifact(), pair, nodes(4))) == [(2, 3), (0, 2)]


def test_a_running_job_fills_its_own_node():
    """A rigid job leaves three GPUs of a node to A, which arrives at 1; when it ends at 3, A grows to all four. It has
    done 6 of 20, and continues after a restart of 1 s.
    """
    pair = [job(0, "linear", 1, 3, most=1), job(1, "linear", 4, 20, most=4)]
    result = play(RubickArtifact(), pair, nodes(4), restart=1)
    assert places(result, 1) == [(1, {0: 3}), (3, {0: 4})]
    assert times(result)[1] == (1, 4 + 14 / 4)


@pytest.mark.parametrize(("slack", "start"), [(1.0, 5), (2.0, 1)])
def test_guaranteed_jobs_start_only_at_their_level(slack, start):
    """Two of four GPUs are free until 5; B, from 1 on, is guaranteed four, or two with a slack of 2."""
    pair = [job(0, "linear", 2, 10, most=2, guaranteed=True), job(1, "linear", 4, 40, most=4, guaranteed=True)]
    result = play(RubickArtifact(slack=slack), pair, nodes(4))
    assert times(result)[1][0] == start


def test_a_llama_job_takes_the_largest_placement_with_room():
    """48 of 64 GPUs at once: the first and largest of its list. It ends at 10 without a change."""
    world = Told({"llama30b": LLAMA, "linear": {1: 1.0}})
    result = play(RubickArtifact(), [large(0, 80), job(1, "linear", 1, 2, most=1)], nodes(*EIGHT_NODES), world=world)
    assert [sum(gpus.values()) for _, gpus in places(result, 0)] == [48]
    assert times(result)[0] == (0, 10)
    assert restarts(result) == [0, 0]


def test_a_llama_job_with_little_room_starts_small_and_moves_up():
    """32 rigid jobs arrive first and spread over all nodes, four on each. The LLaMA job of t = 1 finds room for four
    GPUs on each of six: 12 samples by 5, when the others end. It moves to 48 GPUs, with 68 samples left.
    """
    world = Told({"llama30b": LLAMA, "linear": {1: 1.0}})
    small = [job(0, "linear", 1, 5, most=1) for _ in range(32)]
    result = play(RubickArtifact(), [*small, large(1, 80)], nodes(*EIGHT_NODES), world=world)
    assert [(time, sorted(gpus.values())) for time, gpus in places(result, 32)] == [(1, [4] * 6), (5, [8] * 6)]
    assert times(result)[32] == (1, 5 + 68 / 8)


def test_two_large_jobs_displace_each_other():
    """Each takes the other's GPUs in turn until it has been restarted seven times; one of them runs in each round."""
    world = Told({"llama30b": LLAMA})
    result = play(RubickArtifact(), [large(0, 400), large(1, 400)], nodes(*EIGHT_NODES), world=world, interval=1)
    assert result.finished.all()
    held = [sum(gpus.values()) for number in (0, 1) for _, gpus in places(result, number)]
    assert set(held) <= {24, 32, 40, 48}


def test_large_unknown_models_run_as_possible():
    result = play(RubickArtifact(), [job(0, "whole", 8, 16)], nodes(4, 4))
    assert places(result, 0) == [(0, {0: 4, 1: 4})]
    assert times(result) == [(0, 2)]


def test_plans_come_from_the_planner():
    result = play(RubickArtifact(Names()), [job(0, "linear", 1, 8, most=4)], nodes(4))
    assert result.log.placement(1).plan == ExecutionPlan(data=4, checkpointing=True)


def test_the_planner_decides_if_trusted():
    """A planner that takes three GPUs for the best decides, although four are faster."""

    class Narrow(Names):
        def best_plan(self, model, num_gpus, num_nodes=1):
            best = super().best_plan(model, num_gpus, num_nodes)
            return best if num_gpus < 4 else BestPlan(2.0, best.plan, best.num_gpus, 1)

    result = play(RubickArtifact(Narrow(), trust="planner"), [job(0, "linear", 1, 6, most=4)], nodes(4))
    assert places(result, 0) == [(0, {0: 3})]


def test_placements_use_nodes_of_eight():
    for patterns in PATTERNS.values():
        assert all(max(shares) <= 8 and len(shares) <= 8 and len(set(shares)) == 1 for shares in patterns)
    assert [sum(shares) for shares in PATTERNS["llama30b"]] == [48, 40, 32, 24]


def test_invalid_options_are_refused():
    for slack in (0.5, np.nan):
        with pytest.raises(MurmurationError, match="slack is"):
            RubickArtifact(slack=slack)
    with pytest.raises(MurmurationError, match="name a planner or trust the view"):
        RubickArtifact(trust="planner")
