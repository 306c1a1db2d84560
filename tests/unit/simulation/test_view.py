"""The view of a scheduler on either engine: what it shows and what it hides."""

import numpy as np
import pytest

from envs.performance import IdealModel
from envs.scheduling import ClusterView
from envs.simulation import Information, Scenario, Setup
from envs.types import ClusterSpec, Configuration, JobSpec, MurmurationError, NodeSpec, Placement
from envs.workloads import Workload
from tests.conformance.worlds import HETEROGENEOUS, Curved
from tests.unit.simulation.bench import Bench
from tests.unit.simulation.plays import Build, Engine, at_five, cluster_of, jobs_of

WORKLOAD = jobs_of((0, 4, 40), (2, 2, 60), (5, 1, 10), (90, 1, 10))


def rounds_of(build: Build, information: Information | None = None, seed: int = 0) -> tuple[Engine, ClusterView]:
    """At 5: job 0 runs on node 0 since 0, job 1 on node 1 since 2, job 2 waits, job 3 is not submitted yet."""
    scenario = Scenario(start_delay=1.0, restart_delay=2.0, information=information or Information())
    engine: Engine = build(WORKLOAD, Setup(cluster_of(4, 4), IdealModel(), scenario), seed)
    placed = {0.0: {0: {0: 4}}, 2.0: {1: {1: 2}}}
    for view in engine.rounds():
        if view.time == 5:
            return engine, view
        allocation = view.allocation(keep_running=True)
        for job, gpus in placed[view.time].items():
            allocation.place(job, gpus)
        engine.apply(allocation)
    raise AssertionError("no round at 5")


def test_a_view_shows_the_current_round(engine):
    _, view = rounds_of(engine)
    assert view.time == 5.0
    assert view.queued.tolist() == [2]
    assert view.running.tolist() == [0, 1]
    assert view.free_gpus.tolist() == [0, 2]
    assert view.submit_time.tolist() == [0.0, 2.0, 5.0]
    assert view.num_gpus.tolist() == view.min_gpus.tolist() == view.max_gpus.tolist() == [4, 2, 1]
    assert dict(view.placement(1).gpus) == {1: 2}
    assert (view.restart_delay == 2.0).all()


def test_all_shares_at_once(engine):
    """By job, then by node; no waiting jobs."""
    simulator, view = rounds_of(engine)
    assert view.shares.tolist() == [[0, 0, 4], [1, 1, 2]]
    simulator.apply(view.allocation())
    assert view.shares.shape == (0, 3)
    allocation = view.allocation()
    allocation.place(1, {0: 2})
    allocation.place(0, {1: 3, 0: 1})
    simulator.apply(allocation)
    assert view.shares.tolist() == [[0, 0, 1], [0, 1, 3], [1, 0, 2]]


def test_it_fulfils_the_protocol(engine):
    view: ClusterView = rounds_of(engine)[1]
    asked = [name for name in vars(ClusterView) if not name.startswith("_")]
    assert {"time", "queued", "throughputs", "allocation"} <= set(asked)
    assert [name for name in asked if not hasattr(view, name)] == []


def test_service_and_work_account_for_delays(engine):
    """Job 0 holds 4 GPUs for 5 s and has worked 4 s; job 1 holds 2 for 3 s and has worked 2 s; job 2 has nothing."""
    _, view = rounds_of(engine)
    jobs = np.array([0, 1, 2])
    assert view.attained_service(jobs).tolist() == [20.0, 6.0, 0.0]
    assert view.remaining_work(jobs).tolist() == [40 - 16.0, 60 - 4.0, 10.0]
    assert view.remaining_time(jobs).tolist() == [6.0, 28.0, 10.0]


def test_the_future_is_hidden(engine):
    """Job 3 arrives at 90: no array includes it, and a question about it is an error."""
    _, view = rounds_of(engine)
    for column in (view.num_gpus, view.min_gpus, view.max_gpus, view.submit_time):
        assert len(column) == 3
    for ask in (
        lambda: view.job(3),
        lambda: view.throughputs(3),
        lambda: view.most_nodes(3),
        lambda: view.remaining_work(np.array([0, 3])),
        lambda: view.remaining_time(np.array([3])),
        lambda: view.attained_service(np.array([3])),
        lambda: view.job(-1),
        lambda: view.allocation().pack(3),
    ):
        with pytest.raises(
            MurmurationError, match=r"job (3|-1) is not submitted at t = 5 s; the view shows jobs 0 to 2"
        ):
            ask()


