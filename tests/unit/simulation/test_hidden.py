"""A scheduler tries to read hidden work or the future, or to write, through the view and the snapshot, and fails."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from envs.performance import Contention, IdealModel
from envs.simulation import Failures, Information, Scenario, Setup, Simulator, Snapshot
from envs.simulation.reference import ReferenceSimulator
from envs.types import JobSpec, MurmurationError
from envs.workloads import Workload
from tests.unit.simulation.plays import cluster_of
from tests.unit.simulation.spy import arrays_of, from_view, reachable

CLUSTER = cluster_of(4, 4, 2)
SCENARIO = Scenario(
    start_delay=0.25,
    restart_delay=2.0,
    failures=Failures(mtbf=3e5, repair_time=777.7),
    contention=Contention("measured"),
    cpu_memory="shared",
    quotas={"a": 3},
)
SUBMITTED = [
    JobSpec(0, 0.0, 4, 1234.5678, "vgg16", tenant="a", name="first"),
    JobSpec(1, 2.0, 2, 8765.4321, "vgg16", tenant="b", name="second"),
    JobSpec(2, 5.0, 1, 4321.1234, "vgg16", tenant="a", name="third"),
    JobSpec(3, 5.0, 1, 0.4375, "vgg16", tenant="a", name="soon done"),
]
FUTURE = [JobSpec(4, 99.125, 4, 7777.125, "vgg16", tenant="b", name="later")]


def engine_at_seven(information: Information, jobs: list[JobSpec], seed: int = 5) -> Simulator:
    """At 7: jobs 0 and 1 run, 2 waits, 3 is done; the others are not submitted yet."""
    setup = Setup(CLUSTER, IdealModel(("vgg16",)), replace(SCENARIO, information=information))
    simulator = Simulator(Workload.of(jobs, "one"), setup, seed)
    acts: dict[float, dict[int, dict[int, int]]] = {0.0: {0: {0: 4}}, 2.0: {1: {1: 2}}, 5.0: {3: {2: 1}}}
    while simulator.advance():
        view = simulator.view
        if view.time > 5.0:
            return simulator
        allocation = view.allocation(keep_running=True)
        for job, gpus in acts[view.time].items():
            allocation.place(job, gpus)
        simulator.apply(allocation)
    raise AssertionError("job 3 does not end")


def roots(simulator: Simulator, through: str) -> list[Any]:
    """Where a scheduler begins: the view, and its answers; or a snapshot with its own view and these."""
    if through == "view":
        return from_view(simulator.view)
    snapshot = simulator.view.snapshot()
    return [snapshot, snapshot.rng, *from_view(snapshot.view), vars(snapshot.view._engine_side)]


THROUGH = pytest.mark.parametrize("through", ["view", "snapshot"])
HIDING = [Information("none"), Information("estimate", 0.5), Information("predicted")]


@THROUGH
@pytest.mark.parametrize("information", HIDING, ids=["none", "estimate", "predicted"])
def test_no_secret_is_in_anything_that_it_reaches(through, information):
    """Not the work, samples left or predicted end of a job, a draw of an estimate or failure, nor a future job."""
    simulator = engine_at_seven(information, SUBMITTED + FUTURE)
    state = simulator.state
    jobs, present = state.jobs[0], slice(0, 3)
    secrets = {
        *jobs["work"].tolist(),
        *jobs["remaining"][present].tolist(),
        *jobs["finish"][:2].tolist(),
        *jobs["saved"][present].tolist(),
        *(set(jobs["estimate"].tolist()) - {1.0}),
        *state.outages.ravel().tolist(),
        *state.nodes[0]["finish"].tolist(),
        FUTURE[0].submit_time,
    }
    if information.work == "predicted":
        secrets.discard(SUBMITTED[3].work)  # predictions tell how long ended jobs took
    assert len(secrets) > 190
    numbers, texts, arrays = set[float](), set[str](), 0
    for _, found in reachable(roots(simulator, through)):
        if isinstance(found, np.ndarray):
            arrays += 1
            numbers |= numbers_of(found)
        elif isinstance(found, (float, np.floating)):
            numbers.add(float(found))
        elif isinstance(found, str):
            texts.add(found)
    assert arrays > 10
    assert {0.25, 2.0, 5.0} <= numbers, "it does not look far enough"
    assert numbers & secrets == set()
    assert "later" not in texts


def numbers_of(array: np.ndarray[Any, Any]) -> set[float]:
    """All numbers in an array, also read as float64 wherever its bytes may be."""
    found = set[float]()
    if array.dtype.names:
        for name in array.dtype.names:
            found |= numbers_of(np.ascontiguousarray(array[name]))
    elif array.dtype.kind in "fiub":
        found |= set(array.astype(np.float64).ravel().tolist())
    return found


@THROUGH
def test_no_array_shares_memory_with_the_engine(through):
    simulator = engine_at_seven(Information("exact"), SUBMITTED + FUTURE)
    own = arrays_of(simulator.state, simulator.table)
    own["workload"] = simulator.workload.jobs
    count = 0
    for path, found in reachable(roots(simulator, through)):
        if isinstance(found, np.ndarray):
            count += 1
            for name, array in own.items():
                is_table = name.startswith("table.")
                assert is_table or not np.may_share_memory(found, array), f"{path} is {name}"
    assert count > 10


@THROUGH
def test_writing_to_all_that_it_reaches_changes_nothing(through):
    """It makes every array writable, if it can, and overwrites it."""
    simulator, untouched = (engine_at_seven(Information("exact"), SUBMITTED + FUTURE) for _ in range(2))
    own = arrays_of(simulator.state, simulator.table)
    before = {name: array.tobytes() for name, array in own.items()}
    jobs, nodes = simulator.workload.jobs.tobytes(), CLUSTER.node_gpus.tobytes() + CLUSTER.node_types.tobytes()
    written = 0
    for _, found in list(reachable(roots(simulator, through))):
        if isinstance(found, np.ndarray) and found.size:
            try:
                found.flags.writeable = True
                found.view(np.uint8)[...] = 77
                written += 1
            except (ValueError, TypeError):  # read-only to its base, or cannot be cut into bytes
                continue
        elif isinstance(found, dict):
            found.clear()
    assert written > 5, "it does not find the copies"
    assert {name: array.tobytes() for name, array in own.items()} == before
    assert simulator.workload.jobs.tobytes() == jobs
    assert CLUSTER.node_gpus.tobytes() + CLUSTER.node_types.tobytes() == nodes
    for engine in (simulator, untouched):
        while engine.advance():
            engine.apply(engine.view.allocation(keep_running=True))
    assert simulator.result("").log == untouched.result("").log


@THROUGH
def test_worlds_that_differ_only_in_what_is_hidden_look_alike(through):
    """Other work and other jobs later, in number too: every byte that it reaches is the same."""
    others = [replace(job, work=3.25 * job.work) if job.id < 3 else job for job in SUBMITTED]
    later = [replace(FUTURE[0], id=4 + i, submit_time=50.0 + i, work=5.0 + i) for i in range(100)]
    one, two = (engine_at_seven(Information("none"), jobs) for jobs in (SUBMITTED + FUTURE, others + later))
    one.state.episode["history"] = two.state.episode["history"]  # it numbers the episodes of a process
    assert contents(roots(one, through)) == contents(roots(two, through))


def contents(begin: list[Any]) -> dict[str, Any]:
    """All data by path; of bytes that hold aligned records, what lies between the zeros around them."""
    found: dict[str, Any] = {}
    for path, item in reachable(begin):
        if isinstance(item, np.ndarray) and item.dtype == np.uint8:
            found[path] = item.tobytes().strip(b"\0")
        elif isinstance(item, np.ndarray):
            found[path] = (item.shape, item.dtype.str, b"" if item.dtype.hasobject else item.tobytes())
        elif isinstance(item, (bool, int, float, str)):
            found[path] = repr(item)
    return found


def test_the_generator_of_a_scheduler_does_not_hold_the_seed():
    """From the seed follow estimates and failures."""
    for build in (Simulator, ReferenceSimulator):
        engine = build(Workload.of(SUBMITTED), Setup(CLUSTER, IdealModel(("vgg16",))), 123456789)
        fresh = np.random.default_rng(np.random.SeedSequence(123456789).spawn(3)[1])
        assert engine.rng.random(5).tolist() == fresh.random(5).tolist()
        assert "123456789" not in repr(engine.rng.bit_generator.seed_seq)


def test_hidden_work_is_endless_unless_the_caller_assumes_it():
    """Job 0 has 4 GPUs at 4 samples/s in all and ends 10 s later with 40 samples; NaN leaves job 1 endless."""
    simulator = engine_at_seven(Information("none"), SUBMITTED + FUTURE)
    endless = simulator.view.snapshot()
    assert np.isinf(endless.state.jobs["finish"][0, :3]).all()
    assert np.isnan(endless.view.remaining_work(np.arange(4))).all()
    snapshot = simulator.view.snapshot(np.array([40.0, np.nan, 40.0, np.nan]))
    snapshot.apply(snapshot.view.allocation(keep_running=True))
    began = snapshot.view.time
    assert snapshot.advance()
    assert snapshot.view.time == pytest.approx(began + 10.0)
    assert snapshot.view.running.tolist() == [1]


def test_estimates_become_the_truth_of_a_snapshot():
    simulator = engine_at_seven(Information("estimate", 0.5), SUBMITTED + FUTURE)
    view, jobs = simulator.view, np.arange(3)
    snapshot = view.snapshot()
    assert snapshot.view.remaining_work(jobs).tolist() == view.remaining_work(jobs).tolist()
    assert np.isnan(snapshot.view.job(0).work)
    left, throughput = view.remaining_work(jobs)[:2], snapshot.state.jobs["throughput"][0, :2]
    assert snapshot.state.jobs["finish"][0, :2].tolist() == (view.time + left / throughput).tolist()


def test_what_a_snapshot_refuses():
    simulator = engine_at_seven(Information("exact"), SUBMITTED)
    for wrong, message in (
        (np.zeros(3), r"remaining has shape \(3,\); give one for each of 4 jobs"),
        (np.array([1.0, -2.0, 1.0, 1.0]), "remaining of job 1 is -2 samples; give 0 or more, or NaN"),
    ):
        with pytest.raises(MurmurationError, match=message):
            simulator.view.snapshot(wrong)
    simulator.state.episode["num_touched"] = 1
    with pytest.raises(MurmurationError, match="1 jobs are changed already in this round"):
        simulator.view.snapshot()


def test_a_snapshot_of_another_episode_is_copied_whole():
    """Also into one that knew an episode with more jobs."""
    long = engine_at_seven(Information("exact"), SUBMITTED)
    kept = long.view.snapshot()
    setup = Setup(CLUSTER, IdealModel(("vgg16",)), SCENARIO)
    short = Simulator(Workload.of(SUBMITTED[1:2]), setup)
    assert short.advance()
    short.view.snapshot(into=kept)
    assert isinstance(kept, Snapshot)
    assert kept.view.num_gpus.tolist() == [2]
    assert [job.name for job in kept.workload] == ["second"]
    kept.apply(kept.view.allocation(keep_running=True))
    allocation = kept.view.allocation()
    allocation.place(0, {0: 2})
    kept.apply(allocation)
    assert not kept.advance()
    assert kept.result("").records["finish_time"].tolist() == pytest.approx([2.25 + 8765.4321 / 2])
