"""What must hold of every run of Rubick, whatever the jobs: guarantees, capacity, ends, and nobody's name matters."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Rubick, RubickArtifact
from baselines.rubick.curves import meets
from envs.performance import Contention, RubickModel
from envs.simulation import EventKind, Rounds, Scenario, Simulator, run_episode
from envs.simulation.scenario import Failures
from envs.types import ClusterSpec, ExecutionPlan, JobSpec, MurmurationError, NodeSpec
from envs.workloads import Workload
from tests.conformance.audit import check_capacity, check_order, check_service
from tests.unit.baselines.rubick_worlds import MODELS, Names, Told, nodes

CLUSTER = nodes(4, 4, 4)
A800 = ClusterSpec(tuple(NodeSpec("A800", 8, 96, 1600, 200.0, 100.0) for _ in range(2)))


@st.composite
def workloads(draw):
    """Up to nine jobs of the told models, some of them guaranteed, of two tenants, with plans of their own."""
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
    return run_episode(scheduler, Simulator(workload, cluster, world or Told(apart=0.75), scenario))


def held(result, job):
    """Placements of a job in the order of its events."""
    events = result.log.events
    rows = np.flatnonzero((events["job"] == job) & np.isin(events["kind"], (EventKind.START, EventKind.RESIZE)))
    return [result.log.placement(int(row)) for row in rows]


def speed_of(world, spec, place):
    """Samples/s; without a plan on as many nodes as the engine's tables know."""
    count = len(place.gpus) if place.plan else min(1 << (len(place.gpus) - 1).bit_length(), place.num_gpus)
    return world.throughput(spec.model, "plain", place.num_gpus, count, plan=place.plan)


def promised(world, spec, slack):
    """Samples/s of the user's plan on the GPUs asked for, eased."""
    nodes_needed = -(-spec.num_gpus // 4)
    return world.throughput(spec.model, "plain", spec.num_gpus, nodes_needed, plan=spec.plan) / slack


@settings(max_examples=60)
@given(workloads(), scenarios, schedulers)
def test_runs_are_sound_and_end(workload, scenario, scheduler):
    result = run(scheduler, workload, scenario)
    assert result.finished.all()
    check_order(result)
    check_capacity(result)
    check_service(result)


@settings(max_examples=60)
@given(workloads(), scenarios, schedulers)
def test_guaranteed_jobs_run_at_their_level_or_not_at_all(workload, scenario, scheduler):
    """Whatever their quotas, whoever else wants their GPUs: at every moment in which they run."""
    world = Told(apart=0.75)
    result = run(scheduler, workload, scenario, world)
    for spec in workload:
        if spec.guaranteed:
            for place in held(result, spec.id):
                assert meets(speed_of(world, spec, place), promised(world, spec, scheduler.slack))


@settings(max_examples=30)
@given(workloads(), scenarios, st.booleans())
def test_ablations_change_only_what_they_may(workload, scenario, plans):
    """Without resources every job has at most the GPUs that it asked for; without plans also its user's plan."""
    result = run(Rubick(Names(), plans=plans, resources=False), workload, scenario)
    for spec in workload:
        for place in held(result, spec.id):
            assert place.num_gpus <= spec.num_gpus
            assert plans or place.plan == spec.plan
            assert plans or place.num_gpus == spec.num_gpus


@settings(max_examples=30)
@given(workloads(), scenarios, schedulers)
def test_names_change_nothing_and_runs_repeat(workload, scenario, scheduler):
    renamed = Workload.of([replace(spec, name=f"z{9 - spec.id}") for spec in workload])
    first = run(scheduler, workload, scenario)
    assert run(scheduler, renamed, scenario).log == first.log
    assert run(scheduler, workload, scenario).log == first.log


@settings(max_examples=30)
@given(workloads(), scenarios)
def test_the_artifacts_policy_ends_too(workload, scenario):
    """Where guarantees ask for no more than a node has; what asks for more it never starts, as published."""
    specs = [replace(spec, guaranteed=spec.guaranteed and spec.num_gpus <= 4) for spec in workload]
    result = run(RubickArtifact(Names()), Workload.of(specs), scenario)
    assert result.finished.all()
    check_order(result)
    check_capacity(result)


def llms(count, seed):
    """Jobs of Rubick's models, of up to an hour on what they ask for."""
    rng = np.random.default_rng(seed)
    model, asked = RubickModel(), {"gpt2": 4, "bert": 2, "t5": 8, "vit": 1, "llama7b": 16}
    specs = []
    for _ in range(count):
        name = str(rng.choice(list(asked)))
        speed = model.throughput(name, "A800", asked[name], -(-asked[name] // 8))
        work = max(speed * rng.exponential(900.0), 1.0)
        submit, guaranteed = float(rng.uniform(0, 3600)), bool(rng.random() < 0.4)
        specs.append(JobSpec(0, submit, asked[name], work, name, 1, 16, guaranteed=guaranteed))
    return Workload.of(specs)


@pytest.mark.parametrize("cpu_memory", ["unlimited", "shared"])
@pytest.mark.parametrize("failing", [False, True])
def test_rubicks_models_on_rubicks_servers(cpu_memory, failing):
    """The whole world at once: plans by the fitted model, cores shared, neighbours, nodes that fail."""
    scenario = Scenario(
        restart_delay=60.0,
        rounds=Rounds(interval=60.0),
        cpu_memory=cpu_memory,
        contention=Contention("measured"),
        failures=Failures(mtbf=7200.0, repair_time=600.0) if failing else None,
    )
    simulator = Simulator(llms(20, 1), A800, RubickModel(), scenario)
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
        ({"trust": "planner"}, "trust is 'planner'; it must be view, or planner where there is a planner"),
        ({"trust": "me"}, "trust is 'me'"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(MurmurationError, match=message) as error:
        Rubick(**options)
    assert "\n" not in str(error.value)
