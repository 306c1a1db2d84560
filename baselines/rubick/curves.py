"""Resource sensitivity curves: a job's throughput by number of GPUs, with the plan that reaches it."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Protocol, TypeAlias

from envs.performance.rubick import BestPlan
from envs.scheduling import ClusterView
from envs.types import ClusterSpec, Configuration, ExecutionPlan, JobId, JobSpec, PerformanceError

MIN_GAIN = 0.01  # relative gain below which a larger size is not worth its GPUs (artifact)
_ROUNDING = 1e-9

Trust: TypeAlias = Literal["view", "planner"]


class Planner(Protocol):
    """Proposes the fastest plan on given GPUs: `envs.performance.RubickModel`, or a table of measurements."""

    @property
    def models(self) -> Sequence[str]:
        """Names of the models that it has plans for."""
        ...

    def best_plan(self, model: str, num_gpus: int, num_nodes: int = 1) -> BestPlan:
        """The fastest plan on at most these GPUs of these nodes."""
        ...


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A size and a plan for a job, with its throughput; with a plan of None the world chooses the plan."""

    throughput: float  # samples/s; 0.0 if the job does not run
    num_gpus: int
    num_nodes: int
    plan: ExecutionPlan | None = None


NOWHERE = CurvePoint(0.0, 0, 0)


@dataclass(frozen=True)
class SensitivityCurve:
    """A job's useful sizes on GPUs of one type, packed on the fewest nodes.

    Attributes:
        points: ascending in GPUs and in throughput, each more than one per cent faster than the one before.
        original: samples/s on the requested GPUs, with the user's plan; slopes are shares of it.
        level: samples/s that the job's service level demands on GPUs of this type; 0.0 for a best-effort job.
    """

    points: tuple[CurvePoint, ...]
    original: float = 1.0
    level: float = 0.0

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of GPUs of the points."""
        return tuple(point.num_gpus for point in self.points)

    @cached_property
    def minimum(self) -> CurvePoint:
        """The smallest point that meets the service level: the job's minimum resources. `NOWHERE` without points."""
        enough = (point for point in self.points if meets(point.throughput, self.level))
        return next(enough, self.points[-1] if self.points else NOWHERE)

    def at(self, num_gpus: int) -> CurvePoint:
        """The largest point within `num_gpus`; `NOWHERE` below the first."""
        index = bisect_right(self.sizes, num_gpus)
        return self.points[index - 1] if index else NOWHERE

    def slope(self, throughput: float, num_gpus: int, to: CurvePoint) -> float:
        """Throughput gained per additional GPU, as a share of the original: (T(to) - T) / T_original / GPUs."""
        return (to.throughput - throughput) / self.original / (to.num_gpus - num_gpus)

    @cached_property
    def first_slope(self) -> float:
        """The steepest slope from no GPUs to a point at or above the minimum; 0.0 without points."""
        enough = [point for point in self.points if point.num_gpus >= self.minimum.num_gpus]
        return max((self.slope(0.0, 0, point) for point in enough), default=0.0)

    def below(self, num_gpus: int) -> CurvePoint:
        """The next smaller point that meets the service level; `NOWHERE` if there is none."""
        smaller = self.at(num_gpus - 1)
        return smaller if smaller.num_gpus >= self.minimum.num_gpus else NOWHERE


