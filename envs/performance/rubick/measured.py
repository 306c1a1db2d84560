"""Rubick's measured iteration times as a performance model, as in its artifact's simulator, without interpolation.

A measured plan on a measured placement has the measured throughput. On fewer nodes than measured it has the same
throughput, which is a lower bound. On numbers of GPUs that were not measured a plan does not run. The artifact fills
such gaps by interpolating means over all plans. Here a job with three GPUs runs on the two that were measured instead,
so every throughput of this model was observed on the testbed.

Cores and memory have no effect, as in the artifact's simulator. Only the model's usual batch was measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from envs.performance.rubick.data import MeasuredRun, find_profiles, model_shapes, read_placements
from envs.performance.rubick.iteration import describe, iteration_time, points
from envs.performance.rubick.model import GPU_TYPE, RUBICK_NAMES, fitted_figures
from envs.performance.rubick.plans import BestPlan
from envs.types import Configuration, ExecutionPlan, PerformanceError

FOLDER = {"llama7b": "llama7"}  # of a model's two folders, the one with its usual batch


@dataclass(frozen=True)
class MeasuredModel:
    """A `PerformanceModel` of measured runs; a plan of None means the fastest measured plan.

    Attributes:
        runs: measured iterations; those with an iteration time of 0 did not run.
        gpus_per_node: GPUs of a node.
    """

    runs: Sequence[MeasuredRun]
    gpus_per_node: int = 8
    counts_links: ClassVar[bool] = True  # the runs were measured over their own links
    _best: dict[tuple[str, int, int], BestPlan] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def read(cls, data: str) -> "MeasuredModel":
        """Read the measurements of the public artifact, at the usual batches.

        Args:
            data: folder that holds `profiles/rubick`.

        Raises:
            PerformanceError: a file is missing or broken.
        """
        runs = read_placements(find_profiles(data) / "rubick")
        usual = [run for run in runs if run.folder == FOLDER.get(run.model, run.folder) and run.iteration > 0]
        return cls(usual)

    def with_predicted_times(self) -> "MeasuredModel":
        """Return the same placements with the iteration times that the fitted figures predict (`rubick.iteration`).

        These are the throughputs known to a scheduler that has profiled a handful of points. Models without fitted
        figures are left out.
        """
        shapes, figures = model_shapes(), fitted_figures()
        runs = [
            replace(run, iteration=float(time) / 1e3)
            for run in self.runs
            if run.model in figures
            for time in iteration_time(
                shapes[run.model], figures[run.model], points([(run.plan, run.shares, run.batch, run.cpus)])
            ).total
        ]
        return MeasuredModel(runs, self.gpus_per_node)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the measured models, and the zoo's names for two of them."""
        return (*self._by_model, *(alias for alias, name in RUBICK_NAMES.items() if name in self._by_model))

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Return samples per second; 0.0 if not measured. See `PerformanceModel.throughput`.

        Micro-batches of a plan are ignored because the measurements do not state theirs.

        Raises:
            PerformanceError: the model is unknown, the GPU type is not A800, the batch is not the usual one, the plan
            is
                for another number of GPUs, or a count is below one.
        """
        runs = self._runs(model)
        self._check(model, configuration)
        plan, num_gpus, num_nodes = configuration.plan, configuration.num_gpus, configuration.num_nodes
        if plan is None:
            return self.best_plan(model, num_gpus, num_nodes).throughput
        if plan.num_gpus != num_gpus:
            raise PerformanceError(
                f"model {model}: plan {describe(plan)} needs {plan.num_gpus} GPUs, {num_gpus} are given; "
                "make them equal"
            )
        wanted = technique(plan)
        throughputs = (
            run_throughput(run) for run in runs if technique(run.plan) == wanted and len(run.shares) >= num_nodes
        )
        return max(throughputs, default=0.0) if num_gpus <= num_nodes * self.gpus_per_node else 0.0

    def best_plan(self, model: str, num_gpus: int, num_nodes: int = 1) -> BestPlan:
        """Return the fastest measured plan on at most these GPUs, evenly spread or, on the fewest nodes, packed.

        Of plans with equal throughput it is the one on fewer GPUs.
        """
        runs = self._runs(model)
        key = (RUBICK_NAMES.get(model, model), num_gpus, num_nodes)
        if key not in self._best:
            found = BestPlan(0.0)
            for nodes in range(1, min(num_nodes, num_gpus) + 1):
                most = min(self._fullest(num_gpus, num_nodes, nodes), nodes * self.gpus_per_node)
                for run in runs:
                    if sum(run.shares) <= most and len(run.shares) >= nodes <= sum(run.shares):
                        candidate = BestPlan(run_throughput(run), run.plan, sum(run.shares), nodes)
                        found = max(found, candidate, key=lambda best: (best.throughput, -best.num_gpus))
            self._best[key] = found
        return self._best[key]

    def provenance(self, model: str, gpu_type: str) -> str:
        """Return "measured", as all throughputs here are."""
        return "measured"

    def measured_batches(self, model: str, gpu_type: str) -> None:
        """Return None: Rubick measured every model at one batch size."""

    @cached_property
    def _by_model(self) -> Mapping[str, list[MeasuredRun]]:
        by_model: dict[str, list[MeasuredRun]] = {}
        for run in self.runs:
            by_model.setdefault(run.model, []).append(run)
        return by_model

    def _runs(self, model: str) -> list[MeasuredRun]:
        name = RUBICK_NAMES.get(model, model)
        if name not in self._by_model:
            raise PerformanceError(f"model {model!r} was not measured; known: {', '.join(self.models)}")
        return self._by_model[name]

    def _check(self, model: str, configuration: Configuration) -> None:
        gpu_type, batch_size = configuration.gpu_type, configuration.batch_size
        num_gpus, num_nodes = configuration.num_gpus, configuration.num_nodes
        if gpu_type != GPU_TYPE:
            raise PerformanceError(f"GPU type {gpu_type!r} was not measured by Rubick; use {GPU_TYPE}")
        if not 1 <= num_nodes <= num_gpus:
            raise PerformanceError(
                f"{num_gpus} GPUs on {num_nodes} nodes; use at least one node, and a GPU on each node"
            )
        batch = self._runs(model)[0].batch
        if batch_size not in (None, batch):
            raise PerformanceError(f"model {model}: batch size {batch_size} was not measured; use {batch}")

    def _fullest(self, num_gpus: int, num_nodes: int, some: int) -> int:
        """Return the number of GPUs on the `some` fullest of a job's nodes."""
        if num_nodes == -(-num_gpus // self.gpus_per_node):
            return min(num_gpus, some * self.gpus_per_node)
        share, rest = divmod(num_gpus, num_nodes)
        return some * share + min(some, rest)


def run_throughput(run: MeasuredRun) -> float:
    """Return samples per second of a measured run; 0.0 if the plan did not run."""
    return run.batch / run.iteration if run.iteration > 0 else 0.0


def technique(plan: ExecutionPlan) -> tuple[int, int, int, bool, bool, bool]:
    """Return the properties that distinguish measured plans: degrees, ZeRO, offload and, without it, recomputation."""
    return (
        *(plan.data, plan.tensor, plan.pipeline, plan.zero_stage > 0 or plan.offload),
        *(plan.offload, plan.checkpointing and not plan.offload),
    )
