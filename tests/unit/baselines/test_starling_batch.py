"""Starling with batch sizes: the sizes that it names, the sizes that it leaves to the world, and work done."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Starling
from baselines.parts.scalability import most_per_gpu
from envs.performance import (
    EFFICIENCY_SETTINGS,
    EfficiencySetting,
    TableModel,
    batch_range,
    model_profile,
    noise_scales,
)
from envs.simulation import EventKind, Information, RunResult, Scenario, Setup, Simulator, run_episode
from envs.simulation.scenario import Failures
from envs.types import ClusterSpec, Configuration, JobSpec, MurmurationError, NodeSpec, Placement, Seconds
from envs.workloads import Workload
from tests.conformance.audit import check_capacity, check_order, check_service, throughput_of

TYPES = ClusterSpec((NodeSpec("V100", 4), NodeSpec("K80", 4), NodeSpec("V100", 4), NodeSpec("P100", 2)), "three types")
ZOO = TableModel()
seeds = st.integers(0, 10_000)


def drawn(seed: int, own_ranges: bool = True) -> Workload:
    """Draw up to 14 jobs of Gavel's models, some elastic, some with their own batch range, too many at once."""
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
    """Play one run on eight V100, four K80 and two P100."""
    scheduler = Starling(batch=batch, **options)  # type: ignore[arg-type]
    return run_episode(scheduler, Simulator(workload, Setup(TYPES, ZOO, scenario or rules())))


def rules(setting: EfficiencySetting = "every_sample", **changes: Any) -> Scenario:
    """Restarts of 20 s; every sample counts alike unless set."""
    return Scenario(restart_delay=20.0, statistical_efficiency=setting, **changes)


def stays(result: RunResult, job: int) -> Iterator[tuple[Seconds, Seconds, Placement]]:
    """Yield (from, to, placement) of a job while it holds GPUs."""
    rows = np.flatnonzero(result.log.events["job"] == job)
    for row, after in pairwise(rows):
        if result.log.events["kind"][row] in (EventKind.START, EventKind.RESIZE):
            yield *result.log.events["time"][[row, after]].tolist(), result.log.placement(int(row))


def throughput_at(model: str, placement: Placement, setting: EfficiencySetting = "every_sample") -> float:
    """Return useful samples/s of a placement: by the performance model if it names a batch, else by the tables."""
    if placement.batch_size is None:
        return throughput_of(ZOO, TYPES, model, dict(placement.gpus))
    gpu_types = {TYPES.nodes[node].gpu_type for node in placement.gpus}
    assert len(gpu_types) == 1, "gangs over several types run at the usual batch size"
    throughput = ZOO.throughput(
        model, Configuration(gpu_types.pop(), placement.num_gpus, len(placement.gpus), batch_size=placement.batch_size)
    )
    if setting == "every_sample":
        return throughput
    noise, profile = noise_scales().get(model), model_profile(model)
    phi = profile.max_batch if noise is None else noise.noise_scale
    return throughput * (phi + profile.usual_batch(placement.num_gpus)) / (phi + placement.batch_size)


@settings(max_examples=20)
@given(
    seed=seeds,
    look_ahead=st.sampled_from([0, 5]),
    measured_only=st.booleans(),
    setting=st.sampled_from(EFFICIENCY_SETTINGS),
)
def test_every_job_does_exactly_its_work(seed, look_ahead, measured_only, setting):
    """Capacity holds, all jobs end, and each did exactly its useful samples at the batch sizes named."""
    result = played(drawn(seed), look_ahead=look_ahead, measured_only=measured_only, scenario=rules(setting))
    check_order(result)
    check_capacity(result)
    check_service(result)
    assert result.finished.all()
    for record in result:
        done = 0.0
        for number, (begin, end, placement) in enumerate(stays(result, record.job.id)):
            done += max(end - begin - 20.0 * (number > 0), 0.0) * throughput_at(record.job.model, placement, setting)
        np.testing.assert_allclose(done, record.job.work, rtol=1e-9, atol=1e-6)


@settings(max_examples=20)
@given(seed=seeds, setting=st.sampled_from(EFFICIENCY_SETTINGS))
def test_named_batch_sizes_are_valid_and_faster(seed, setting):
    """Batch sizes are in the job's range, at most those measured, and faster than the usual one unless the job excludes
    that; the batch size never changes alone.
    """
    workload = drawn(seed)
    result = played(workload, scenario=rules(setting))
    for spec in workload:
        before: Placement | None = None
        for _, _, placement in stays(result, spec.id):
            assert before is None or before.gpus != placement.gpus or before.batch_size == placement.batch_size
            before = placement
            if batch := placement.batch_size:
                low, high = batch_range(spec.model, spec.min_batch, spec.max_batch) or (0, 0)
                assert low <= batch <= high
                gpu_type = TYPES.nodes[min(placement.gpus)].gpu_type
                assert batch <= most_per_gpu(spec.model, gpu_type) * placement.num_gpus
                usual = model_profile(spec.model).usual_batch(placement.num_gpus)
                faster = throughput_at(spec.model, placement, setting) > throughput_at(
                    spec.model, replace(placement, batch_size=None)
                )
                assert faster or not low <= usual <= high


@settings(max_examples=20)
@given(seed=seeds, information=st.sampled_from([Information("none"), Information("estimate", error=0.5)]))
def test_it_runs_with_hidden_and_estimated_work(seed, information):
    """Hidden and estimated work: all jobs end, and batch sizes are named."""
    workload = drawn(seed, own_ranges=False)
    result = played(workload, scenario=rules(information=information))
    check_order(result)
    check_capacity(result)
    assert result.finished.all()


@pytest.mark.parametrize("seed", range(2))
def test_jobs_restart_at_their_batch_after_a_node_failure(seed):
    """A job that a failed node stopped restarts at its batch size."""
    failures = Failures(mtbf=3000.0, repair_time=200.0)
    result = played(drawn(seed, own_ranges=False), scenario=rules(failures=failures))
    assert result.finished.all()
    assert (result.log.events["batch_size"] > 0).any()


@settings(max_examples=20)
@given(seed=seeds)
def test_without_a_choice_of_batch_the_run_is_the_same(seed):
    """Jobs that keep their GPUs and exactly the usual batch size run as under Starling without batch sizes."""
    specs = [
        replace(job, min_gpus=job.num_gpus, max_gpus=job.num_gpus, min_batch=usual, max_batch=usual)
        for job in drawn(seed)
        for usual in [model_profile(job.model).usual_batch(job.num_gpus)]
    ]
    workload = Workload.of(specs)
    assert played(workload).log == played(workload, batch="usual").log


def test_one_scheduler_plays_on_several_clusters():
    """The scheduler's data about jobs belong to one episode and its cluster."""
    small = ClusterSpec((NodeSpec("K80", 8),))
    workload = Workload.of([JobSpec(i, 0.0, 2, 1e5, "resnet18", 1, 8) for i in range(3)])
    scheduler = Starling(batch="best")
    runs = [
        run_episode(scheduler, Simulator(workload, Setup(cluster, ZOO, rules()))) for cluster in (TYPES, small, TYPES)
    ]
    assert runs[0].log == runs[2].log
    assert runs[1].log == run_episode(Starling(batch="best"), Simulator(workload, Setup(small, ZOO, rules()))).log


def test_an_unknown_batch_option_is_refused():
    with pytest.raises(MurmurationError, match="Starling: batch is 'most'; it must be usual or best"):
        Starling(batch="most")  # type: ignore[arg-type]