class SensitivityCurves:
    """Curves of the jobs of one episode; jobs that are alike share a curve.

    Args:
        cluster: the nodes.
        planner: proposes plans; where it is None, or does not know a model, the world chooses plans.
        plans: whether plans may change; else a job keeps the user's plan, with its data-parallel degree scaled to its
            GPUs.
        resources: whether the number of GPUs may change; else a job has the requested GPUs.
        slack: a guaranteed job is promised 1 / slack of its throughput on the requested GPUs.
        trust: whose throughputs decide: the view's, or the planner's own predictions.
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
        self.node_size = [
            int(cluster.node_gpus[cluster.node_types == gpu_type].max()) for gpu_type in range(self.num_types)
        ]
        self._gpus = list(cluster.gpus_by_type.values())
        self._known = frozenset(planner.models) if planner is not None else frozenset()
        self._specs: dict[JobId, JobSpec] = {}
        self._points: dict[tuple[object, ...], CurvePoint] = {}
        self._curves: dict[tuple[object, ...], SensitivityCurve] = {}
        self._of: dict[tuple[JobId, int], SensitivityCurve] = {}
        self._gpu_types: dict[JobId, list[int]] = {}
        self._num_beliefs = 0

    def look_at(self, view: ClusterView) -> None:
        """Begin a round: forget all curves if beliefs about throughputs have changed."""
        if view.num_beliefs != self._num_beliefs:
            self._points, self._curves, self._of, self._gpu_types = {}, {}, {}, {}
            self._num_beliefs = view.num_beliefs

    def curve(self, view: ClusterView, job: JobId, gpu_type: int) -> SensitivityCurve:
        """A job's curve on a GPU type; it has no points if the job does not run there."""
        if (job, gpu_type) not in self._of:
            spec = self.spec(view, job)
            key = (*self._class_of(spec), spec.plan, spec.guaranteed, gpu_type)
            if key not in self._curves:
                self._curves[key] = self._new_curve(view, job, gpu_type)
            self._of[job, gpu_type] = self._curves[key]
        return self._of[job, gpu_type]

    def gpu_types(self, view: ClusterView, job: JobId) -> list[int]:
        """GPU types on which a job runs, ordered by the throughput of its minimum, highest first."""
        if job not in self._gpu_types:
            curves = {gpu_type: self.curve(view, job, gpu_type) for gpu_type in range(self.num_types)}
            able = [gpu_type for gpu_type, curve in curves.items() if curve.points]
            self._gpu_types[job] = sorted(able, key=lambda gpu_type: -curves[gpu_type].minimum.throughput)
        return self._gpu_types[job]

    def first_slope(self, view: ClusterView, job: JobId) -> float:
        """The steepest first slope of a job over its GPU types; 0.0 if it runs on none."""
        return max((self.curve(view, job, gpu_type).first_slope for gpu_type in self.gpu_types(view, job)), default=0.0)

    def point(self, view: ClusterView, job: JobId, gpu_type: int, num_gpus: int, num_nodes: int) -> CurvePoint:
        """The best plan of a job on `num_gpus` GPUs of a type on `num_nodes` nodes.

        It may leave GPUs idle, within the job's range. `NOWHERE` if the job does not run there.
        """
        spec = self.spec(view, job)
        plan = None if self.plans else spec.plan
        key = (*self._class_of(spec), plan, gpu_type, num_gpus, num_nodes)
        if key not in self._points:
            self._points[key] = self._new_point(view, job, gpu_type, num_gpus, num_nodes)
        return self._points[key]

    def exactly(self, view: ClusterView, job: JobId, gpu_type: int, num_gpus: int, num_nodes: int) -> CurvePoint:
        """Return the `point` that uses all these GPUs; where the best plan would leave some idle, the world chooses."""
        best = self.point(view, job, gpu_type, num_gpus, num_nodes)
        if (best.num_gpus, best.num_nodes) == (num_gpus, num_nodes) or best.plan is None or not self.plans:
            return best
        return self._without_plan(view, job, gpu_type, num_gpus, num_nodes)

    def promised(self, view: ClusterView, job: JobId, gpu_type: int) -> float:
        """Samples/s of a job on the requested GPUs, with the user's plan; 0.0 if the type has too few GPUs.

        If the user named no plan, or one that does not run, the fastest plan counts.
        """
        spec = self.spec(view, job)
        if self._gpus[gpu_type] < spec.num_gpus:
            return 0.0
        nodes = self.fewest_nodes(gpu_type, spec.num_gpus)
        throughput = 0.0
        if spec.plan is not None:
            throughput = self._look_up_throughput(view, job, gpu_type, spec.num_gpus, nodes, spec.plan)
        return throughput or self._look_up_throughput(view, job, gpu_type, spec.num_gpus, nodes, None)

    def fewest_nodes(self, gpu_type: int, num_gpus: int) -> int:
        """The number of nodes of a type that `num_gpus` GPUs need."""
        return -(-num_gpus // self.node_size[gpu_type])

    def spec(self, view: ClusterView, job: JobId) -> JobSpec:
        """A job as submitted."""
        if job not in self._specs:
            self._specs[job] = view.job(job)
        return self._specs[job]

    @staticmethod
    def _class_of(spec: JobSpec) -> tuple[object, ...]:
        return (spec.model, spec.num_gpus, spec.min_gpus, spec.max_gpus)

    def _new_curve(self, view: ClusterView, job: JobId, gpu_type: int) -> SensitivityCurve:
        spec = self.spec(view, job)
        least, most = (spec.min_gpus, spec.max_gpus) if self.resources else (spec.num_gpus, spec.num_gpus)
        points: list[CurvePoint] = []
        for size in range(least, min(most, self._gpus[gpu_type]) + 1):
            found = self.point(view, job, gpu_type, size, self.fewest_nodes(gpu_type, size))
            if found.throughput > 0 and (not points or found.throughput > points[-1].throughput * (1 + MIN_GAIN)):
                points.append(found)
        original = max(self.promised(view, job, other) for other in range(self.num_types))
        level = self.promised(view, job, gpu_type) / self.slack if spec.guaranteed else 0.0
        return SensitivityCurve(tuple(points), original or 1.0, level)

    def _new_point(self, view: ClusterView, job: JobId, gpu_type: int, num_gpus: int, num_nodes: int) -> CurvePoint:
        spec = self.spec(view, job)
        if not self.plans and spec.plan is not None:
            plan = rescaled(spec.plan, num_gpus)
            if plan is None:
                return NOWHERE
            throughput = self._look_up_throughput(view, job, gpu_type, num_gpus, num_nodes, plan)
            return CurvePoint(throughput, num_gpus, num_nodes, plan) if throughput > 0 else NOWHERE
        if self.plans and self.planner is not None and spec.model in self._known:
            best = self.planner.best_plan(spec.model, num_gpus, num_nodes)
            if best.plan is not None and best.num_gpus >= spec.min_gpus:
                throughput = self._look_up_throughput(view, job, gpu_type, best.num_gpus, best.num_nodes, best.plan)
                if throughput > 0:
                    decides = best.throughput if self.trust == "planner" else throughput
                    return CurvePoint(decides, best.num_gpus, best.num_nodes, best.plan)
        return self._without_plan(view, job, gpu_type, num_gpus, num_nodes)

    def _without_plan(self, view: ClusterView, job: JobId, gpu_type: int, num_gpus: int, num_nodes: int) -> CurvePoint:
        throughput = self._look_up_throughput(view, job, gpu_type, num_gpus, num_nodes, None)
        return CurvePoint(throughput, num_gpus, num_nodes) if throughput > 0 else NOWHERE

    def _look_up_throughput(
        self, view: ClusterView, job: JobId, gpu_type: int, num_gpus: int, num_nodes: int, plan: ExecutionPlan | None
    ) -> float:
        """The view's throughput, or 0.0 if the placement is impossible; without a plan, that of the engine's tables."""
        if num_gpus > num_nodes * self.node_size[gpu_type]:
            return 0.0
        if plan is None:
            throughputs = view.throughputs(job)
            if num_gpus >= throughputs.shape[1]:
                return 0.0
            if num_nodes == self.fewest_nodes(gpu_type, num_gpus):
                return float(throughputs[gpu_type, num_gpus])
            num_nodes = min(1 << (num_nodes - 1).bit_length(), num_gpus)  # the tables have node counts 1, 2, 4, 8, ...
        try:
            return view.throughput(job, Configuration(view.cluster.gpu_types[gpu_type], num_gpus, num_nodes, plan=plan))
        except PerformanceError:
            return 0.0


def meets(throughput: float, promised: float) -> bool:
    """Whether a throughput is at least the promised one, up to rounding."""
    return throughput >= promised * (1 - _ROUNDING)


def rescaled(plan: ExecutionPlan, num_gpus: int) -> ExecutionPlan | None:
    """Scale the user's plan to another number of GPUs by its number of replicas; None if that is not an integer.

    Without a pipeline the number of micro-batches is scaled too, so that each replica keeps its micro-batch size.
    """
    replica = plan.tensor * plan.pipeline
    if num_gpus % replica:
        return None
    data = num_gpus // replica
    micro = max(1, plan.accumulation * plan.data // data) if plan.pipeline == 1 else plan.accumulation
    return replace(plan, data=data, accumulation=micro)
