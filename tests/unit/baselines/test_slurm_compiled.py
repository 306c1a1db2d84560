"""Slurm's policy on crowded random clusters: the compiled form equals the plain one, and no rule is broken."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from baselines.slurm import Slurm
from envs.performance import IdealModel
from envs.simulation import EventKind, Information, RunResult, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, Constraints, JobSpec, MurmurationError, NodeSpec, name_of_nodes
from envs.workloads import Workload
from tests.conformance.constrained_worlds import check_log

SETTINGS = (
    {"PriorityWeightAge": 1000, "PriorityWeightFairshare": 2000, "PriorityCalcPeriod": 1, "bf_resolution": 7},
    {"PriorityWeightJobSize": 1000, "bf_interval": 3, "default_queue_depth": 2, "bf_max_job_test": 8},
    {"SelectTypeParameters": "CR_LLN", "bf_interval": 7, "bf_window": 5, "bf_max_job_user": 3, "bf_max_job_part": 9},
    {"PriorityWeightPartition": 100, "PriorityWeightQOS": 100, "bf_job_part_count_reserve": 2, "bf_resolution": 1},
    {"PriorityFlags": "NO_FAIR_TREE", "PriorityWeightFairshare": 9, "PriorityCalcPeriod": 2, "bf_interval": 10},
)
LIMITS: tuple[dict[str, object], ...] = (
    {},
    {"MaxTRESPU": "gres/gpu=2"},
    {"MaxJobsPA": 1, "GrpTRES": "cpu=9,gres/gpu=4"},
)
PARTITIONS = {"day": {"PriorityTier": 2, "MaxTime": "2:00:00"}, "night": {"PriorityJobFactor": 3, "Default": "YES"}}


def crowded(seed: int, jobs: int = 60) -> tuple[Slurm, Workload, Setup]:
    """Nodes of two types in two partitions, and users who overstate limits, with a queue for most of the time."""
    rng = np.random.default_rng(seed)
    pools = [("day",), ("day", "night"), ("night",)]
    shapes = [(name_of_nodes(("old", "new")[i % 2], pools[i % 3]), int(rng.choice([2, 4, 8]))) for i in range(3)]
    cluster = ClusterSpec(tuple(NodeSpec(*shapes[each]) for each in rng.integers(3, size=rng.integers(3, 40))))
    there = {pool for name in cluster.gpu_types for pool in ("day", "night") if pool in name}
    most = {pool: max(n.num_gpus for n in cluster.nodes if pool in n.gpu_type) for pool in there}
    specs = []
    for submit in np.sort(rng.exponential(400.0, jobs)):
        pool = str(rng.choice([*sorted(there), ""]))
        gpus = int(rng.choice([1, 1, 2, most.get(pool, 2)]))
        seconds = float(rng.exponential(300.0)) + 1.0
        limit = float(rng.choice([60.0, 600.0, 3600.0])) + seconds if rng.random() < 0.9 else np.inf
        where = Constraints(pools=(pool,) if pool else ())
        user, qos = f"u{rng.integers(5)}", str(rng.choice(["", "high"]))
        job = JobSpec(0, float(submit), gpus, gpus * seconds, "any", user=user, tenant=f"a{rng.integers(3)}")
        specs.append(
            replace(job, model="any", constraints=where, time_limit=limit, qos=qos, nice=float(rng.integers(9)))
        )
    whole = [s for s in range(0, jobs, 9) if not specs[s].constraints]
    for each in whole:  # over all nodes of the largest type
        counts = max(cluster.gpus_by_type.values())
        specs[each] = replace(specs[each], num_gpus=counts, min_gpus=counts, max_gpus=counts)
    levels = {"high": {"Priority": 5} | LIMITS[seed % len(LIMITS)]}
    scheduler = Slurm(settings=SETTINGS[seed % len(SETTINGS)], partitions=PARTITIONS, qos=levels)
    return scheduler, Workload.of(specs), Setup(cluster, IdealModel(), Scenario(restart_delay=0.0))


def both_ways(seed: int) -> RunResult | None:
    """Play compiled and plainly, assert that both agree; None if the world cannot be."""
    scheduler, workload, setup = crowded(seed)
    try:
        simulator = Simulator(workload, setup, seed)
    except MurmurationError:
        return None
    scheduler.reset(setup.cluster, simulator.rng)
    if not scheduler.play(simulator):
        return None
    compiled = simulator.result("slurm")
    plain = run_episode(scheduler, Simulator(workload, setup, seed), "slurm", compiled=False)
    assert compiled.log == plain.log, f"world {seed}"
    assert compiled.num_rounds == plain.num_rounds
    check_log(workload, setup.cluster, compiled.log)
    return compiled


@pytest.mark.parametrize("chunk", range(4))
def test_both_forms_agree_and_break_no_rule(chunk):
    """Of 10 worlds each; all jobs end, on the GPUs that they ask for, without preemption."""
    played = 0
    for seed in range(10 * chunk, 10 * chunk + 10):
        if (result := both_ways(seed)) is None:
            continue
        played += 1
        assert (result.finished | result.at_limit).all()
        for row, event in enumerate(result.log.events):
            assert event["kind"] not in (EventKind.STOP, EventKind.RESIZE)
            if event["kind"] == EventKind.START:
                placed = result.log.placement(row).gpus
                spec = result.workload.spec(int(event["job"]))
                assert sum(placed.values()) == spec.num_gpus
    assert played >= 3


def test_equal_jobs_keep_their_order():
    """Jobs that differ in nothing but their submission start in order of submission."""
    rng = np.random.default_rng(0)
    rows = [(float(at), int(rng.choice([1, 2, 4]))) for at in np.sort(rng.uniform(0, 300, 80))]
    jobs = [JobSpec(0, at, gpus, gpus * 50.0, "any", time_limit=90.0) for at, gpus in rows]
    cluster = ClusterSpec((NodeSpec("plain", 4), NodeSpec("plain", 4)))
    result = run_episode(Slurm(), Simulator(Workload.of(jobs), Setup(cluster, IdealModel(), Scenario())))
    starts = result.records["start_time"]
    for gpus in (1, 2, 4):
        alike = np.flatnonzero(result.workload.jobs["num_gpus"] == gpus)
        assert all(starts[a] <= starts[b] for a, b in itertools.pairwise(alike))


@pytest.mark.parametrize("work", ["exact", "estimate", "limit", "none"])
def test_it_reads_limits_and_the_clock_alone(work):
    scheduler, workload, setup = crowded(3)
    jobs = workload.jobs.copy()
    jobs["time_limit"][jobs["time_limit"] == 0] = 7000.0
    workload = replace(workload, jobs=jobs)
    logs = [
        run_episode(scheduler, Simulator(workload, replace(setup, scenario=Scenario(information=Information(each)))))
        for each in ("exact", work)
    ]
    assert logs[0].log == logs[1].log


@pytest.mark.parametrize(
    ("partition", "said"),
    [
        ({"MaxTime": 1}, r"job 0: asks for 600 s, but MaxTime of partition all is 60 s, so Slurm would never start it"),
        ({"MaxNodes": 1}, r"job 0: asks for 2 nodes, but MaxNodes of partition all is 1"),
    ],
)
@pytest.mark.parametrize("compiled", [True, False])
def test_a_job_beyond_its_partition_is_named(partition, said, compiled):
    scheduler = Slurm(partitions={"all": {"Default": "YES", **partition}})
    workload = Workload.of([JobSpec(0, 0.0, 8, 8.0, "any", time_limit=600.0)])
    cluster = ClusterSpec((NodeSpec("plain", 4), NodeSpec("plain", 4)))
    with pytest.raises(MurmurationError, match=said):
        run_episode(scheduler, Simulator(workload, Setup(cluster, IdealModel(), Scenario())), compiled=compiled)
