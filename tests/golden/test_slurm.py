"""Slurm's policy on schedules worked by hand."""

from dataclasses import replace
from typing import Any

import pytest

from baselines.slurm import Slurm
from envs.simulation import Information, RunResult, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, Constraints, JobSpec, MurmurationError, NodeSpec, Seconds, name_of_nodes
from envs.workloads import Workload
from tests.golden.playground import TwoThroughputs as Linear
from tests.golden.playground import places, times

FINE = {"bf_resolution": 1}  # no start is rounded


def job(submit: Seconds, gpus: int, seconds: Seconds, limit: Seconds = 1000.0, pool: str = "", **more: Any) -> JobSpec:
    """A job that needs so many seconds on its GPUs."""
    where = Constraints(pools=(pool,)) if pool else Constraints()
    return JobSpec(0, submit, gpus, gpus * seconds, "any", time_limit=limit, constraints=where, **more)


def nodes(*gpus: int, pools: tuple[tuple[str, ...], ...] = ()) -> ClusterSpec:
    """Nodes of one GPU type, each in some pools."""
    names = [name_of_nodes("plain", pools[i] if pools else ()) for i in range(len(gpus))]
    return ClusterSpec(tuple(NodeSpec(name, count) for name, count in zip(names, gpus, strict=True)))


def play(scheduler: Slurm, jobs: list[JobSpec], cluster: ClusterSpec) -> RunResult:
    """Play with limits as all that is known, compiled where that is possible, and plainly; both give one log."""
    setup = Setup(cluster, Linear(), Scenario(restart_delay=0.0, information=Information("limit")))
    plain = run_episode(scheduler, Simulator(Workload.of(jobs), setup), compiled=False)
    assert run_episode(scheduler, Simulator(Workload.of(jobs), setup)).log == plain.log
    return plain


A_LATER, A_FIRST = [2, 1], [1, 2]
FACTORS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], list[int]]] = {
    "none": ({}, {}, {}, A_FIRST),
    "size": ({"PriorityWeightJobSize": 1000}, {}, {"gpus": 2}, A_LATER),
    "small": ({"PriorityWeightJobSize": 1000, "PriorityFavorSmall": "YES"}, {"gpus": 2}, {}, A_LATER),
    "partition": ({"PriorityWeightPartition": 1000}, {"pool": "low"}, {"pool": "high"}, A_LATER),
    "tier": ({}, {"pool": "low"}, {"pool": "top"}, A_LATER),
    "QoS": ({"PriorityWeightQOS": 1000}, {"qos": "normal"}, {"qos": "high"}, A_LATER),
    "basic": ({"PriorityWeightQOS": 1000, "PriorityType": "priority/basic"}, {}, {"qos": "high"}, A_FIRST),
    "nice": ({"PriorityWeightJobSize": 1000}, {"nice": 10.0}, {}, A_LATER),
    "GPUs": ({"PriorityWeightTRES": "CPU=1,GRES/gpu=1000"}, {}, {"gpus": 2}, A_LATER),
    "fair share": ({"PriorityWeightFairshare": 1000, "PriorityCalcPeriod": 1}, {"user": "ran"}, {}, A_LATER),
    # A may begin at 70, from when its age counts. B has 166 at 60.
    "eligible": ({"PriorityWeightAge": 1000, "PriorityMaxAge": 1}, {"begin_time": 70.0}, {}, A_LATER),
    # At 60, A is 59 s old and has 983; B has 300 + 967. With a maximal age of 2 minutes A has 491, B 300 + 483.
    "age": ({"PriorityWeightAge": 1000, "PriorityMaxAge": 1, "PriorityWeightQOS": 10}, {}, {"qos": "high"}, A_FIRST),
}


@pytest.mark.parametrize("factor", FACTORS)
def test_priority_decides_who_is_next(factor):
    """Job 0 holds both GPUs until 90; A comes at 1 and B at 50. The one with the higher priority starts at 90."""
    settings, of_a, of_b, order = FACTORS[factor]
    partitions = {"low": {"PriorityJobFactor": 1}, "high": {"PriorityJobFactor": 9}, "top": {"PriorityTier": 2}}
    qos = {"normal": {"Priority": 1}, "high": {"Priority": 10}}
    scheduler = Slurm(settings={"PriorityCalcPeriod": 1, **settings}, partitions=partitions, qos=qos)
    defaults: dict[str, Any] = {"gpus": 2, "seconds": 10.0, "user": "new"}
    if "gpus" in of_a or "gpus" in of_b:
        defaults["gpus"] = 1
    waiting = [job(at, **{**defaults, **of}) for at, of in ((1.0, of_a), (50.0, of_b))]
    result = play(scheduler, [job(0, 2, 90, user="ran"), *waiting], nodes(2, pools=(("low", "high", "top"),)))
    starts = result.records["start_time"]
    assert starts[order[0]] == 90
    assert starts[order[1]] > 90


