"""Rubick's model as a `PerformanceModel`: throughput with the best execution plan, for seven models on A800 nodes.

Measured: the points on which the figures in `tables/rubick_figures.yaml` are fitted. Modelled: all points between and
beyond them, up to 64 GPUs; `papers.rubick_model` computes the error (median and worst over 535 measured points).
Guessed: batch sizes that were not measured, and more than four CPU threads for each GPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

from envs.performance.rubick.data import load_table, model_shapes
from envs.performance.rubick.iteration import Figures, Forward, Hardware, Links, ModelShape, PerfParams, check_layout
from envs.performance.rubick.memory import DeviceMemory, excess
from envs.performance.rubick.plans import SATURATING_CPUS, BestPlan, PlanSearch
from envs.types import Configuration, Gigabytes, PerformanceError, did_you_mean

GPU_TYPE = "A800"
RUBICK_NAMES = {"bert_large": "bert", "gpt2_xl": "gpt2"}
"""Zoo name -> Rubick's name, for two models that other sources have in a smaller size under Rubick's name."""


@cache
def fitted_figures() -> Mapping[str, Figures]:
    """Read the figures of the seven models from the package's own table."""
    return {
        name: Figures(PerfParams(**row["params"]), Forward(**row["forward"]), Links(**row["links"]))
        for name, row in load_table("rubick_figures").items()
    }


@dataclass(frozen=True)
class RubickModel:
    """A `PerformanceModel` by Rubick's formulas; a plan of None means the best plan that uses all GPUs.

    To use fewer GPUs where that is faster is a decision of a scheduler, which `best_plan` serves. GPUs that no plan can
    use, such as the seventh for a batch of 16, stay idle.

    Attributes:
        gpus_per_node: GPUs of a node; more on one node do not fit.
        node_memory: CPU memory of a node in GB.
        gpu_memory: memory of a GPU in GB.
        cached_searches: most plan searches kept in memory, one for each (model, batch, threads, memory).
    """

    gpus_per_node: int = 8
    node_memory: Gigabytes = 1600.0
    gpu_memory: Gigabytes = 80.0
    cached_searches: int = 256
    counts_links: ClassVar[bool] = True  # its iterations include transfers between nodes, at their fitted bandwidths
    _searches: dict[tuple[object, ...], PlanSearch] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the seven models, and the zoo's names for two of them."""
        return (*fitted_figures(), *RUBICK_NAMES)

    def provenance(self, model: str, gpu_type: str) -> str:
        """Return "fitted" on A800: iteration times are those of formulas fitted to measured runs; else "infeasible"."""
        return "fitted" if gpu_type == GPU_TYPE else "infeasible"

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Return samples per second; 0.0 if the job does not fit. See `PerformanceModel.throughput`.

        Raises:
            PerformanceError: the model is unknown, the GPU type is not A800, a count is below one, the batch is out of
                the model's range, or the plan cannot be laid out on the GPUs.
        """
        plan, num_gpus, num_nodes = configuration.plan, configuration.num_gpus, configuration.num_nodes
        memory = configuration.memory_per_gpu
        search = self.search(
            model, configuration.gpu_type, configuration.batch_size, configuration.cpus_per_gpu, memory
        )
        if plan is None:
            return search.using(num_gpus, num_nodes).throughput
        check_layout(search.shape, plan, num_gpus, num_nodes, search.batch)
        if num_gpus > num_nodes * self.gpus_per_node or any(
            excess(search.shape, plan, search.batch, memory_per_gpu=memory, device=search.device)
        ):
            return 0.0
        return search.batch / search.time_of(plan, num_gpus, num_nodes)

    def best_plan(
        self,
        model: str,
        num_gpus: int,
        num_nodes: int = 1,
        *,
        batch_size: int | None = None,
        cpus_per_gpu: float | None = None,
        memory_per_gpu: Gigabytes | None = None,
    ) -> BestPlan:
        """Return the fastest plan that fits on at most these GPUs."""
        return self.search(model, GPU_TYPE, batch_size, cpus_per_gpu, memory_per_gpu).within(num_gpus, num_nodes)

    def measured_batches(self, model: str, gpu_type: str) -> None:
        """Return None: the artifact has every model at one batch size."""

    def search(
        self,
        model: str,
        gpu_type: str = GPU_TYPE,
        batch_size: int | None = None,
        cpus_per_gpu: float | None = None,
        memory_per_gpu: Gigabytes | None = None,
    ) -> PlanSearch:
        """Return the plan search for a model on given resources, from the cache if it is there.

        Raises:
            PerformanceError: as in `throughput`.
        """
        shape = self._shape(model)
        if gpu_type != GPU_TYPE:
            raise PerformanceError(f"GPU type {gpu_type!r} has no figures in Rubick's tables; use {GPU_TYPE}")
        batch = shape.batch if batch_size is None else batch_size
        if not shape.min_batch <= batch <= shape.max_batch:
            raise PerformanceError(
                f"model {model}: batch size {batch} is out of range; allowed are {shape.min_batch} to {shape.max_batch}"
            )
        cpus = SATURATING_CPUS if cpus_per_gpu is None else min(cpus_per_gpu, SATURATING_CPUS)
        key = (shape.name, batch, cpus, memory_per_gpu)
        if key not in self._searches:
            if len(self._searches) >= self.cached_searches:
                self._searches.pop(next(iter(self._searches)))  # the oldest
            self._searches[key] = self._new_search(*key)
        return self._searches[key]

    def _shape(self, model: str) -> ModelShape:
        name = RUBICK_NAMES.get(model, model)
        if name not in fitted_figures():
            hint = did_you_mean(model, self.models, quoted=True)
            raise PerformanceError(f"model {model!r} has no figures here{hint} Known: {', '.join(self.models)}")
        return model_shapes()[name]

    def _new_search(self, name: str, batch: int, cpus: float, memory: Gigabytes | None) -> PlanSearch:
        device = DeviceMemory(gpu=self.gpu_memory, cpu=self.node_memory, gpus_per_node=self.gpus_per_node)
        hardware = Hardware(gpus_per_node=self.gpus_per_node)
        return PlanSearch(model_shapes()[name], fitted_figures()[name], batch, cpus, memory, hardware, device)
