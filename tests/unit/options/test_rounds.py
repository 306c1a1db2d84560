"""Rounds worked out by hand, option by option."""

import math

import numpy as np
import pytest

from envs.options import OptionBatch, OptionRules
from envs.options.arrays import COUNTERS
from envs.options.columns import EVICT, JOB_ROW_COLUMNS, JOIN, MOVE, OPTION_COLUMNS, RESIZE, START, WAIT
from envs.performance import IdealModel
from envs.simulation import EventKind
from envs.types import ClusterSpec, Configuration, MurmurationError, NodeSpec
from tests.unit.episodes.players import jobs_like
from tests.unit.options.worlds import choose, listed, play_area

WAITING = (WAIT, -1, -1, 0)


def nodes(*gpus: int) -> ClusterSpec:
    """Nodes of one type with so many GPUs."""
    return ClusterSpec(tuple(NodeSpec("V100", count) for count in gpus))


def events(batch: OptionBatch, what: EventKind) -> list[tuple[float, int]]:
    """Time and job of the events of one sort."""
    found = batch.state.log(0).events
    return [(float(event["time"]), int(event["job"])) for event in found[found["kind"] == what]]


def test_a_round_worked_by_hand():
    """Job 2 is the shortest (10 s), jobs 0 and 1 need 50 s. Job 1 needs six GPUs, so it is a gang over both nodes."""
    batch = play_area(nodes(4, 4), jobs_like((0, 2, 100), (0, 6, 300), (0, 1, 10, 1, 2)))
    # All is idle, so waiting is not offered. Both nodes are equal, so only the first one has options. One node has
    # four GPUs: the first part of the gang must have at least two.
    first = [(START, 2, 0, 1), (START, 2, 0, 2), (START, 0, 0, 2), (START, 1, 0, 2), (START, 1, 0, 3), (START, 1, 0, 4)]
    assert listed(batch) == [first[-1], *first[:-1]]
    choose(batch, (START, 1, 0, 4))
    assert listed(batch) == [(JOIN, 1, 1, 2)]  # the gang must be completed before anything else
    choose(batch, (JOIN, 1, 1, 2))
    assert listed(batch) == [WAITING, (START, 2, 1, 1), (START, 2, 1, 2), (START, 0, 1, 2)]
    choose(batch, (START, 2, 1, 1))  # one GPU is left, job 0 needs two: the round is over; job 2 ends after 10 s
    assert batch.time[0] == 10.0
    assert listed(batch) == [WAITING, (START, 0, 1, 2)]
    choose(batch, WAITING)
    assert batch.time[0] == 50.0
    assert listed(batch) == [(START, 0, 0, 2)]
    choose(batch, (START, 0, 0, 2))
    assert batch.ended[0]
    assert events(batch, EventKind.START) == [(0.0, 1), (0.0, 2), (50.0, 0)]
    assert events(batch, EventKind.FINISH) == [(10.0, 2), (50.0, 1), (100.0, 0)]
    assert batch.mean_jct(0) == pytest.approx(160 / 3)
    expected = dict.fromkeys(COUNTERS, 0) | {"decisions": 3}  # with a choice
    assert batch.counters() == expected


def test_equal_nodes_have_options_of_their_own_on_request():
    batch = play_area(nodes(2, 2, 1), jobs_like((0, 1, 10)), OptionRules(distinct_nodes=False))
    assert sorted(listed(batch)) == [(START, 0, 0, 1), (START, 0, 1, 1), (START, 0, 2, 1)]
    batch = play_area(nodes(2, 2, 1), jobs_like((0, 1, 10)))
    assert sorted(listed(batch)) == [(START, 0, 0, 1), (START, 0, 2, 1)]


def test_running_jobs_grow_shrink_and_spread():
    """Job 0 runs on two of four GPUs; job 1 waits for four."""
    rules = OptionRules(changes="resize")
    batch = play_area(nodes(4, 2), jobs_like((0, 2, 100, 1, 5), (1, 6, 60)), rules)
    choose(batch, (START, 0, 0, 2))
    choose(batch, WAITING)
    assert batch.time[0] == 1.0
    sizes = [(RESIZE, 0, 0, 1), (RESIZE, 0, 0, 3), (RESIZE, 0, 0, 4)]
    assert listed(batch) == [WAITING, *sizes, (JOIN, 0, 1, 1), (JOIN, 0, 1, 2)]
    choose(batch, (RESIZE, 0, 0, 4))
    assert listed(batch) == [WAITING, (JOIN, 0, 1, 1)]  # it was changed once; further nodes may join
    choose(batch, (JOIN, 0, 1, 1))
    assert batch.time[0] == 1.0 + 98 / 5
    choose(batch, (START, 1, 0, 4))
    choose(batch, (JOIN, 1, 1, 2))
    assert events(batch, EventKind.RESIZE) == [(1.0, 0)]