@pytest.mark.parametrize(("pool", "start"), [("q", 2), ("p", 100)])
def test_a_job_without_room_blocks_its_partition_alone(pool, start):
    """Node 0 is p, node 1 is q. The second job needs all of node 0, so p waits; q does not."""
    jobs = [job(0, 1, 100, pool="p"), job(1, 2, 10, pool="p"), job(2, 1, 5, pool=pool)]
    result = play(Slurm(settings={"SchedulerType": "sched/builtin"}), jobs, nodes(2, 2, pools=(("p",), ("q",))))
    assert result.records["start_time"][2] == (start if pool == "q" else 110)


def test_a_blocked_partition_closes_its_nodes_to_others():
    """A job of both nodes waits, so a job of q, on node 1 alone, waits too until backfill looks for it at 30."""
    jobs = [job(0, 2, 100, pool="all"), job(1, 4, 10, pool="all"), job(2, 1, 5, 20, pool="q")]
    result = play(Slurm(settings=FINE), jobs, nodes(2, 2, pools=(("all",), ("all", "q"))))
    assert times(result) == [(0, 100), (100, 110), (30, 35)]


# A holds half of the node until its limit of 100. B needs all of it, so it is planned for 100.
HALF_AND_WHOLE = [job(0, 2, 100, 100), job(1, 4, 50, 50)]


@pytest.mark.parametrize(
    ("settings", "limit", "expected"),
    [
        (FINE, 60, [(0, 100), (100, 150), (30, 50)]),  # it would end at 90 at the latest: it passes
        (FINE, 75, [(0, 100), (100, 150), (150, 170)]),  # at 105: B would be late
        ({}, 60, [(0, 100), (100, 150), (150, 170)]),  # B's 100 counts as 60, by the resolution of a minute
        (FINE | {"bf_window": 1}, 75, [(0, 100), (100, 150), (30, 50)]),  # at 30, 100 is out of sight
        (FINE | {"bf_max_job_test": 1}, 60, [(0, 100), (100, 150), (150, 170)]),  # B alone is tested
        (FINE | {"SchedulerType": "sched/builtin"}, 60, [(0, 100), (100, 150), (150, 170)]),
        (FINE | {"bf_interval": 10}, 60, [(0, 100), (100, 150), (10, 30)]),
    ],
)
def test_backfill_delays_no_reservation(settings, limit, expected):
    result = play(Slurm(settings=settings), [*HALF_AND_WHOLE, job(2, 2, 20, limit)], nodes(4))
    assert times(result) == expected


@pytest.mark.parametrize(("reserves", "starts"), [(0, [0, 0, 100, 60, 140]), (1, [0, 0, 100, 140, 30])])
def test_conservative_backfill_keeps_every_start_and_easy_the_first(reserves, starts):
    """Jobs hold node 0 until 100, and 3 GPUs of node 1 until 60. At 30, B (both nodes) is planned for 100 and C (all of
    node 1, limit 35) for 60. D (1 GPU, limit 60) could run from 30 to 90: before B, but C would be late.
    """
    jobs = [job(0, 4, 100, 100), job(0, 3, 60, 60), job(1, 8, 40, 40), job(2, 4, 35, 35), job(3, 1, 60, 60)]
    result = play(Slurm(settings=FINE | {"bf_job_part_count_reserve": reserves}), jobs, nodes(4, 4))
    assert result.records["start_time"].tolist() == starts


@pytest.mark.parametrize(("ends", "start"), [("exact", 120), ("grouped", 30)])
def test_groups_of_ends_make_plans_later(ends, start):
    """A holds half of node 0 until 100, and B all of node 1 until 130. C needs a node: it is planned for 100 on node 0,
    or with B's end in one group with A's, for 130. So D, with a limit of 95, may start on node 0 at 30.
    """
    jobs = [job(0, 2, 100, 100), job(0, 4, 130, 130), job(1, 4, 20, 50), job(2, 2, 20, 95)]
    assert play(Slurm(settings=FINE, ends=ends), jobs, nodes(4, 4)).records["start_time"].tolist() == [0, 0, 100, start]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"PreemptType": "preempt/qos", "PreemptMode": "REQUEUE"}, [(0, 120), (10, 30)]),
        ({"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}, [(0, 120), (10, 30)]),
        ({"PreemptType": "preempt/qos", "PreemptMode": "OFF"}, [(0, 100), (100, 120)]),
        ({}, [(0, 100), (100, 120)]),
    ],
)
def test_preemption_by_qos_and_by_partition(settings, expected):
    """The second job may preempt the first one, which goes on when it is done."""
    scheduler = Slurm(
        settings=settings,
        partitions={"high": {"PriorityTier": 10}},
        qos={"urgent": {"Priority": 10, "Preempt": "normal"}, "normal": {}},
    )
    jobs = [job(0, 4, 100, pool="low", qos="normal"), job(10, 4, 20, pool="high", qos="urgent")]
    result = play(scheduler, jobs, nodes(4, pools=(("low", "high"),)))
    assert times(result) == expected
    assert scheduler.preemptive == (expected[0][1] == 120)


