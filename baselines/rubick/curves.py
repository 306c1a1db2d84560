"""Resource sensitivity curves: what Rubick knows of a job's speed on so many GPUs, and with which plan it has it."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Protocol, TypeAlias

from envs.performance.plans import BestPlan
from envs.scheduling import ClusterView
from envs.types import ClusterSpec, ExecutionPlan, JobId, JobSpec, PerformanceError

GAIN = 0.01  # a size that brings less than this share more than a smaller one is not worth its GPUs (artifact)
ROUNDING = 1e-9

Trust: TypeAlias = Literal["view", "planner"]


class Planner(Protocol):
    """Who names the fastest plan on some GPUs: `envs.performance.RubickModel`, or a table of measurements."""

    @property
    def models(self) -> Sequence[str]:
        """Names of the models that it has plans for."""
        ...

    def best_plan(self, model: str, num_gpus: int, num_nodes: int = 1) -> BestPlan:
        """The fastest plan on at most these GPUs of these nodes."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """A size and a plan for a job on some nodes; a plan of None leaves it to the world."""

    speed: float  # samples/s; 0.0 if the job does not run
    num_gpus: int
    num_nodes: int
    plan: ExecutionPlan | None = None


NOWHERE = Choice(0.0, 0, 0)


@dataclass(frozen=True)
class Curve:
    """A job's choices on GPUs of one type, packed on the fewest nodes: those sizes that are worth having.

    Attributes:
        choices: ascending in GPUs and in speed, each more than one per cent faster than the one before.
        original: samples/s on what the user asked for, with the user's plan; slopes are shares of it.
        level: samples/s that the job's service level asks for on GPUs of this type; 0.0 for a best-effort job.
    """

    choices: tuple[Choice, ...]
    original: float = 1.0
    level: float = 0.0

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """GPUs of the choices."""
        return tuple(choice.num_gpus for choice in self.choices)

    @cached_property
    def least(self) -> Choice:
        """The smallest choice that meets the service level: the job's minimum resources. `NOWHERE` without choices."""
        enough = (choice for choice in self.choices if meets(choice.speed, self.level))
        return next(enough, self.choices[-1] if self.choices else NOWHERE)

    def at(self, num_gpus: int) -> Choice:
        """The best choice within so many GPUs; `NOWHERE` below the first."""
        index = bisect_right(self.sizes, num_gpus)
        return self.choices[index - 1] if index else NOWHERE

    def slope(self, speed: float, num_gpus: int, to: Choice) -> float:
        """Speed gained for each GPU more, as a share of the original: (T(to) - T) / T_original / GPUs."""
        return (to.speed - speed) / self.original / (to.num_gpus - num_gpus)

    @cached_property
    def first_slope(self) -> float:
        """The slope of the steepest choice of a job that holds nothing, from its least on; 0.0 without choices."""
        enough = [choice for choice in self.choices if choice.num_gpus >= self.least.num_gpus]
        return max((self.slope(0.0, 0, choice) for choice in enough), default=0.0)

    def below(self, num_gpus: int) -> Choice:
        """The next smaller choice that meets the service level; `NOWHERE` if there is none."""
        smaller = self.at(num_gpus - 1)
        return smaller if smaller.num_gpus >= self.least.num_gpus else NOWHERE