def test_jobs_that_do_not_run_have_no_placement(engine):
    _, view = rounds_of(engine)
    for job in (2, 3, 99, -1):
        with pytest.raises(KeyError):
            view.placement(job)


def test_exact_information(engine):
    _, view = rounds_of(engine)
    assert view.job(1).work == 60.0
    assert view.job(1) == WORKLOAD.spec(1)


def test_no_information(engine):
    _, view = rounds_of(engine, Information("none"))
    jobs = np.array([0, 1, 2])
    assert np.isnan(view.remaining_work(jobs)).all()
    assert np.isnan(view.remaining_time(jobs)).all()
    assert np.isnan(view.job(1).work)
    assert view.attained_service(jobs).tolist() == [20.0, 6.0, 0.0]


def test_estimates_scale_the_work_of_each_job_by_one_factor(engine):
    """The factor is drawn once: the estimate falls in proportion, and the true work stays hidden."""
    simulator, view = rounds_of(engine, Information("estimate", error=0.5), seed=3)
    jobs = np.array([0, 1, 2])
    factor = view.remaining_work(jobs) / [24.0, 56.0, 10.0]
    assert (factor > 0).all()
    assert len(set(factor.tolist())) == 3
    assert not np.isclose(factor, 1.0).any()
    assert np.isnan(view.job(1).work)
    simulator.apply(view.allocation(keep_running=True))
    simulator.advance()  # job 0 is done at 11
    assert view.time == 11.0
    np.testing.assert_allclose(view.remaining_work(np.array([1])), factor[1] * 44.0)


def test_estimates_depend_only_on_the_seed(engine):
    jobs = np.array([0, 1, 2])
    same = [rounds_of(engine, Information("estimate"), seed)[1].remaining_work(jobs).tolist() for seed in (1, 1, 2)]
    assert same[0] == same[1] != same[2]


def test_estimates_have_the_stated_error(engine):
    """Logarithms of the factors: mean 0, standard deviation `error`; 4000 draws."""
    scenario = Scenario(information=Information("estimate", error=0.3))
    workload = jobs_of(*((0.0, 1, 10.0) for _ in range(4000)))
    simulator = engine(workload, Setup(cluster_of(4), IdealModel(), scenario))
    view = next(simulator.rounds())
    noise = np.log(view.remaining_work(np.arange(4000)) / 10.0)
    assert abs(noise.mean()) < 0.3 * 4 / np.sqrt(4000)
    assert noise.std() == pytest.approx(0.3, rel=0.1)


@pytest.mark.parametrize(
    ("build", "names"),
    [
        (lambda: Information("some"), ("information.work", "some", "exact, estimate, limit, predicted")),  # type: ignore[arg-type]
        (lambda: Information("estimate", -0.1), ("information.error", "-0.1")),
    ],
)
def test_invalid_information_is_refused(build, names):
    with pytest.raises(MurmurationError) as error:
        build()
    assert all(name in str(error.value) for name in names)


def test_throughputs_are_consolidated_and_by_type(engine):
    workload = Workload.of([JobSpec(0, 0, 2, 10, "large", min_gpus=1, max_gpus=6)])
    view = next(engine(workload, Setup(HETEROGENEOUS, Curved())).rounds())
    throughput = view.throughputs(0)
    assert throughput.shape == (3, 9)
    assert throughput[1, 4] == Curved().throughput("large", Configuration("new", 4))
    assert throughput[1, 6] == Curved().throughput("large", Configuration("new", 6, 2))
    assert throughput[2].tolist() == [0.0] * 9
    assert view.most_nodes(0).tolist() == [list(range(9)), list(range(9)), [0] * 9]


def test_packing_prefers_the_fastest_type_on_which_a_job_runs(engine):
    workload = Workload.of([JobSpec(i, 0, 2, 10, "large") for i in range(6)])
    view = next(engine(workload, Setup(HETEROGENEOUS, Curved())).rounds())
    allocation = view.allocation()
    places = []
    for job in range(6):
        assert allocation.pack(job)
        placement = allocation.placement(job)
        assert placement is not None
        places.append(dict(placement.gpus))
    # best fit: the small nodes of "new", then of "old"; never node 3, which is "small"
    assert places == [{2: 2}, {1: 2}, {1: 2}, {4: 2}, {0: 2}, {0: 2}]


