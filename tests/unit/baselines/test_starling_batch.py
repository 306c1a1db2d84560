"""Starling that chooses batch sizes: what it names, what it leaves alone, and that the engine's books agree."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines import Starling
from baselines.parts.scalability import batch_range, most_per_gpu
from envs.performance import TableModel, model_profile
from envs.simulation import EventKind, Information, RunResult, Scenario, Simulator, run_episode
from envs.simulation.scenario import Failures
from envs.types import ClusterSpec, JobSpec, MurmurationError, NodeSpec, Placement, Seconds
from envs.workloads import Workload
from tests.conformance.audit import check_capacity, check_order, check_service, speed

TYPES = ClusterSpec((NodeSpec("V100", 4), NodeSpec("K80", 4), NodeSpec("V100", 4), NodeSpec("P100", 2)), "three types")
ZOO = TableModel()
seeds = st.integers(0, 10_000)


def drawn(seed: int, own_ranges: bool = True) -> Workload:
    """Up to 14 jobs of Gavel's models, some elastic, some with a batch range of their own, too many at once."""
    rng = np.random.default_rng(seed)
    specs = []
    for i in range(int(rng.integers(1, 15))):
        model = str(rng.choice(["resnet18", "resnet50", "transformer", "lm", "recommendation"]))
        profile, gpus = model_profile(model), int(rng.integers(1, 9))
        own = (0, 0)
        if own_ranges and rng.random() < 0.4:
            low, high = np.sort(rng.integers(profile.min_batch, profile.max_batch + 1, 2)).tolist()
            own = (low, high)
        elastic = (int(rng.integers(1, gpus + 1)), int(rng.integers(gpus, 11))) if rng.random() < 0.6 else (0, 0)
        submit = float(rng.choice([0.0, 1.0, 50.0, 300.0]))
        specs.append(JobSpec(i, submit, gpus, float(rng.integers(1_000, 2_000_000)), model, *elastic, *own))
    return Workload.of(sorted(specs, key=lambda job: job.submit_time))


def played(
    workload: Workload, *, batch: str = "best", scenario: Scenario | None = None, **options: object
) -> RunResult:
    """One run on eight V100, four K80 and two P100."""
    scheduler = Starling(batch=batch, **options)  # type: ignore[arg-type]
    return run_episode(scheduler, Simulator(workload, TYPES, ZOO, scenario or Scenario(restart_delay=20.0)))


def stays(result: RunResult, job: int) -> Iterator[tuple[Seconds, Seconds, Placement]]:
    """(from, to, placement) of a job while it holds GPUs."""
    rows = np.flatnonzero(result.log.events["job"] == job)
    for row, after in pairwise(rows):
        if result.log.events["kind"][row] in (EventKind.START, EventKind.RESIZE):
            yield *result.log.events["time"][[row, after]].tolist(), result.log.placement(int(row))


def speed_at(model: str, placement: Placement) -> float:
    """Samples/s of a placement: of the performance model itself where a batch size is named, else of the tables."""
    if placement.batch_size is None:
        return speed(ZOO, TYPES, model, dict(placement.gpus))
    kinds = {TYPES.nodes[node].gpu_type for node in placement.gpus}
    assert len(kinds) == 1, "gangs over several types run at the usual batch size"
    return ZOO.throughput(model, kinds.pop(), placement.num_gpus, len(placement.gpus), batch_size=placement.batch_size)


@given(seed=seeds, look_ahead=st.sampled_from([0, 5]), measured_only=st.booleans())
def test_books_balance(seed, look_ahead, measured_only):
    """Capacity holds, all jobs end, and each has done exactly its samples at the speeds of the batch sizes named."""
    result = played(drawn(seed), look_ahead=look_ahead, measured_only=measured_only)
    check_order(result)
    check_capacity(result)
    check_service(result)
    assert result.finished.all()
    for record in result:
        done = 0.0
        for number, (begin, end, placement) in enumerate(stays(result, record.job.id)):
            done += max(end - begin - 20.0 * (number > 0), 0.0) * speed_at(record.job.model, placement)
        np.testing.assert_allclose(done, record.job.work, rtol=1e-9, atol=1e-6)


@given(seed=seeds)
def test_what_it_names(seed):
    """Batch sizes are of the job's range, no larger than measured, faster than the usual one unless the job excludes
    that; and nobody changes the batch size alone.
    """
    workload = drawn(seed)
    result = played(workload)
    for spec in workload:
        before: Placement | None = None
        for _, _, placement in stays(result, spec.id):
            assert before is None or before.gpus != placement.gpus or before.batch_size == placement.batch_size
            before = placement
            if batch := placement.batch_size:
                low, high = batch_range(spec) or (0, 0)
                assert low <= batch <= high
                kind = TYPES.nodes[min(placement.gpus)].gpu_type
                assert batch <= most_per_gpu(spec.model, kind) * placement.num_gpus
                usual = model_profile(spec.model).usual_batch(placement.num_gpus)
                faster = speed_at(spec.model, placement) > speed_at(spec.model, replace(placement, batch_size=None))
                assert faster or not low <= usual <= high


@given(seed=seeds, information=st.sampled_from([Information("none"), Information("estimate", error=0.5)]))
def test_it_runs_on_what_is_known(seed, information):
    """Hidden and estimated work: all jobs end, and batch sizes are named."""
    workload = drawn(seed, own_ranges=False)
    result = played(workload, scenario=Scenario(restart_delay=20.0, information=information))
    check_order(result)
    check_capacity(result)
    assert result.finished.all()


@pytest.mark.parametrize("seed", range(5))
def test_nodes_that_fail(seed):
    """What a failed node threw out comes back at its batch size."""
    failures = Failures(mtbf=3000.0, repair_time=200.0)
    result = played(drawn(seed, own_ranges=False), scenario=Scenario(restart_delay=20.0, failures=failures))
    assert result.finished.all()
    assert (result.log.events["batch_size"] > 0).any()


@given(seed=seeds)
def test_nothing_to_choose_nothing_different(seed):
    """Jobs that keep their GPUs and exactly the usual batch size run as under Starling without batch sizes."""
    specs = [
        replace(job, min_gpus=job.num_gpus, max_gpus=job.num_gpus, min_batch=usual, max_batch=usual)
        for job in drawn(seed)
        for usual in [model_profile(job.model).usual_batch(job.num_gpus)]
    ]
    workload = Workload.of(specs)
    assert played(workload).log == played(workload, batch="usual").log


def test_one_scheduler_plays_on_several_clusters():
    """What it knows of jobs belongs to an episode and its cluster."""
    small = ClusterSpec((NodeSpec("K80", 8),))
    workload = Workload.of([JobSpec(i, 0.0, 2, 1e5, "resnet18", 1, 8) for i in range(3)])
    scheduler = Starling(batch="best")
    runs = [run_episode(scheduler, Simulator(workload, cluster, ZOO)) for cluster in (TYPES, small, TYPES)]
    assert runs[0].log == runs[2].log
    assert runs[1].log == run_episode(Starling(batch="best"), Simulator(workload, small, ZOO)).log


def test_it_knows_two_words_for_batches():
    with pytest.raises(MurmurationError, match="Starling: batch is 'most'; it must be usual or best"):
        Starling(batch="most")  # type: ignore[arg-type]