@pytest.mark.parametrize(("settings", "second"), [({}, 1), ({"SelectTypeParameters": "CR_Core_Memory,CR_LLN"}, 2)])
def test_nodes_of_low_weight_come_first_then_packed_or_least_loaded(tmp_path, settings, second):
    """H100 weighs 20 and A100 10: A100 is taken first, though H100 is the first node."""
    conf = tmp_path / "slurm.conf"
    conf.write_text("NodeName=h1 Gres=gpu:h100:4 Weight=20\nNodeName=a[1-2] Gres=gpu:a100:4 Weight=10\n")
    cluster = ClusterSpec(tuple(NodeSpec(name, 4) for name in ("H100", "A100", "A100")))
    jobs = [job(0, 2, 50), job(1, 1, 50), job(2, 6, 50), job(3, 4, 50)]
    result = play(Slurm(str(conf), settings=settings | {"SchedulerType": "sched/builtin"}), jobs, cluster)
    assert [places(result, each)[0][1] for each in (0, 1)] == [{1: 2}, {second: 1}]
    assert places(result, 2) == [(50, {1: 2, 2: 4} if second == 1 else {1: 4, 2: 2})]  # whole nodes first


def test_plans_know_that_an_exclusive_job_keeps_its_whole_node_until_it_ends():
    """Job 0 has node 0 for itself until 100, job 1 node 1 until 50. Job 2 needs both nodes: its plan says 100.

    Job 3 fits on node 1 at 50 but, by its limit, not before job 2.
    """
    alone = replace(job(0, 1, 100, 100.0), constraints=Constraints(exclusive=True))
    jobs = [alone, job(0, 4, 50, 50.0), job(1, 8, 10, 10.0), job(2, 4, 10, 60.0)]
    result = play(Slurm(settings=FINE), jobs, nodes(4, 4))
    assert result.records["start_time"].tolist() == [0, 0, 100, 110]


def test_a_job_on_two_nodes_waits_for_both():
    """Of the two nodes that job 1 needs, node 0 has free GPUs from 30 on. Job 2 is done by then, and may pass it."""
    spread = replace(job(1, 2, 10), constraints=Constraints(num_nodes=2))
    result = play(Slurm(settings={**FINE, "bf_interval": 1}), [job(0, 4, 30), spread, job(2, 1, 5, 5.0)], nodes(4, 2))
    assert result.records["start_time"].tolist() == [0, 30, 2]


MAINTENANCE = {"nodes": [0], "start": 100, "end": 200}


@pytest.mark.parametrize(
    ("limit", "starts"),
    [
        pytest.param(90, [0, 10], id="it ends before"),
        pytest.param(91, [0, 200], id="it may run into it"),
    ],
)
def test_jobs_that_may_still_run_when_a_reservation_begins_wait_until_it_ends(limit, starts):
    """One node of two GPUs, reserved from 100 to 200. The second job comes at 10, and neither pass starts it early."""
    jobs = [job(0, 1, 5, limit=50), job(10, 2, 20, limit=limit), job(500, 1, 1)]
    scheduler = Slurm(settings=FINE, reservations={"maintenance": MAINTENANCE})
    assert play(scheduler, jobs, nodes(2)).records["start_time"][:2].tolist() == starts


def test_shorter_jobs_and_other_nodes_are_used_before_a_reservation():
    """Node 0 is reserved: the long job, which comes first, takes node 1, and a short one node 0."""
    jobs = [job(0, 2, 150, limit=150), job(1, 2, 10, limit=60)]
    scheduler = Slurm(settings=FINE, reservations={"maintenance": MAINTENANCE})
    result = play(scheduler, jobs, nodes(2, 2))
    assert result.records["start_time"].tolist() == [0, 1]
    assert [places(result, each) for each in (0, 1)] == [[(0, {1: 2})], [(1, {0: 2})]]
    assert "reservation maintenance: 1 nodes, from 0.0277778 to 0.0555556 h" in scheduler.describe()


def test_a_reservation_beyond_the_window_of_plans_is_kept_free():
    """Plans look one minute ahead; the reservation begins after that, and within the limit of the job."""
    scheduler = Slurm(settings={**FINE, "bf_window": 1}, reservations={"maintenance": MAINTENANCE})
    jobs = [job(0, 2, 5, limit=1000), job(0, 1, 5, limit=99), job(500, 1, 1)]
    assert play(scheduler, jobs, nodes(2)).records["start_time"][:2].tolist() == [200, 0]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"nodes": [0], "start": 1}, "has nodes, start; give nodes, start and end"),
        ({"nodes": [], "start": 1, "end": 2}, "nodes is .*give numbers of nodes"),
        ({"nodes": [0], "start": 2, "end": 2}, "start is 2 and end 2; give seconds, the earlier one first"),
        ({"nodes": [5], "start": 1, "end": 2}, "there is no node 5; the cluster has 1, from 0 on"),
    ],
)
def test_a_wrong_reservation_is_named(row, said):
    with pytest.raises(MurmurationError, match=rf"scheduler.reservations.maintenance.*{said}"):
        play(Slurm(reservations={"maintenance": row}), [job(0, 1, 5)], nodes(2))