def test_running_jobs_move_and_leave():
    """Job 0 is evicted for job 1, and started again on the other node."""
    batch = play_area(nodes(4, 2), jobs_like((0, 2, 100), (1, 4, 40)), OptionRules(changes="move"))
    choose(batch, (START, 0, 0, 2))
    assert batch.time[0] == 1.0  # nothing waits, and job 0 may be changed in the next round only
    # Nodes 0 and 1 have two free GPUs each, so job 1 can also be a gang.
    assert listed(batch) == [WAITING, (START, 1, 0, 2), (START, 1, 1, 2), (EVICT, 0, 0, 0), (MOVE, 0, 1, 2)]
    choose(batch, (EVICT, 0, 0, 0))
    assert WAITING not in listed(batch)  # all is idle now
    choose(batch, (START, 1, 0, 4))
    assert listed(batch) == [WAITING, (START, 0, 1, 2)]
    choose(batch, (START, 0, 1, 2))
    assert events(batch, EventKind.RESIZE) == [(1.0, 0)]  # it never stood in the queue
    assert events(batch, EventKind.START) == [(0.0, 0), (1.0, 1)]


def test_features_worked_by_hand():
    """Job 0 takes two of the first node's four GPUs for 60 s; job 1 waits as a gang of six, for 240 s.

    A typical time of the two is 120 s, a typical GPU time 120 and 1,440 GPU-seconds.
    """
    batch = play_area(nodes(4, 4), jobs_like((0, 2, 120), (0, 6, 1440)))
    found = batch.options()
    row = dict(zip(OPTION_COLUMNS, found.options[listed(batch).index((START, 0, 0, 2))].tolist(), strict=True))
    expected = {
        "is_start": 1,
        "gpus": 0.5,
        "gpus_here": 0.5,
        "gpus_change": 1,
        "of_fair_share": 2 / (2 + 4),
        "run_time": math.log(60 / 120 + 0.01) / 5,
        "gpu_time": math.log(math.sqrt(120 / 1440) + 0.01) / 5,
        "throughput": 1,
        "efficiency": 1,
        "spread": 1 / 3,
        "free_after": 0.5,
    }
    assert {name: value for name, value in row.items() if value} == pytest.approx(expected)
    part = dict(zip(OPTION_COLUMNS, found.options[listed(batch).index((START, 1, 0, 4))].tolist(), strict=True))
    # Two more GPUs are missing, on one more node: all six take four minutes.
    assert (part["gpus"], part["full"], part["throughput"]) == (1.0, 1.0, 1.0)
    assert part["run_time"] == pytest.approx(math.log(2.01) / 5)
    assert part["of_request"] == pytest.approx(math.log2(4 / 6) / 4)
    job = dict(zip(JOB_ROW_COLUMNS, found.jobs[1].tolist(), strict=True))
    assert (job["rank"], job["first"], job["waits"], job["min_gpus"]) == (0.5, 0.0, 1.0, 1.0)
    assert found.cluster.tolist() == pytest.approx([1, 0, 1, 2 / 8, 0, 0, math.log(0.01) / 5])
    assert found.nodes[0].tolist() == [1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]


class TwoNodes(IdealModel):
    """Four GPUs are no use on more than two nodes."""

    def throughput(self, model: str, configuration: Configuration) -> float:
        """One sample per second for each GPU."""
        return super().throughput(model, configuration) if configuration.num_nodes <= 2 else 0.0