class Curves:
    """Curves of the jobs submitted so far, made once for each kind of job; belongs to one episode.

    Args:
        cluster: the nodes.
        planner: names plans; where it is None, or does not know a model, plans are left to the world.
        plans: whether plans may change; else a job keeps the user's, its data-parallel degree following its GPUs.
        resources: whether the number of GPUs may change; else a job has what it asks for.
        slack: a guaranteed job is promised 1 / slack of its speed on what it asks for.
        trust: whose speeds decide: the view's, or the planner's own predictions.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        planner: Planner | None,
        *,
        plans: bool = True,
        resources: bool = True,
        slack: float = 1.0,
        trust: Trust = "view",
    ) -> None:
        self.cluster = cluster
        self.planner, self.plans, self.resources = planner, plans, resources
        self.slack, self.trust = slack, trust
        self.num_types = len(cluster.gpu_types)
        self.node_size = [int(cluster.node_gpus[cluster.node_types == kind].max()) for kind in range(self.num_types)]
        self._gpus = list(cluster.gpus_by_type.values())
        self._known = frozenset(planner.models) if planner is not None else frozenset()
        self._specs: dict[JobId, JobSpec] = {}
        self._choices: dict[tuple[object, ...], Choice] = {}
        self._curves: dict[tuple[object, ...], Curve] = {}
        self._of: dict[tuple[JobId, int], Curve] = {}
        self._kinds: dict[JobId, list[int]] = {}

    def curve(self, view: ClusterView, job: JobId, kind: int) -> Curve:
        """A job's curve on a GPU type; without choices if it does not run there."""
        if (job, kind) not in self._of:
            spec = self.spec(view, job)
            key = (*self._class_of(spec), spec.plan, spec.guaranteed, kind)
            if key not in self._curves:
                self._curves[key] = self._new_curve(view, job, kind)
            self._of[job, kind] = self._curves[key]
        return self._of[job, kind]

    def kinds(self, view: ClusterView, job: JobId) -> list[int]:
        """GPU types on which a job runs, the one where its least choice is fastest first."""
        if job not in self._kinds:
            curves = {kind: self.curve(view, job, kind) for kind in range(self.num_types)}
            able = [kind for kind, curve in curves.items() if curve.choices]
            self._kinds[job] = sorted(able, key=lambda kind: -curves[kind].least.speed)
        return self._kinds[job]

    def first_slope(self, view: ClusterView, job: JobId) -> float:
        """The steepest first slope of a job over its GPU types; 0.0 if it runs on none."""
        return max((self.curve(view, job, kind).first_slope for kind in self.kinds(view, job)), default=0.0)

    def choice(self, view: ClusterView, job: JobId, kind: int, num_gpus: int, num_nodes: int) -> Choice:
        """The best plan of a job on so many GPUs of a type, spread over so many nodes.

        It may leave GPUs idle, within the job's range. `NOWHERE` if the job does not run there.
        """
        spec = self.spec(view, job)
        plan = None if self.plans else spec.plan
        key = (*self._class_of(spec), plan, kind, num_gpus, num_nodes)
        if key not in self._choices:
            self._choices[key] = self._new_choice(view, job, kind, num_gpus, num_nodes)
        return self._choices[key]

    def exactly(self, view: ClusterView, job: JobId, kind: int, num_gpus: int, num_nodes: int) -> Choice:
        """As `choice`, on all of these GPUs: where the best plan would leave some idle, plans are left to the world."""
        best = self.choice(view, job, kind, num_gpus, num_nodes)
        if (best.num_gpus, best.num_nodes) == (num_gpus, num_nodes) or best.plan is None or not self.plans:
            return best
        return self._left_to_the_world(view, job, kind, num_gpus, num_nodes)

    def promised(self, view: ClusterView, job: JobId, kind: int) -> float:
        """Samples/s that a job has on the GPUs that its user asked for, with the user's plan; 0.0 if they are too few.

        Where the user named no plan, or one that does not run, with the fastest.
        """
        spec = self.spec(view, job)
        if self._gpus[kind] < spec.num_gpus:
            return 0.0
        nodes = self.fewest_nodes(kind, spec.num_gpus)
        speed = self._ask(view, job, kind, spec.num_gpus, nodes, spec.plan) if spec.plan is not None else 0.0
        return speed or self._ask(view, job, kind, spec.num_gpus, nodes, None)

    def fewest_nodes(self, kind: int, num_gpus: int) -> int:
        """The nodes of a type that so many GPUs need."""
        return -(-num_gpus // self.node_size[kind])

    def spec(self, view: ClusterView, job: JobId) -> JobSpec:
        """A job as submitted."""
        if job not in self._specs:
            self._specs[job] = view.job(job)
        return self._specs[job]

    @staticmethod
    def _class_of(spec: JobSpec) -> tuple[object, ...]:
        return (spec.model, spec.num_gpus, spec.min_gpus, spec.max_gpus)

    def _new_curve(self, view: ClusterView, job: JobId, kind: int) -> Curve:
        spec = self.spec(view, job)
        least, most = (spec.min_gpus, spec.max_gpus) if self.resources else (spec.num_gpus, spec.num_gpus)
        choices: list[Choice] = []
        for size in range(least, min(most, self._gpus[kind]) + 1):
            found = self.choice(view, job, kind, size, self.fewest_nodes(kind, size))
            if found.speed > 0 and (not choices or found.speed > choices[-1].speed * (1 + GAIN)):
                choices.append(found)
        original = max(self.promised(view, job, other) for other in range(self.num_types))
        level = self.promised(view, job, kind) / self.slack if spec.guaranteed else 0.0
        return Curve(tuple(choices), original or 1.0, level)

    def _new_choice(self, view: ClusterView, job: JobId, kind: int, num_gpus: int, num_nodes: int) -> Choice:
        spec = self.spec(view, job)
        if not self.plans and spec.plan is not None:
            plan = rescaled(spec.plan, num_gpus)
            speed = self._ask(view, job, kind, num_gpus, num_nodes, plan) if plan is not None else 0.0
            return Choice(speed, num_gpus, num_nodes, plan) if speed > 0 else NOWHERE
        if self.plans and self.planner is not None and spec.model in self._known:
            best = self.planner.best_plan(spec.model, num_gpus, num_nodes)
            if best.plan is not None and best.num_gpus >= spec.min_gpus:
                speed = self._ask(view, job, kind, best.num_gpus, best.num_nodes, best.plan)
                if speed > 0:
                    decides = best.throughput if self.trust == "planner" else speed
                    return Choice(decides, best.num_gpus, best.num_nodes, best.plan)
        return self._left_to_the_world(view, job, kind, num_gpus, num_nodes)

    def _left_to_the_world(self, view: ClusterView, job: JobId, kind: int, num_gpus: int, num_nodes: int) -> Choice:
        speed = self._ask(view, job, kind, num_gpus, num_nodes, None)
        return Choice(speed, num_gpus, num_nodes) if speed > 0 else NOWHERE

    def _ask(
        self, view: ClusterView, job: JobId, kind: int, num_gpus: int, num_nodes: int, plan: ExecutionPlan | None
    ) -> float:
        """The view's speed; 0.0 for what cannot be laid out. Without a plan that of the engine's tables."""
        if num_gpus > num_nodes * self.node_size[kind]:
            return 0.0
        if plan is None:
            speeds = view.speed(job)
            if num_gpus >= speeds.shape[1]:
                return 0.0
            if num_nodes == self.fewest_nodes(kind, num_gpus):
                return float(speeds[kind, num_gpus])
            num_nodes = min(1 << (num_nodes - 1).bit_length(), num_gpus)  # the tables know node counts 1, 2, 4, 8, ...
        try:
            return view.throughput(job, kind, num_gpus, num_nodes, plan=plan)
        except PerformanceError:
            return 0.0


def meets(speed: float, promised: float) -> bool:
    """Whether a speed is at least what was promised, rounding apart."""
    return speed >= promised * (1 - ROUNDING)


def rescaled(plan: ExecutionPlan, num_gpus: int) -> ExecutionPlan | None:
    """The user's plan on another number of GPUs: more or fewer replicas of the same kind; None if that is not whole.

    Without a pipeline the micro-batches follow, so that each replica has as many samples at a time as before.
    """
    replica = plan.tensor * plan.pipeline
    if num_gpus % replica:
        return None
    data = num_gpus // replica
    micro = max(1, plan.accumulation * plan.data // data) if plan.pipeline == 1 else plan.accumulation
    return replace(plan, data=data, accumulation=micro)
