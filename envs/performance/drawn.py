"""Throughputs drawn around the measured ones, so that nobody can know the curves of a job's model by its name."""

from dataclasses import dataclass
from zlib import crc32

import numpy as np

from envs.performance.gpus import find_parts
from envs.performance.table_model import TableModel
from envs.performance.zoo import ModelProfile, number_of_draw, without_draw, zoo_name
from envs.types import Configuration, FloatArray, IntArray, PerformanceError

MOST_TABLES = 4096  # that are kept; each workload has new curves


@dataclass(frozen=True)
class DrawnModel(TableModel):
    """`TableModel`, in which a name such as "resnet50~17" stands for draw 17 of curves around those of resnet50.

    The logarithm of the measured throughput on n GPUs of a type over k nodes changes by a + b log2(n) + c log2(k)
    with independent normal a (one for each GPU type), b and c. A drawn throughput may fall with more GPUs, like a
    measured one; it does not rise with more nodes. A name without a draw has the measured curves. Cores, memory and
    plans work as for the model itself.

    The default spreads are half of those between the models of the zoo that run on V100, P100 and K80. The standard
    deviations of their logarithms are 0.24 and 0.55 for P100 and K80 relative to V100; 0.21 for each doubling of V100
    GPUs on one node; 0.55 for 8 GPUs on two nodes relative to one (`tests/unit/performance/test_drawn.py` checks them).

    Args:
        type_spread: standard deviation of a.
        scaling_spread: standard deviation of b, for each doubling of GPUs.
        nodes_spread: standard deviation of c, for each doubling of nodes.
    """

    type_spread: float = 0.2
    scaling_spread: float = 0.1
    nodes_spread: float = 0.27

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("type_spread", "scaling_spread", "nodes_spread"):
            if not 0 <= getattr(self, name) <= 1:
                raise PerformanceError(f"performance.{name} is {getattr(self, name)}; it must be from 0 to 1")

    def curve(self, model: str, gpu_type: str, max_gpus: int) -> FloatArray:
        """Return float64[at least max_gpus + 1, at least max_gpus + 1]: samples/s by GPUs and nodes; `throughput`'s."""
        self.throughput(model, Configuration(gpu_type, max_gpus, max_gpus))
        return self._tables[model, gpu_type, None]

    def cpu_scale(self, model: str, gpu_type: str) -> float:
        """Return the scale of the model itself: what a GPU needs of cores is not drawn."""
        return super().cpu_scale(without_draw(model), gpu_type)

    def provenance(
        self,
        model: str,
        gpu_type: str,
        num_gpus: int | None = None,
        num_nodes: int | None = None,
        batch_size: int | None = None,
    ) -> str:
        """Return the provenance of a throughput; see `TableModel.provenance`. It is "drawn" for a draw that runs."""
        found = super().provenance(model, gpu_type, num_gpus, num_nodes, batch_size)
        return found if number_of_draw(model) is None or found == "infeasible" else "drawn"

    def raw(
        self, model: str, profile: ModelProfile, gpu_type: str, max_gpus: int, nodes: IntArray, batch_size: int | None
    ) -> FloatArray:
        """Return the raw throughputs of a draw; see `TableModel.raw`."""
        draw = number_of_draw(model)
        measured = super().raw(model, profile, gpu_type, max_gpus, nodes, batch_size)
        if draw is None:
            return measured
        if len(self._tables) >= MOST_TABLES:
            self._tables.clear()
            self._scales.clear()
        key = (draw, crc32(zoo_name(model).encode()))
        scaling, spreading = np.random.default_rng(key).standard_normal(2)
        of_type = np.random.default_rng((*key, crc32(find_parts(gpu_type).gpu_type.encode()))).standard_normal()
        counts = np.maximum(np.arange(max_gpus + 1), 1)[:, None]
        change = self.type_spread * of_type + self.scaling_spread * scaling * np.log2(counts)
        change = change + self.nodes_spread * spreading * np.log2(np.minimum(nodes, counts))
        return np.asarray(np.minimum.accumulate(measured * np.exp(change), axis=1))
