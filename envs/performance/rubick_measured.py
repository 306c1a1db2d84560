"""Rubick's world as its artifact's simulator has it: iteration times as measured, and nothing in between.

A plan on a placement that was measured runs as measured. On fewer nodes than measured it runs as fast as measured,
which is a lower bound; a plan on GPUs on which it was not measured does not run. The artifact fills such gaps by
interpolating means over all plans; here they stay gaps, and a job that is given three GPUs runs on the two that were
measured. So every speed of this model is one that the testbed showed.

Cores and memory do not matter, as in the artifact's simulator. Measured with the model's usual batch only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from envs.performance.plans import BestPlan
from envs.performance.rubick import describe, iteration_time, points
from envs.performance.rubick_data import Measurement, find_profiles, model_shapes, read_placements
from envs.performance.rubick_model import ALIASES, GPU_TYPE, fitted_figures
from envs.types import ExecutionPlan, Gigabytes, PerformanceError

FOLDER = {"llama7b": "llama7"}  # of a model's two folders, the one of its usual batch


@dataclass(frozen=True)
class MeasuredModel:
    """Answers the `PerformanceModel` protocol from measured runs; a plan of None is the fastest that was measured.

    Attributes:
        runs: measured iterations; those with an iteration time of 0 did not run.
        gpus_per_node: GPUs of a node.
    """

    runs: Sequence[Measurement]
    gpus_per_node: int = 8
    _best: dict[tuple[str, int, int], BestPlan] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def read(cls, data: str) -> "MeasuredModel":
        """The measurements of the public artifact, at the usual batches.

        Args:
            data: folder that holds `profiles/rubick`.

        Raises:
            PerformanceError: a file is missing or broken.
        """
        runs = read_placements(find_profiles(data) / "rubick")
        usual = [run for run in runs if run.folder == FOLDER.get(run.model, run.folder) and run.iteration > 0]
        return cls(usual)

    def predicted(self) -> "MeasuredModel":
        """The same placements with the iteration times that the fitted model of `envs.performance.rubick` predicts.

        What a scheduler knows that has profiled a handful of points. Only models with figures of their own.
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
        """Names of the models that were measured, and the zoo's names for two of them."""
        return (*self._by_model, *(alias for alias, name in ALIASES.items() if name in self._by_model))

    def throughput(
        self,
        model: str,
        gpu_type: str,
        num_gpus: int,
        num_nodes: int = 1,
        *,
        batch_size: int | None = None,
        plan: ExecutionPlan | None = None,
        cpus_per_gpu: float | None = None,
        memory_per_gpu: Gigabytes | None = None,
    ) -> float:
        """Samples per second; 0.0 where it was not measured. See `PerformanceModel.throughput`.

        Micro-batches of a plan are not looked at: the measurements do not state theirs.

        Raises:
            PerformanceError: unknown model, another GPU type than A800, another batch than the usual one, a plan of
                another number of GPUs, or counts below one.
        """
        runs = self._runs(model)
        self._check(model, gpu_type, num_gpus, num_nodes, batch_size)
        if plan is None:
            return self.best_plan(model, num_gpus, num_nodes).throughput
        if plan.num_gpus != num_gpus:
            raise PerformanceError(
                f"model {model}: plan {describe(plan)} needs {plan.num_gpus} GPUs, {num_gpus} are given; match them"
            )
        kind = technique(plan)
        speeds = (speed(run) for run in runs if technique(run.plan) == kind and len(run.shares) >= num_nodes)
        return max(speeds, default=0.0) if num_gpus <= num_nodes * self.gpus_per_node else 0.0

    def best_plan(self, model: str, num_gpus: int, num_nodes: int = 1) -> BestPlan:
        """The fastest measured plan on at most these GPUs, evenly spread or, on the fewest nodes, packed.

        Of plans of one speed the one on fewer GPUs.
        """
        runs = self._runs(model)
        key = (ALIASES.get(model, model), num_gpus, num_nodes)
        if key not in self._best:
            found = BestPlan(0.0)
            for nodes in range(1, min(num_nodes, num_gpus) + 1):
                most = min(self._fullest(num_gpus, num_nodes, nodes), nodes * self.gpus_per_node)
                for run in runs:
                    if sum(run.shares) <= most and len(run.shares) >= nodes <= sum(run.shares):
                        candidate = BestPlan(speed(run), run.plan, sum(run.shares), nodes)
                        found = max(found, candidate, key=lambda best: (best.throughput, -best.num_gpus))
            self._best[key] = found
        return self._best[key]

    def provenance(self, model: str, gpu_type: str) -> str:
        """Everything is measured here."""
        return "measured"

    @cached_property
    def _by_model(self) -> Mapping[str, list[Measurement]]:
        by_model: dict[str, list[Measurement]] = {}
        for run in self.runs:
            by_model.setdefault(run.model, []).append(run)
        return by_model

    def _runs(self, model: str) -> list[Measurement]:
        name = ALIASES.get(model, model)
        if name not in self._by_model:
            raise PerformanceError(f"model {model!r} was not measured; known: {', '.join(self.models)}")
        return self._by_model[name]

    def _check(self, model: str, gpu_type: str, num_gpus: int, num_nodes: int, batch_size: int | None) -> None:
        if gpu_type != GPU_TYPE:
            raise PerformanceError(f"GPU type {gpu_type!r} was not measured by Rubick; give {GPU_TYPE}")
        if not 1 <= num_nodes <= num_gpus:
            raise PerformanceError(f"{num_gpus} GPUs on {num_nodes} nodes: need 1 <= num_nodes <= num_gpus")
        batch = self._runs(model)[0].batch
        if batch_size not in (None, batch):
            raise PerformanceError(f"model {model}: batch size {batch_size} was not measured; give {batch}")

    def _fullest(self, num_gpus: int, num_nodes: int, some: int) -> int:
        """GPUs on the `some` fullest of a job's nodes."""
        if num_nodes == -(-num_gpus // self.gpus_per_node):
            return min(num_gpus, some * self.gpus_per_node)
        share, rest = divmod(num_gpus, num_nodes)
        return some * share + min(some, rest)


def speed(run: Measurement) -> float:
    """Samples per second of a run; 0.0 if it did not run."""
    return run.batch / run.iteration if run.iteration > 0 else 0.0


def technique(plan: ExecutionPlan) -> tuple[int, int, int, bool, bool, bool]:
    """What tells measured plans apart: degrees, ZeRO, offload and, without offload, recomputation."""
    return (
        *(plan.data, plan.tensor, plan.pipeline, plan.zero_stage > 0 or plan.offload),
        *(plan.offload, plan.checkpointing and not plan.offload),
    )
