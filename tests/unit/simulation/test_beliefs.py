"""Throughputs that must be found out: what views show of them, when it changes, and that nothing else leads to them."""

from dataclasses import replace

import numpy as np
import pytest

from baselines import Optimus, Srtf, Starling
from baselines.parts.linear_gaussian import LinearGaussian
from envs.bidding import BiddingBatch
from envs.evaluation.compare import describe_settings
from envs.options import OptionBatch
from envs.performance import Contention, CostBySize, DrawnModel, TableModel, name_of_draw, without_draw
from envs.simulation import Information, Scenario, Setup, Simulator, run_episode
from envs.simulation.reference import ReferenceSimulator
from envs.types import (
    AllocationError,
    ClusterSpec,
    Configuration,
    JobSpec,
    MurmurationError,
    NodeSpec,
    PerformanceError,
    Placement,
)
from envs.workloads import Workload
from tests.unit.simulation.spy import from_view, reachable

CLUSTER = ClusterSpec(
    tuple(
        NodeSpec(name, 4, cpu_cores=24, memory=250.0, inter_node_bandwidth=1.25)
        for name in ("V100", "V100", "K80", "K80")
    ),
    "two types",
)
SCENARIO = Scenario(
    reconfiguration=CostBySize(),
    cpu_memory="shared",
    contention=Contention("measured"),
    batch_sizes="usual",
    information=Information(throughput="observed", stated_error=0.5),
)
MODELS = tuple(name_of_draw(name, 7) for name in ("resnet50", "bert", "vgg16"))
PERFORMANCE = DrawnModel()
SETUP = Setup(CLUSTER, PERFORMANCE, SCENARIO, LinearGaussian())
PAIRS = replace(SETUP, scenario=replace(SCENARIO, sharing="pairs", cpu_memory="unlimited"))
JOBS = Workload.of(
    [
        JobSpec(
            i,
            100.0 * i,
            1 + i % 4,
            3600.0 * PERFORMANCE.throughput(MODELS[i % 3], Configuration("V100", 1)),
            MODELS[i % 3],
            max_gpus=4,
        )
        for i in range(9)
    ]
)
ROW = int(JOBS.jobs["model"][0])  # of job 0


def begun(setup=SETUP, engine=Simulator, seed=3):
    """An engine in its first round, with job 0 submitted."""
    simulator = engine(JOBS, setup, seed)
    assert simulator.advance()
    return simulator


def place(simulator, job, gpus):
    allocation = simulator.view.allocation(keep_running=True)
    allocation.place(job, gpus)
    simulator.apply(allocation)


@pytest.mark.parametrize("make", [Srtf, Optimus, Starling])
@pytest.mark.parametrize("throughput", ["observed", "profiled"])
def test_both_engines_leave_the_same_log_in_the_full_model(make, throughput):
    information = replace(SCENARIO.information, throughput=throughput)
    setup = replace(SETUP, scenario=replace(SCENARIO, information=information))
    result = run_episode(make(), Simulator(JOBS, setup, 3))
    assert result.finished.all()
    assert run_episode(make(), ReferenceSimulator(JOBS, setup, 3)).log == result.log


def test_a_statement_is_all_that_is_known_of_a_job_that_has_not_run():
    """With no error, the stated throughput is right, and the others follow from the shapes of other models."""
    information = replace(SCENARIO.information, stated_error=0.0)
    simulator = begun(replace(SETUP, scenario=replace(SCENARIO, information=information)))
    truth, view = simulator.table.consolidated()[ROW], simulator.view
    stated = int(truth[:, 1].argmax())
    assert view.throughputs(0)[stated, 1] == pytest.approx(truth[stated, 1], rel=0.01)
    others = np.delete(view.throughputs(0)[:, 1:5].ravel(), stated * 4)
    assert (np.abs(np.log(others / np.delete(truth[:, 1:5].ravel(), stated * 4))) > 0.01).all()
    belief = view.belief(0, Configuration(CLUSTER.gpu_types[1 - stated], 4))
    assert belief.mean == view.throughput(0, Configuration(CLUSTER.gpu_types[1 - stated], 4))
    assert (belief.num_samples, belief.spread > 0.1) == (0, True)


