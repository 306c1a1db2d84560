"""Properties of every run of Rubick: guarantees, capacity, completion, and independence of job names."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Rubick, RubickArtifact
from baselines.rubick.curves import meets
from envs.performance import Contention, RubickModel
from envs.simulation import EventKind, Rounds, Scenario, Setup, Simulator, run_episode
from envs.simulation.scenario import Failures
from envs.types import ClusterSpec, Configuration, ExecutionPlan, JobSpec, MurmurationError, NodeSpec
from envs.workloads import Workload
from tests.conformance.audit import check_capacity, check_order, check_service
from tests.unit.baselines.rubick_worlds import MODELS, Names, Told, nodes

CLUSTER = nodes(4, 4, 4)
A800 = ClusterSpec(tuple(NodeSpec("A800", 8, 96, 1600, 200.0, 100.0) for _ in range(2)))


@st.composite
def workloads(draw):
    """Up to nine jobs of the models of `Told`, of two tenants, some guaranteed, some with plans."""
    specs = []
    for _ in range(draw(st.integers(1, 9))):
        model = draw(st.sampled_from(sorted(MODELS)))
        smallest = min(MODELS[model])
        gpus = draw(st.integers(smallest, 8))
        least = draw(st.sampled_from([smallest, gpus]))
        specs.append(
            JobSpec(
                0,
                draw(st.sampled_from([0.0, 0.5, 3.0, 20.0])),
                gpus,
                draw(st.floats(0.5, 150.0)),
                model,
                least,
                draw(st.sampled_from([gpus, 8])),
                plan=draw(st.sampled_from([None, ExecutionPlan(data=gpus)])),
                guaranteed=draw(st.booleans()),
                tenant=draw(st.sampled_from("ab")),
            )
        )
    return Workload.of(specs)


scenarios = st.builds(
    Scenario,
    start_delay=st.sampled_from([0.0, 0.5]),
    restart_delay=st.sampled_from([0.0, 1.5]),
    rounds=st.builds(Rounds, on_events=st.booleans(), interval=st.sampled_from([1.0, 5.0])),
    quotas=st.sampled_from([{}, {"a": 4}, {"a": 0, "b": 8}]),
)
schedulers = st.builds(
    Rubick,
    st.sampled_from([None, Names(), Names(("whole", "gang"))]),
    plans=st.booleans(),
    resources=st.booleans(),
    slack=st.sampled_from([1.0, 1.5]),
    gate=st.sampled_from([0.0, 0.9]),
    patience=st.sampled_from([0.0, 4.0, 1800.0]),
)


def run(scheduler, workload, scenario, world=None, cluster=CLUSTER):
    """One run."""
    return run_episode(scheduler, Simulator(workload, Setup(cluster, world or Told(apart=0.75), scenario)))


def held(result, job):
    """Placements of a job in the order of its events."""
    events = result.log.events
    rows = np.flatnonzero((events["job"] == job) & np.isin(events["kind"], (EventKind.START, EventKind.RESIZE)))
    return [result.log.placement(int(row)) for row in rows]


def throughput_of(world, spec, place):
    """Samples/s; without a plan, for a node count of the engine's tables."""
    count = len(place.gpus) if place.plan else min(1 << (len(place.gpus) - 1).bit_length(), place.num_gpus)
    return world.throughput(spec.model, Configuration("plain", place.num_gpus, count, plan=place.plan))