def test_a_gang_that_nobody_can_complete_is_given_up():
    """Three parts of one GPU cannot run the job; it waits for the next round, the other job starts."""
    batch = play_area(nodes(2, 1, 1), jobs_like((0, 3, 30), (0, 1, 90)), performance=TwoNodes())
    choose(batch, (START, 0, 0, 1))
    assert listed(batch) == [(JOIN, 0, 1, 1)]  # nodes 1 and 2 are equal
    choose(batch, (JOIN, 0, 1, 1))  # node 2 would be a third one
    assert batch.counters()["broken_gangs"] == 1
    assert sorted(listed(batch)) == [(START, 1, 0, 1), (START, 1, 1, 1)]  # no new gang in this round
    choose(batch, (START, 1, 1, 1))
    assert batch.time[0] == 90.0  # two nodes are left, of two GPUs and of one, and job 0 may run on both


def may_wait(batch: OptionBatch) -> bool:
    """Whether waiting is offered."""
    return WAITING in listed(batch)


@pytest.mark.parametrize(
    ("idle", "offered"), [("allowed", [True, True]), ("limited", [True, False]), ("never", [False, False])]
)
def test_gpus_stay_free_only_as_long_as_the_rules_allow(idle, offered):
    """Job 1 needs 100 s and comes at t = 1. At t = 2 and at t = 52 two more jobs come, for which there is no room."""
    jobs = jobs_like((0, 2, 1000), (1, 1, 100), (2, 4, 4), (52, 4, 4))
    batch = play_area(nodes(4), jobs, OptionRules(idle=idle))
    choose(batch, (START, 0, 0, 2))
    assert may_wait(batch) is (idle != "never")
    if idle != "never":
        for time, offer in zip((2.0, 52.0), offered, strict=True):
            choose(batch, WAITING)
            assert batch.time[0] == time
            assert may_wait(batch) is offer
    choose(batch, (START, 1, 0, 1))
    assert batch.time[0] > 52.0, "one free GPU is of no use to the others"


def test_lists_and_rounds_grow_with_the_cluster_and_the_queue():
    """Job 0 needs more GPUs than are free once job 1 runs, and takes no candidate's place from then on."""
    rules = OptionRules(num_candidates=2, candidates_per_node=1.5, max_decisions=5, decisions_per_gpu=4.0)
    assert (rules.candidates(nodes(4)), rules.candidates(nodes(*[4] * 4))) == (2, 6)
    assert (rules.decisions(nodes(1)), rules.decisions(nodes(4, 4))) == (5, 32)
    batch = play_area(nodes(4), jobs_like((0, 4, 4), (0, 1, 100), (0, 1, 200), (0, 1, 300)), rules)
    assert {job for _, job, *_ in listed(batch)} == {0, 1}
    choose(batch, (START, 1, 0, 1))
    assert {job for _, job, *_ in listed(batch)} == {-1, 2, 3}
    choose(batch, (START, 2, 0, 1))
    assert batch.counters()["full_lists"] == 1, "four candidates at the first decision, two places"


def test_a_round_has_at_most_so_many_decisions():
    workload = jobs_like(*((0, 1, 10) for _ in range(6)))
    batch = play_area(nodes(8), workload, OptionRules(max_decisions=4, decisions_per_gpu=0.0))
    for _ in range(4):
        assert batch.time[0] == 0.0
        batch.step(np.array([len(listed(batch)) - 1]))
    assert batch.time[0] == 10.0
    assert batch.counters()["full_rounds"] == 1


def test_a_round_ends_after_a_gang_that_was_given_up_by_the_last_decision():
    rules = OptionRules(max_decisions=1, decisions_per_gpu=0.0)
    batch = play_area(nodes(2, 1, 1), jobs_like((0, 3, 30), (0, 1, 90), (5, 1, 9)), rules, performance=TwoNodes())
    choose(batch, (START, 0, 0, 1))
    choose(batch, (JOIN, 0, 1, 1))
    assert batch.time[0] == 5.0


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"changes": "all"}, "env.changes is 'all'; it must be one of start, resize, move"),
        ({"queue_order": "lifo"}, "env.queue_order is 'lifo'; it must be one of shortest, fifo, least_service"),
        ({"max_decisions": 0}, "env.max_decisions is 0; it must be at least 1"),
        ({"candidates_per_node": -1.0}, "env.candidates_per_node is -1.0; it must be 0 or more"),
        ({"idle": "sometimes"}, "env.idle is 'sometimes'; it must be one of allowed, limited, never"),
        ({"patience": -0.5}, "env.patience is -0.5; it must be 0 or more"),
    ],
)
def test_wrong_rules_are_refused(setting, message):
    with pytest.raises(MurmurationError, match=message):
        OptionRules(**setting)
