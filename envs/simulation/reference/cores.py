"""Effects of cores and memory on throughput in the reference implementation, asked of the performance model."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from envs.performance import cpu_scale, find_throughput, plain_model
from envs.simulation.setup import Setup
from envs.types import Configuration, FloatArray

CORES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0, 12.0, 24.0)  # per GPU: points at which the performance model is asked
GIGABYTES = (0.0, 20.83, 62.5, 125.0, 187.5, 250.0)  # the same for memory; more follow where a model gains from more
STEP = 62.5
WIDEST = 8  # GPUs of one job on a node, as which more of them count
ENOUGH = 1 - 1e-12  # fraction of a throughput that counts as all of it


class CoresAndMemory:
    """The share of its throughput that a model keeps with few cores and little memory, at the points of a grid.

    Args:
        setup: without shared cores and memory, they have no effect.
        models: names; a draw needs what its model needs.
    """

    def __init__(self, setup: Setup, models: Sequence[str]) -> None:
        self.setup, self.models = setup, [plain_model(model) for model in models]
        self.types = setup.cluster.gpu_types
        self.shared = setup.scenario.cpu_memory == "shared"
        self.cpus = np.array(CORES if self.shared else (0.0, 1.0))

    def _ask(
        self, model: str, gpu_type: str, gpus: int, cpus: float | None = None, memory: float | None = None
    ) -> float:
        asked = Configuration(gpu_type, gpus, cpus_per_gpu=cpus, memory_per_gpu=memory)
        return find_throughput(self.setup.performance, model, asked)

    @cached_property
    def memory(self) -> FloatArray:
        """float64[m]: GB per GPU, up to where no model on a node gains from more, or no node has more."""
        if not self.shared:
            return np.array([0.0, 1.0])
        points = list(GIGABYTES)
        while any(self._gains(model, name, points[-1]) for model in self.models for name in self.types):
            points.append(points[-1] + STEP)
        return np.array(points)

    def _gains(self, model: str, gpu_type: str, memory: float) -> bool:
        """Whether a model gains from more memory per GPU that a node of a type has."""
        nodes = [node for node in self.setup.cluster.nodes if node.gpu_type == gpu_type]
        most = max(node.memory for node in nodes)
        return any(
            self._ask(model, gpu_type, gpus, memory=memory) < self._ask(model, gpu_type, gpus) * ENOUGH
            for gpus in range(1, min(WIDEST, max(node.num_gpus for node in nodes)) + 1)
            if memory < most / gpus
        )

    @cached_property
    def scale(self) -> FloatArray:
        """float64[num_models, num_gpu_types]: cores of a GPU that stand for one of `cpus`."""
        if not self.shared:
            return np.ones((len(self.models), len(self.types)))
        return np.array([[cpu_scale(self.setup.performance, m, name) for name in self.types] for m in self.models])

    @cached_property
    def factor(self) -> FloatArray:
        """float64[num_models, num_gpu_types, WIDEST + 1, c, m]: fraction kept with so many GPUs on a node."""
        shape = len(self.models), len(self.types), WIDEST + 1, len(self.cpus), len(self.memory)
        kept = np.ones(shape)
        if self.shared:
            kept[..., 0, :] = kept[..., :, 0] = 0.0
            for i, t, gpus in np.ndindex(shape[:3]):
                runs = [width for width in range(1, gpus + 1) if self._ask(self.models[i], self.types[t], width) > 0]
                if runs and runs[-1] == gpus:
                    kept[i, t, gpus, 1:, 1:] = self._kept(i, t, gpus)
                elif runs:  # as on the next smaller size on which the model runs
                    kept[i, t, gpus] = kept[i, t, runs[-1]]
        return kept

    def _kept(self, i: int, t: int, gpus: int) -> list[list[float]]:
        """Fractions for all points above 0."""
        model, name, scale = self.models[i], self.types[t], float(self.scale[i, t])
        ample = self._ask(model, name, gpus)
        return [
            [
                min(self._ask(model, name, gpus, cpus * scale, memory) / ample, 1.0)
                for memory in self.memory.tolist()[1:]
            ]
            for cpus in self.cpus.tolist()[1:]
        ]

    @cached_property
    def saturating(self) -> FloatArray:
        """float64[num_models, num_gpu_types, WIDEST + 1, 2]: least cores per GPU and GB with which nothing is lost."""
        found = np.zeros((*self.factor.shape[:3], 2))
        for i, t, gpus in np.ndindex(found.shape[:3]) if self.shared else ():
            if gpus == 0:
                continue
            kept = self.factor[i, t, gpus]
            enough = [(c, m) for c, m in np.ndindex(kept.shape) if kept[c, m] >= kept[-1, -1] * ENOUGH]
            cpus, memory = min(enough)
            found[i, t, gpus] = self.cpus[cpus] * self.scale[i, t], self.memory[memory]
        return found