def promised(world, spec, slack):
    """Samples/s of the user's plan on the requested GPUs, eased by `slack`."""
    nodes_needed = -(-spec.num_gpus // 4)
    return world.throughput(spec.model, Configuration("plain", spec.num_gpus, nodes_needed, plan=spec.plan)) / slack


@settings(max_examples=25)
@given(workloads(), scenarios, schedulers)
def test_runs_are_valid_and_finish(workload, scenario, scheduler):
    result = run(scheduler, workload, scenario)
    assert result.finished.all()
    check_order(result)
    check_capacity(result)
    check_service(result)


@settings(max_examples=25)
@given(workloads(), scenarios, schedulers)
def test_guaranteed_jobs_run_at_their_level_or_not_at_all(workload, scenario, scheduler):
    """At every moment in which they run, whatever the quotas and the other jobs."""
    world = Told(apart=0.75)
    result = run(scheduler, workload, scenario, world)
    for spec in workload:
        if spec.guaranteed:
            for place in held(result, spec.id):
                assert meets(throughput_of(world, spec, place), promised(world, spec, scheduler.slack))


@settings(max_examples=15)
@given(workloads(), scenarios, st.booleans())
def test_ablations_change_only_what_they_may(workload, scenario, plans):
    """Without resources every job has at most its requested GPUs; without plans it also has its user's plan."""
    result = run(Rubick(Names(), plans=plans, resources=False), workload, scenario)
    for spec in workload:
        for place in held(result, spec.id):
            assert place.num_gpus <= spec.num_gpus
            assert plans or place.plan == spec.plan
            assert plans or place.num_gpus == spec.num_gpus


@settings(max_examples=15)
@given(workloads(), scenarios, schedulers)
def test_job_names_do_not_matter_and_runs_repeat(workload, scenario, scheduler):
    renamed = Workload.of([replace(spec, name=f"z{9 - spec.id}") for spec in workload])
    first = run(scheduler, workload, scenario)
    assert run(scheduler, renamed, scenario).log == first.log
    assert run(scheduler, workload, scenario).log == first.log


@settings(max_examples=15)
@given(workloads(), scenarios)
def test_the_artifacts_policy_finishes(workload, scenario):
    """With guaranteed jobs of at most one node; it never starts larger ones, as published."""
    specs = [replace(spec, guaranteed=spec.guaranteed and spec.num_gpus <= 4) for spec in workload]
    result = run(RubickArtifact(Names()), Workload.of(specs), scenario)
    assert result.finished.all()
    check_order(result)
    check_capacity(result)


def llms(count, seed):
    """Jobs of Rubick's models, with exponential run times of mean 900 s on the requested GPUs."""
    rng = np.random.default_rng(seed)
    model, asked = RubickModel(), {"gpt2": 4, "bert": 2, "t5": 8, "vit": 1, "llama7b": 16}
    specs = []
    for _ in range(count):
        name = str(rng.choice(list(asked)))
        throughput = model.throughput(name, Configuration("A800", asked[name], -(-asked[name] // 8)))
        work = max(throughput * rng.exponential(900.0), 1.0)
        submit, guaranteed = float(rng.uniform(0, 3600)), bool(rng.random() < 0.4)
        specs.append(JobSpec(0, submit, asked[name], work, name, 1, 16, guaranteed=guaranteed))
    return Workload.of(specs)


@pytest.mark.parametrize("cpu_memory", ["unlimited", "shared"])
@pytest.mark.parametrize("failing", [False, True])
def test_rubicks_models_on_rubicks_nodes(cpu_memory, failing):
    """All features together: plans by the fitted model, shared cores, co-located jobs, failing nodes."""
    scenario = Scenario(
        restart_delay=60.0,
        rounds=Rounds(interval=60.0),
        cpu_memory=cpu_memory,
        contention=Contention("measured"),
        failures=Failures(mtbf=7200.0, repair_time=600.0) if failing else None,
    )
    simulator = Simulator(llms(20, 1), Setup(A800, RubickModel(), scenario))
    result = run_episode(Rubick(RubickModel()), simulator)
    assert result.finished.all()
    check_capacity(result)
    plans = [place.plan for spec in result.workload for place in held(result, spec.id)]
    assert all(plan is not None for plan in plans)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slack": 0.9}, "slack is 0.9; it must be a finite factor of at least 1"),
        ({"slack": np.inf}, "slack is inf"),
        ({"gate": 1.0}, "gate is 1.0; it must be at least 0 and below 1"),
        ({"gate": -0.1}, "gate is -0.1"),
        ({"patience": -1.0}, "patience is -1.0 s; it must not be negative"),
        ({"trust": "planner"}, "trust is 'planner'; it must be view, or planner if a planner is given"),
        ({"trust": "me"}, "trust is 'me'"),
    ],
)
def test_invalid_options_are_errors(options, message):
    with pytest.raises(MurmurationError, match=message) as error:
        Rubick(**options)
    assert "\n" not in str(error.value)
