"""Fixed properties of submitted jobs, looked up once per job."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.parts.scalability import AnalysedJobs, Analyser, fewest_nodes
from baselines.parts.submitted import SubmittedJobs
from envs.performance import EFFICIENCY_SETTINGS, EfficiencySetting, TableModel, batch_range, model_profile
from envs.scheduling import ClusterView
from envs.simulation import Scenario, Setup, Simulator
from envs.types import ClusterSpec, Configuration, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.conformance.worlds import HETEROGENEOUS, Curved


def rounds():
    """Yield rounds at which 2, 2 and then 4 jobs are known, of two models and three ranges; no job ever runs."""
    specs = [
        JobSpec(0, 0.0, 2, 9.0, "any"),
        JobSpec(1, 0.0, 4, 9.0, "large", min_gpus=3, max_gpus=7),
        JobSpec(2, 5.0, 4, 9.0, "any", min_gpus=1, max_gpus=5),
        JobSpec(3, 5.0, 1, 9.0, "large"),
    ]
    simulator = Simulator(Workload.of(specs), Setup(HETEROGENEOUS, Curved()))
    for view in simulator.rounds():
        yield view
        simulator.apply(view.allocation())


def test_arrays_equal_the_view_for_each_job():
    submitted = SubmittedJobs()
    known = set()
    for view in rounds():
        submitted.look_up(view)
        known.add(len(submitted.table))
        jobs = np.arange(len(view.num_gpus))
        throughput = submitted.throughput(view, jobs)
        for job in jobs.tolist():
            least, most = int(view.min_gpus[job]), int(view.max_gpus[job])
            assert (throughput[job, :, least : most + 1] == view.throughputs(job)[:, least : most + 1]).all()
            assert not throughput[job, :, :least].any()
            assert not throughput[job, :, most + 1 :].any()
            for gpu_type in range(len(HETEROGENEOUS.gpu_types)):
                sizes = np.flatnonzero(throughput[job, gpu_type])
                assert submitted.least[job, gpu_type] == (sizes[0] if sizes.size else 0)
                assert (
                    submitted.throughput_at_least[job, gpu_type]
                    == throughput[job, gpu_type, submitted.least[job, gpu_type]]
                )
    assert known == {2, 4}


def test_jobs_of_one_model_share_a_table():
    submitted = SubmittedJobs()
    for view in rounds():
        submitted.look_up(view)
    assert submitted.table.tolist() == [0, 1, 0, 1]
    assert len(submitted.throughputs) == 2


V100_AND_K80 = ClusterSpec((NodeSpec("V100", 4), NodeSpec("V100", 4), NodeSpec("K80", 8), NodeSpec("V100", 8)))
GAVEL = ("resnet18", "resnet50", "transformer", "lm", "recommendation")


def drawn_jobs(seed: int) -> list[JobSpec]:
    """Draw jobs of Gavel's models, some elastic, half of them with their own batch range."""
    rng = np.random.default_rng(seed)
    specs = []
    for i in range(6):
        model = str(rng.choice(GAVEL))
        profile, gpus = model_profile(model), int(rng.integers(1, 9))
        own = np.sort(rng.integers(profile.min_batch, profile.max_batch + 1, 2)).tolist() if i % 2 else (0, 0)
        least, most = (1, int(rng.integers(gpus, 17))) if rng.random() < 0.6 else (gpus, gpus)
        specs.append(JobSpec(i, 0.0, gpus, 9.0, model, least, most, *own))
    return specs


def round_of(
    specs: list[JobSpec], cluster: ClusterSpec = V100_AND_K80, setting: EfficiencySetting = "every_sample"
) -> ClusterView:
    """Return the first round of these jobs, by the throughput tables of the zoo."""
    scenario = Scenario(statistical_efficiency=setting)
    return next(Simulator(Workload.of(specs), Setup(cluster, TableModel(), scenario)).rounds())


