"""Requirements on every scheduler of `conf/scheduler`."""

from dataclasses import replace
from functools import cache

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import DictConfig

from baselines.hesrpt import HeSrpt
from baselines.planner import RolloutPlanner
from envs.scheduling import Scheduler
from envs.simulation import EventKind, Information, RunResult, Scenario, Setup, Simulator, run_episode
from envs.types import JobSpec, MurmurationError
from envs.workloads import Workload
from murmuration.config.arguments import ORACLE_SCHEDULERS
from murmuration.config.choices import CONF
from murmuration.config.tables import read_choices
from tests.conformance.audit import check_run
from tests.conformance.worlds import CLUSTERS, Curved, scenarios, workloads

FILES = list(read_choices(CONF / "scheduler"))
NAMES = [name for name in FILES if name not in ORACLE_SCHEDULERS]


@cache
def composed() -> DictConfig:
    """All YAML files of `conf/scheduler` by name. Composing them takes far longer than building schedulers."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(overrides=[f"+scheduler@{name}={name}" for name in FILES])


# Planners try fewer candidates than by default, and ask one scheduler for proposals: a search takes the same paths.
ONE = [HeSrpt()]
SHORT: dict[str, dict[str, object]] = {
    "planner": {"rollouts": 4, "rounds": 5, "proposers": ONE},
    "oracle": {"planner": RolloutPlanner(rollouts=2, rounds=None, margin=0.0, proposers=ONE, restart_weight=1.0)},
}


def build(name: str) -> Scheduler:
    """Build a new scheduler from its YAML file, as the scripts do."""
    scheduler: Scheduler = instantiate(composed()[name], **SHORT.get(name, {}))
    return scheduler


SCHEDULERS = {name: build(name) for name in NAMES}
every_scheduler = pytest.mark.parametrize("name", NAMES)
clusters = st.sampled_from(sorted(CLUSTERS))


def run(name: str, workload: Workload, cluster: str, scenario: Scenario, seed: int = 0) -> RunResult:
    """One run. All runs use the same scheduler object, so `reset` must clear its state."""
    return run_episode(SCHEDULERS[name], Simulator(workload, Setup(CLUSTERS[cluster], Curved(), scenario), seed))


def test_there_are_schedulers():
    assert {
        "fifo",
        "fifo_backfill",
        "fifo_easy",
        "srtf",
        "srtf_gpu_time",
        "las",
        "tiresias",
        "random",
        "optimus",
    } <= set(NAMES)


@every_scheduler
def test_it_is_a_scheduler_and_declares_what_it_assumes(name):
    scheduler = SCHEDULERS[name]
    assert isinstance(scheduler, Scheduler)
    assert getattr(scheduler, "information", None) in ("none", "estimate")
    assert isinstance(getattr(scheduler, "preemptive", None), bool)
    assert isinstance(getattr(scheduler, "elastic", None), bool)


@every_scheduler
@settings(max_examples=8)
@given(data=st.data(), cluster=clusters, scenario=scenarios, seed=st.integers(0, 3))
def test_runs_are_valid_and_end(name, data, cluster, scenario, seed):
    """Capacity holds, every job finishes with exactly its work, and the log agrees with the declarations."""
    workload = data.draw(workloads(CLUSTERS[cluster]))
    result = run(name, workload, cluster, scenario, seed)
    check_run(result, Curved(), scenario)
    assert result.finished.all(), f"{name} left jobs {[int(job) for job in (~result.finished).nonzero()[0]]} unfinished"
    assert len(result.records) == len(workload)
    if not getattr(SCHEDULERS[name], "preemptive", True):
        assert not (result.log.events["kind"] == EventKind.STOP).any()
        assert not (result.log.events["kind"] == EventKind.RESIZE).any()
    if not getattr(SCHEDULERS[name], "elastic", True):
        for row, event in enumerate(result.log.events):
            if event["num_shares"]:
                assert result.log.placement(row).num_gpus == workload.jobs["num_gpus"][event["job"]]


@every_scheduler
@settings(max_examples=3)
@given(data=st.data(), cluster=clusters, scenario=scenarios, seed=st.integers(0, 3))
def test_the_same_seed_gives_the_same_run(name, data, cluster, scenario, seed):
    workload = data.draw(workloads(CLUSTERS[cluster]))
    first = run(name, workload, cluster, scenario, seed)
    again = run(name, workload, cluster, scenario, seed)
    assert first.log == again.log
    assert (
        run_episode(build(name), Simulator(workload, Setup(CLUSTERS[cluster], Curved(), scenario), seed)).log
        == first.log
    )


@every_scheduler
@settings(max_examples=3)
@given(data=st.data(), scenario=scenarios)
def test_names_and_tenants_change_nothing(name, data, scenario):
    workload = data.draw(workloads(CLUSTERS["mixed"]))
    renamed = Workload.of(
        [replace(job, name=f"z{len(workload) - job.id}", tenant=f"t{job.id % 2}") for job in workload]
    )
    assert run(name, renamed, "mixed", scenario).log == run(name, workload, "mixed", scenario).log


@every_scheduler
def test_an_idle_cluster_starts_a_job_at_once(name):
    """A job alone in the cluster starts at once: schedulers are work-conserving."""
    workload = lone_job()
    for cluster in CLUSTERS:
        assert run(name, workload, cluster, Scenario()).records["start_time"].tolist() == [2.0]


@every_scheduler
def test_without_information_it_runs_or_raises_a_one_line_error(name):
    """The declaration holds in both directions, and the message names the fix."""
    scenario = Scenario(information=Information("none"))
    if getattr(SCHEDULERS[name], "information", "none") == "none":
        assert run(name, queueing(), "homogeneous", scenario).finished.all()
        return
    with pytest.raises(MurmurationError) as error:
        run(name, queueing(), "homogeneous", scenario)
    assert "\n" not in str(error.value)
    scheduler = SCHEDULERS[name]
    assert type(getattr(scheduler, "inner", scheduler)).__name__ in str(error.value)
    assert "set scenario.information.work" in str(error.value)


@every_scheduler
@settings(max_examples=3)
@given(data=st.data(), scenario=scenarios, seed=st.integers(0, 3))
def test_estimates_are_enough(name, data, scenario, seed):
    """Runs with noisy estimates of the remaining work are valid."""
    workload = data.draw(workloads(CLUSTERS["mixed"]))
    guessed = replace(scenario, information=Information("estimate", error=1.0))
    result = run(name, workload, "mixed", guessed, seed)
    check_run(result, Curved(), guessed)
    assert result.finished.all()


@every_scheduler
def test_schedulers_do_not_change_the_view(name):
    """A scheduler that writes into the view's arrays would change the engine's state."""
    scheduler = SCHEDULERS[name]
    simulator = Simulator(queueing(), Setup(CLUSTERS["mixed"], Curved()))
    scheduler.reset(simulator.cluster, simulator.rng)
    for view in simulator.rounds():
        before = [
            view.free_gpus,
            view.num_gpus.copy(),
            view.submit_time.copy(),
            view.throughputs(0).copy(),
            view.queued,
        ]
        allocation = scheduler.schedule(view)
        after = [view.free_gpus, view.num_gpus, view.submit_time, view.throughputs(0), view.queued]
        assert all((one == other).all() for one, other in zip(before, after, strict=True))
        simulator.apply(allocation)


def lone_job() -> Workload:
    """One job of 3 GPUs at t = 2."""
    return Workload.of([job_of(2.0, 3, 10.0)])


def queueing() -> Workload:
    """Six jobs at once and two later ones, too many for either cluster."""
    return Workload.of([job_of(0.0 if i < 6 else 4.0, 1 + 2 * (i % 3), 30.0 + i) for i in range(8)])


def job_of(submit: float, gpus: int, work: float) -> JobSpec:
    """A rigid job."""
    return JobSpec(0, submit, gpus, work, "any")