def test_a_job_shows_its_throughput_once_it_has_made_progress():
    simulator = begun()
    on = CLUSTER.gpu_types.index("K80")
    node = int(np.flatnonzero(CLUSTER.node_types == on)[0])
    here = Configuration("K80", 2)
    before = simulator.view.belief(0, here)
    place(simulator, 0, {node: 2})
    assert simulator.view.belief(0, here) == before
    assert simulator.advance()  # job 1 is submitted at 100 s, after the start of job 0
    after, truth = simulator.view.belief(0, here), simulator.table.throughputs[ROW, on, 2, 0]
    assert (before.num_samples, after.num_samples) == (0, 1)
    assert after.spread < 0.5 * before.spread
    assert abs(np.log(after.mean / truth)) < 4 * SCENARIO.information.sample_error
    count = simulator.view.num_beliefs
    simulator.apply(simulator.view.allocation(keep_running=True))
    assert simulator.advance()
    assert simulator.view.belief(0, here).num_samples == 1, "a placement shows its throughput once"
    assert simulator.view.num_beliefs == count + 1, "job 2 was submitted, with a statement"


def test_all_schedulers_see_the_same_errors():
    """The error of a sample depends on the job and its placement, not on when it is taken or on other samples."""
    first, second = begun(), begun()
    place(first, 0, {0: 2})
    place(second, 0, {0: 4})
    for simulator in (first, second):
        assert simulator.advance()
    place(second, 0, {0: 2})
    for simulator in (first, second):
        while simulator.view.time < 400.0:
            simulator.apply(simulator.view.allocation(keep_running=True))
            assert simulator.advance()
    row = [simulator.beliefs._samples[ROW] for simulator in (first, second)]
    cell = (int(CLUSTER.node_types[0]), 2, 0)
    shown = [one.throughput[one.cells.index(cell, 1)] for one in row]
    assert shown[0] == shown[1]


def test_profiles_come_before_the_first_job_runs():
    information = replace(SCENARIO.information, throughput="profiled", profiles=3, sample_error=0.0)
    simulator = begun(replace(SETUP, scenario=replace(SCENARIO, information=information)))
    samples = simulator.beliefs._samples[ROW]
    measured = [cell for cell, stated in zip(samples.cells, samples.stated, strict=True) if not stated]
    assert measured == [(0, 1, 0), (1, 1, 0), (0, 4, 0)]
    for gpu_type, size, level in measured:
        belief = simulator.view.belief(0, Configuration(CLUSTER.gpu_types[gpu_type], size))
        assert belief.mean == pytest.approx(simulator.table.throughputs[ROW, gpu_type, size, level], rel=0.03)
        assert belief.num_samples == 1


def running_jobs(engine=Simulator, setup=SETUP):
    """An engine at 200 s: job 0 runs, jobs 1 and 2 have just been submitted, the others have not."""
    simulator = begun(setup, engine)
    place(simulator, 0, {0: 2})
    assert simulator.advance()
    simulator.apply(simulator.view.allocation(keep_running=True))
    assert simulator.advance()
    place(simulator, 1, {2: 2})
    return simulator


@pytest.mark.parametrize("setup", [SETUP, PAIRS], ids=["alone", "pairs"])
@pytest.mark.parametrize("through", ["view", "snapshot"])
def test_no_door_leads_to_the_truth(through, setup):
    """No true throughput or pair factor, no drawn name and no draw is in anything that a scheduler reaches."""
    simulator = running_jobs(setup=setup)
    view = simulator.view
    roots = from_view(view)
    roots += [view.belief(job, Configuration(name, 2)) for job in (0, 1, 2) for name in CLUSTER.gpu_types]
    roots += [view.throughput(job, Configuration(name, 2)) for job in (0, 1, 2) for name in CLUSTER.gpu_types]
    if through == "snapshot":
        snapshot = view.snapshot()
        behind = {name: part for name, part in vars(snapshot.view._engine_side).items() if name != "beliefs"}
        roots = [snapshot, snapshot.rng, *from_view(snapshot.view), behind]
    tables = simulator.table.throughputs, simulator.table.pair_factors
    secrets = set(np.unique(np.concatenate([table.ravel() for table in tables])).tolist())
    secrets -= {0.0, 1.0, CostBySize().warm_up_per_million}  # this setting happens to equal a factor
    numbers, texts = set[float](), set[str]()
    for _, found in reachable(roots):
        if isinstance(found, np.ndarray) and found.dtype.names:
            for name in found.dtype.names:
                if found[name].dtype.kind in "fiub":
                    numbers |= set(np.ascontiguousarray(found[name]).astype(np.float64).ravel().tolist())
        elif isinstance(found, np.ndarray) and found.dtype.kind in "fiub":
            numbers |= set(found.astype(np.float64).ravel().tolist())
        elif isinstance(found, float | np.floating):
            numbers.add(float(found))
        elif isinstance(found, str):
            texts.add(found)
    assert float(view.throughputs(0)[0, 1]) in numbers, "it does not look far enough"
    assert not numbers & secrets
    assert not any("~" in text for text in texts)