def at_best(view: ClusterView, measured_only: bool = True) -> SubmittedJobs:
    """Look up the jobs with best batch sizes."""
    submitted = SubmittedJobs(AnalysedJobs(Analyser("best", measured_only), view.cluster))
    submitted.look_up(view)
    return submitted


@settings(max_examples=15)  # each looks up some hundred throughputs one by one
@given(seed=st.integers(0, 10_000), measured_only=st.booleans(), setting=st.sampled_from(EFFICIENCY_SETTINGS))
def test_the_best_batch_is_the_faster_of_the_usual_and_the_analysers(seed, measured_only, setting):
    """For each size, a named batch gives the throughput in the table, is in the job's range and beats the usual batch
    if that is in the range. Where none is named, the world's throughput is used.
    """
    view = round_of(drawn_jobs(seed), setting=setting)
    submitted, nodes = at_best(view, measured_only), fewest_nodes(view.cluster)
    for job in range(len(view.num_gpus)):
        spec, usual = view.job(job), view.throughputs(job)
        low, high = batch_range(spec.model, spec.min_batch, spec.max_batch) or (0, 0)
        throughputs = submitted.throughput(view, np.array([job]))[0]
        for type_index, size in np.argwhere(throughputs > 0).tolist():
            world = model_profile(spec.model).usual_batch(size)
            batch = submitted.batch(job, type_index, size)
            if batch is None:
                assert throughputs[type_index, size] == usual[type_index, size]
                offered = view.batch_range(job, view.cluster.gpu_types[type_index], size)
                nothing_else = not submitted.batches[submitted.table[job]].any() or offered is None
                assert low <= world <= high or nothing_else
            else:
                assert low <= batch <= high
                gpu_type = view.cluster.gpu_types[type_index]
                asked = view.goodput(job, Configuration(gpu_type, size, int(nodes[type_index, size]), batch_size=batch))
                assert throughputs[type_index, size] == asked
                assert throughputs[type_index, size] > usual[type_index, size] or not low <= world <= high
                assert batch != world or not low <= world <= high


@given(seed=st.integers(0, 10_000))
def test_a_range_of_the_usual_batch_alone_changes_nothing(seed):
    """Jobs that keep their GPUs and their batch size have the tables that the view has."""
    specs = [
        replace(spec, min_gpus=spec.num_gpus, max_gpus=spec.num_gpus, min_batch=usual, max_batch=usual)
        for spec in drawn_jobs(seed)
        for usual in [model_profile(spec.model).usual_batch(spec.num_gpus)]
    ]
    view = round_of(specs)
    submitted, plain = at_best(view), SubmittedJobs()
    plain.look_up(view)
    everybody = np.arange(len(specs))
    assert (submitted.throughput(view, everybody) == plain.throughput(view, everybody)).all()
    for job, gpu_type in np.ndindex(len(specs), len(view.cluster.gpu_types)):
        assert submitted.batch(job, gpu_type, specs[job].num_gpus) is None


def test_models_without_a_range_are_left_to_the_world():
    """Their exact throughput on three nodes is not in the tables (1, 2 and 4 nodes); the tables are used."""
    specs = [JobSpec(0, 0.0, 12, 9.0, "any", min_gpus=1, max_gpus=12)]
    view = next(Simulator(Workload.of(specs), Setup(HETEROGENEOUS, Curved())).rounds())
    submitted = at_best(view)
    assert (submitted.throughputs[submitted.table[0]] == view.throughputs(0)).all()
    assert not submitted.batches.any()


def test_types_are_ranked_by_throughput_at_best_batch():
    """On V100s a job of 4 GPUs is faster than on K80s, whatever the batch."""
    view = round_of([JobSpec(0, 0.0, 4, 9.0, "resnet18")])
    submitted = at_best(view)
    assert submitted.fastest_first(0, 4) == [view.cluster.gpu_types.index(gpu_type) for gpu_type in ("V100", "K80")]