def test_columns_of_the_view_cannot_be_written(engine):
    _, view = rounds_of(engine)
    with pytest.raises(ValueError, match="read-only"):
        view.num_gpus[0] = 8
    for shared in (view.tenant, view.guaranteed):  # all runs of the workload share these
        with pytest.raises(ValueError, match="read-only"):
            shared[0] = 1
    view.free_gpus[0] = 8  # a copy
    view.queued[:] = 7
    assert view.free_gpus.tolist() == [0, 2]
    assert view.queued.tolist() == [2]


def test_an_allocation_starts_empty_or_with_the_running_jobs(engine):
    _, view = rounds_of(engine)
    empty, keeping = view.allocation(), view.allocation(keep_running=True)
    assert empty.free_gpus.tolist() == [4, 4]
    assert empty.placement(0) is None
    assert keeping.free_gpus.tolist() == [0, 2]
    assert keeping.placement(0) == Placement({0: 4})
    empty.keep(0)
    assert empty.free_gpus.tolist() == [0, 4]


def test_a_round_with_an_elastic_job_and_a_slow_node(engine):
    """Job 0 (4 GPUs) has run for 5 s, job 1 (2 to 4 GPUs) waits and runs on no slow GPU, job 2 is not submitted yet."""
    view = at_five(engine).view
    assert (view.running.tolist(), view.queued.tolist()) == ([0], [1])
    assert view.num_gpus.tolist() == [4, 2]
    assert (view.min_gpus.tolist(), view.max_gpus.tolist()) == ([4, 2], [4, 4])
    assert view.submit_time.tolist() == [0.0, 5.0]
    assert view.capacity.tolist() == [4, 4, 2]
    assert view.attained_service(np.array([0, 1])).tolist() == [20.0, 0.0]
    assert view.remaining_work(np.array([1, 0])).tolist() == [40.0, 20.0]
    assert view.remaining_time(np.array([0])).tolist() == [5.0]
    assert view.placement(0) == Placement({0: 4})
    assert view.throughputs(1)[:, 2].tolist() == [2.0, 0.0]
    assert view.throughput(1, Configuration(view.cluster.gpu_types[0], 4, 2, batch_size=128)) == 4.0
    for ask in (view.job, view.throughputs):
        with pytest.raises(MurmurationError, match="job 2 is not submitted at t = 5 s"):
            ask(2)
    with pytest.raises(KeyError, match="job 1 is not running"):
        view.placement(1)


def test_tenants_and_quotas(engine):
    specs = [JobSpec(i, 0, 1, 1, "bert", tenant=name, guaranteed=i == 1) for i, name in enumerate(("a", "b"))]
    simulator = engine(Workload.of(specs), Setup(cluster_of(4, 4), Bench(), Scenario(quotas={"b": 3})))
    assert simulator.advance()
    assert simulator.view.tenant.tolist() == [0, 1]
    assert simulator.view.guaranteed.tolist() == [False, True]
    assert simulator.view.quotas.tolist() == [8, 3]


def test_allocations_prefer_the_fastest_type(engine):
    mixed = ClusterSpec((NodeSpec("slow", 4), NodeSpec("fast", 4)))
    simulator = engine(jobs_of((0, 4, 12), model="bert"), Setup(mixed, Bench()))
    assert simulator.advance()
    allocation = simulator.view.allocation()
    assert allocation.pack(0)
    assert not allocation.pack(0, gpu_types=[])
    assert allocation.placement(0) == Placement({1: 4})


@pytest.mark.parametrize("known", ["exact", "estimate", "none"])
def test_schedulers_see_exact_estimated_or_no_work(engine, known):
    """An estimate is the work times a factor drawn from the first child of the seed."""
    scenario = Scenario(information=Information(known))
    simulator = engine(jobs_of((0, 1, 50)), Setup(cluster_of(4, 4), Bench(), scenario), seed=4)
    assert simulator.advance()
    noise = np.random.default_rng(np.random.SeedSequence(4).spawn(3)[0]).standard_normal(1)[0]
    shown = {"exact": 50.0, "estimate": 50.0 * np.exp(0.3 * noise), "none": np.nan}[known]
    np.testing.assert_equal(simulator.view.remaining_work(np.array([0]))[0], shown)
    np.testing.assert_equal(simulator.view.job(0).work, 50.0 if known == "exact" else np.nan)
