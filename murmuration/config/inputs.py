"""The inputs of a run, built from its description, and what its task says of them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from envs.episodes.worlds import WorldDistribution
from envs.evaluation.task import Task, hash_problem
from envs.performance import PerformanceModel
from envs.scheduling import Scheduler, ThroughputEstimator, WorkPredictor
from envs.simulation import Scenario, Setup, check_unseen, train_predictor
from envs.simulation.compiled.jit import on_first_compilation
from envs.types import ClusterSpec, TraceError
from envs.workloads import TraceSource, Workload, WorkloadSource
from murmuration.config.arguments import BATCH_SCHEDULERS, SLOW_SCHEDULERS, SLOWEST_SCHEDULERS
from murmuration.config.building import Component, build_object
from murmuration.config.descriptions import ComparisonRun, ProblemSpec
from murmuration.config.errors import ChoiceError

TEST = "test"  # the split on which policies are evaluated
TRAIN, ALL = "train", "all"


@dataclass(frozen=True)
class RunInputs:
    """Everything that schedulers are compared or trained with."""

    setup: Setup
    source: WorkloadSource
    seed: int


def build_inputs(problem: ProblemSpec) -> RunInputs:
    """Build cluster, performance model, scenario and workload source.

    Raises:
        ChoiceError: an option that no signature has or that has another type.
    """
    on_first_compilation(
        lambda: print(
            "compiling, once after an installation: murmuration compile does it in advance",
            flush=True,
        )
    )
    if problem.world:
        _, setup, source = find_worlds(problem).world()
        return RunInputs(setup, source, problem.seed)
    cluster = build_object(problem.cluster, ClusterSpec)
    performance = build_object(problem.performance, PerformanceModel)
    scenario = build_object(problem.scenario, Scenario)
    source = build_object(problem.workload, WorkloadSource, cluster=cluster, performance=performance)
    setup = Setup(
        cluster,
        performance,
        settle_work(scenario, source),
        **({"estimator": build_object(problem.estimator, ThroughputEstimator)} if problem.estimator else {}),
        **({"predictor": build_object(problem.predictor, WorkPredictor)} if problem.predictor else {}),
    )
    if setup.scenario.information.work == "predicted":
        train_predictor(setup, source)
    return RunInputs(setup, source, problem.seed)


def settle_work(scenario: Scenario, source: WorkloadSource) -> Scenario:
    """Return a scenario in which `information.work` is what a trace allows, where it is "limit_or_predicted".

    Schedulers know the users' time limits if all jobs have one; else run times as they are predicted from earlier jobs;
    and nothing of them if the trace has too few jobs to predict from. A line says which.

    Args:
        scenario: of the run.
        source: of the jobs.
    """
    if scenario.information.work != "limit_or_predicted":
        return scenario
    limits = [workload.jobs["time_limit"] > 0 for workload in source.evaluation()]
    without, total = sum(int((~each).sum()) for each in limits), sum(map(len, limits))
    work: Any = "limit" if not without else "predicted" if _has_history(source) else "none"
    said = {
        "limit": "every job has a time limit, which is what schedulers know of run times",
        "predicted": f"{without:,} of {total:,} jobs have no time limit, so schedulers know run times as they are "
        "predicted from earlier jobs",
        "none": f"{without:,} of {total:,} jobs have no time limit, and the trace is too short to predict run times, "
        "so schedulers know nothing of them",
    }[work]
    print(f"{said}; scenario.information.work=exact tells them")
    return replace(scenario, information=replace(scenario.information, work=work))


def _has_history(source: WorkloadSource) -> bool:
    """Whether a trace has jobs to learn from, and others to play."""
    try:
        return not isinstance(source, TraceSource) or all(source.evaluation(name) for name in (TRAIN, TEST))
    except TraceError:
        return False


def find_worlds(problem: ProblemSpec) -> WorldDistribution:
    """Return the distribution of worlds that a problem names.

    Raises:
        ChoiceError: it names a task too.
    """
    assert problem.world is not None, "a problem with a distribution"
    if problem.task is not None:
        raise ChoiceError(f"world: is chosen beside task={problem.task.name}, which has no drawn worlds; set task=none")
    found: WorldDistribution = build_object(problem.world, WorldDistribution)
    return found


def build_schedulers(components: Mapping[str, Component], queueing: Component | None = None) -> dict[str, Scheduler]:
    """Build schedulers, by name.

    Args:
        components: the schedulers.
        queueing: what admits jobs before each of them; None for nothing.

    Raises:
        ChoiceError: an object that is no scheduler.
    """
    built = {name: build_object(component) for name, component in components.items()}
    for name, scheduler in built.items():
        if not isinstance(scheduler, Scheduler):
            lacks = [method for method in ("reset", "schedule") if not hasattr(scheduler, method)]
            raise ChoiceError(
                f"{name}: {type(scheduler).__name__} has no {' and no '.join(lacks)}; a scheduler needs both"
            )
    return put_behind(queueing, built)


def put_behind(queueing: Component | None, schedulers: Mapping[str, Scheduler]) -> dict[str, Scheduler]:
    """Return the schedulers behind what admits jobs, each behind its own; as they are if that is None."""
    if queueing is None:
        return dict(schedulers)
    return {name: build_object(queueing, Scheduler, inner=each) for name, each in schedulers.items()}


def find_workloads(inputs: RunInputs, split: str | None, episodes: int | None = None) -> Sequence[Workload]:
    """Return the workloads of a split that are played; print which jobs these are where commands have other defaults.

    Trained policies are evaluated on the test split, and some traces are compared as a whole.

    Args:
        inputs: of the run.
        split: None for the source's default.
        episodes: the number of workloads, the first ones; None for all.

    Raises:
        TraceError: there is no such split, or run times must be predicted from jobs that it has.
    """
    source = inputs.source
    if inputs.setup.scenario.information.work == "predicted":
        if split is None and isinstance(source, TraceSource) and source.evaluate_on in (TRAIN, ALL):
            split = TEST  # whose jobs the predictor has not seen
        check_unseen(source, split)
    played = source.evaluation(split)
    if isinstance(source, TraceSource) and source.evaluate_on != TEST:
        own, other = (TEST, source.evaluate_on) if split == TEST else (split or source.evaluate_on, TEST)
        with suppress(TraceError):  # there may be no test split, or jobs too few for one
            counts = {name: sum(map(len, source.evaluation(name))) for name in (own, other)}
            print(
                f"split={own}: {counts[own]:,} jobs; split={other} plays {counts[other]:,}; evaluate.py plays the "
                "split test unless told otherwise, compare.py the default of the workload"
            )
    return played[:episodes]


def find_hash(problem: ProblemSpec, inputs: RunInputs, task: Task) -> str:
    """Return the hash of a problem with its episodes for evaluation; reads traces."""
    return hash_problem(problem.hashed, inputs.setup, inputs.source.models, inputs.source.evaluation(), task)


def describe_task(problem: ProblemSpec, inputs: RunInputs, split: str | None, num_episodes: int) -> dict[str, Any]:
    """Return what results say of their task, under the key `task`; nothing without a task.

    Args:
        problem: what is played.
        inputs: what was built from it.
        split: the split that is played; None is the source's choice.
        num_episodes: the number of its episodes that are played, the first ones.
    """
    task = problem.task
    if task is None:
        return {}
    notes = []
    total = len(inputs.source.evaluation(split))
    if inputs.source.evaluation(split) is not inputs.source.evaluation():
        notes.append(f"split {split}")
    if num_episodes < total:
        notes.append(f"the first {num_episodes} of {total} episodes")
    return {"task": task.identify(find_hash(problem, inputs, task), ", ".join(notes))}


def limit_slow(task: Task | None, names: Sequence[str]) -> dict[str, int]:
    """Return the number of episodes that each slow scheduler among the names plays; nothing without a task."""
    if task is None:
        return {}
    most = dict.fromkeys(SLOW_SCHEDULERS, task.slow_episodes) | dict.fromkeys(SLOWEST_SCHEDULERS, task.slowest_episodes)
    return {name: most[name] for name in names if name in most}


def leave_out(run: ComparisonRun) -> dict[str, str]:
    """Return the schedulers of `scheduler=all` that the task has no rows for, with the reason."""
    if run.problem.task is None or run.problem.scenario.values.get("batch_sizes") != "usual":
        return {}
    reason = "it chooses batch sizes, and jobs keep their usual ones in this task"
    return {name: reason for name in BATCH_SCHEDULERS if name in run.optional}
