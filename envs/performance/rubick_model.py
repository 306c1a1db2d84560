"""Rubick's model as a `PerformanceModel`: speed with the best execution plan, for seven models on A800 servers.

Measured: the points that the figures in `tables/rubick_figures.yaml` are fitted on. Modelled: everything in between and
beyond, to 64 GPUs; `rubick_validation` says how well (median error over 535 measured points, and the worst). Guessed:
batch sizes other than the measured ones, and more host threads than four for each GPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache

from envs.performance.memory import DeviceMemory, excess
from envs.performance.plans import SATURATING_CPUS, BestPlan, PlanSearch
from envs.performance.rubick import Figures, Forward, Hardware, Links, ModelShape, PerfParams, check_layout
from envs.performance.rubick_data import load_table, model_shapes
from envs.performance.sensitivity import SensitivityTable
from envs.types import ExecutionPlan, Gigabytes, PerformanceError

GPU_TYPE = "A800"
ALIASES = {"bert_large": "bert", "gpt2_xl": "gpt2"}
"""Names by which the model zoo tells Rubick's BERT and GPT-2 from the smaller ones of other sources."""


@cache
def fitted_figures() -> Mapping[str, Figures]:
    """Figures of the seven models, from the package's own table."""
    return {
        name: Figures(PerfParams(**row["params"]), Forward(**row["forward"]), Links(**row["links"]))
        for name, row in load_table("rubick_figures").items()
    }


@dataclass(frozen=True)
class RubickModel:
    """Answers the `PerformanceModel` protocol; a plan of None is the best that fits.

    Attributes:
        gpus_per_node: GPUs of a node; more on one node do not fit.
        node_memory: host memory of a node in GB.
        gpu_memory: memory of a GPU in GB.
        cached_searches: plan searches kept in memory, one for each (model, batch, threads, memory) asked for.
    """

    gpus_per_node: int = 8
    node_memory: Gigabytes = 1600.0
    gpu_memory: Gigabytes = 80.0
    cached_searches: int = 256
    _searches: dict[tuple[object, ...], PlanSearch] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the seven models, and the zoo's names for two of them."""
        return (*fitted_figures(), *ALIASES)

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
        """Samples per second on `num_gpus` GPUs spread evenly over `num_nodes` nodes; 0.0 where it does not fit.

        Raises:
            PerformanceError: unknown model, another GPU type than A800, counts below one, a batch out of the model's
                range, or a plan that cannot be laid out on the GPUs.
        """
        search = self.search(model, gpu_type, batch_size, cpus_per_gpu, memory_per_gpu)
        if plan is None:
            return search.within(num_gpus, num_nodes).throughput
        check_layout(search.shape, plan, num_gpus, num_nodes, search.batch)
        if num_gpus > num_nodes * self.gpus_per_node or any(
            excess(search.shape, plan, search.batch, memory_per_gpu=memory_per_gpu, device=search.device)
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
        """The fastest plan that fits on at most these GPUs."""
        return self.search(model, GPU_TYPE, batch_size, cpus_per_gpu, memory_per_gpu).within(num_gpus, num_nodes)

    def sensitivity(self, model: str, batch_size: int | None = None, max_gpus: int = 64) -> SensitivityTable:
        """Curves of a model over GPUs, host threads and host memory."""
        return SensitivityTable(
            lambda cpus, memory: self.search(model, GPU_TYPE, batch_size, cpus, memory), max_gpus, self.gpus_per_node
        )

    def search(
        self,
        model: str,
        gpu_type: str = GPU_TYPE,
        batch_size: int | None = None,
        cpus_per_gpu: float | None = None,
        memory_per_gpu: Gigabytes | None = None,
    ) -> PlanSearch:
        """The plan search behind an answer.

        Raises:
            PerformanceError: as in `throughput`.
        """
        shape = self._shape(model)
        if gpu_type != GPU_TYPE:
            raise PerformanceError(f"GPU type {gpu_type!r} has no figures in Rubick's tables; they hold for {GPU_TYPE}")
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
        name = ALIASES.get(model, model)
        if name not in fitted_figures():
            near = get_close_matches(model, self.models, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise PerformanceError(f"model {model!r} has no figures here{hint} Known: {', '.join(self.models)}")
        return model_shapes()[name]

    def _new_search(self, name: str, batch: int, cpus: float, memory: Gigabytes | None) -> PlanSearch:
        device = DeviceMemory(gpu=self.gpu_memory, host=self.node_memory, gpus_per_node=self.gpus_per_node)
        hardware = Hardware(gpus_per_node=self.gpus_per_node)
        return PlanSearch(model_shapes()[name], fitted_figures()[name], batch, cpus, memory, hardware, device)