def test_a_copy_goes_on_at_believed_throughputs():
    simulator = running_jobs()
    snapshot = simulator.view.snapshot()
    job = snapshot.state.jobs[0, 0]
    believed = simulator.beliefs.table.throughputs[ROW, CLUSTER.node_types[0], 2, 0]
    assert job["ample"] == believed != simulator.state.jobs[0, 0]["ample"]
    assert snapshot.view.remaining_work(np.array([0])) == simulator.view.remaining_work(np.array([0]))
    assert job["finish"] == job["synced"] + job["remaining"] / job["throughput"]


def test_a_copy_is_the_same_in_both_engines():
    one, other = running_jobs().view.snapshot(), running_jobs(ReferenceSimulator).view.snapshot()
    for copy in (one, other):
        copy.apply(copy.view.allocation(keep_running=True))
        assert copy.advance()
    assert one.view.time == other.view.time
    assert one.view.running.tolist() == other.view.running.tolist()


@pytest.mark.parametrize("engine", [Simulator, ReferenceSimulator])
def test_a_placement_may_not_name_what_beliefs_do_not_cover(engine):
    simulator = begun(engine=engine)
    allocation = simulator.view.allocation(keep_running=True)
    allocation.place(0, Placement({0: 2}, cpus={0: 6.0}))
    with pytest.raises(AllocationError, match="job 0: throughputs are hidden"):
        simulator.apply(allocation)
    with pytest.raises(PerformanceError, match="name neither plan nor batch size, cores or memory"):
        simulator.view.throughput(0, Configuration("V100", 2, cpus_per_gpu=3.0))
    with pytest.raises(PerformanceError, match="GPU type 'H900' is unknown; known: V100, K80"):
        simulator.view.throughput(0, Configuration("H900", 2))


def test_where_nothing_is_hidden_beliefs_are_exact():
    view = begun(replace(SETUP, scenario=replace(SCENARIO, information=Information()))).view
    here = Configuration("V100", 2)
    assert view.belief(0, here) == (view.throughput(0, here), 0.0, 0)
    assert view.num_beliefs == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"throughput": "guessed"}, "information.throughput is 'guessed'; it must be exact, profiled or observed"),
        ({"stated_error": -0.1}, "information.stated_error is -0.1; it must not be negative"),
        ({"profiles": 0}, "information.profiles is 0; it must be at least 1"),
    ],
)
def test_wrong_information_is_refused(changes, message):
    with pytest.raises(MurmurationError, match=message):
        Information(**changes)


def test_the_environment_of_bids_refuses_what_it_cannot_hide():
    names = tuple(without_draw(name) for name in MODELS)
    with pytest.raises(MurmurationError, match="this environment cannot hide throughputs yet; train with env=options"):
        BiddingBatch(SETUP, names, len(JOBS))
    told = replace(SETUP, scenario=replace(SCENARIO, information=Information()))
    batch = BiddingBatch(told, names, len(JOBS))
    with pytest.raises(MurmurationError, match="its throughputs are drawn; this environment cannot play them yet"):
        batch.load(0, JOBS, np.random.default_rng(0))
    measured = OptionBatch(replace(told, performance=TableModel()), names, len(JOBS))
    with pytest.raises(MurmurationError, match="its throughputs are drawn; set performance=drawn"):
        measured.load(0, JOBS, np.random.default_rng(0))


def test_the_settings_of_a_comparison_name_the_estimator_where_it_counts():
    assert describe_settings([JOBS], SETUP, 0)["estimator"].startswith("LinearGaussian(type_spread=0.2")
    told = replace(SETUP, scenario=replace(SCENARIO, information=Information()))
    assert "estimator" not in describe_settings([JOBS], told, 0)


def test_hidden_throughputs_need_usual_batch_sizes():
    with pytest.raises(MurmurationError, match="beliefs are about usual batch sizes; set scenario.batch_sizes=usual"):
        Scenario(information=Information(throughput="observed"))
