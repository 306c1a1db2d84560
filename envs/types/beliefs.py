"""Knowledge of throughputs that must be found out: curves of other models, samples, and beliefs."""

from dataclasses import dataclass
from typing import NamedTuple

from envs.types.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class KnownCurves:
    """Knowledge about a model before any sample: the measured curves of others, and where it runs.

    A cell is a GPU type, a number of GPUs and a level of nodes, as in `envs.simulation.ThroughputTable`.

    Attributes:
        curves: float64[num_curves, num_gpu_types, sizes, levels], measured samples/s of other models; 0 where they do
            not run.
        runs: bool[num_gpu_types, sizes, levels], the cells in which the model runs.
        nodes: int64[levels], the most nodes of a level.
    """

    curves: FloatArray
    runs: BoolArray
    nodes: IntArray


class ThroughputSamples(NamedTuple):
    """Samples of a model's throughput, in the order in which they were taken.

    Attributes:
        cells: int64[n, 3], GPU type, number of GPUs and level of nodes of each.
        throughput: float64[n], samples/s.
        error: float64[n], standard deviation of the logarithm of each.
        stated: bool[n], whether a user stated it; the others were measured.
    """

    cells: IntArray
    throughput: FloatArray
    error: FloatArray
    stated: BoolArray


class EstimatedCurve(NamedTuple):
    """Beliefs about a model's throughput in all cells.

    Attributes:
        throughput: float64[num_gpu_types, sizes, levels], the median of the belief, samples/s; only the cells in which
            the model runs count.
        spread: float64[num_gpu_types, sizes, levels], standard deviation of the logarithm.
    """

    throughput: FloatArray
    spread: FloatArray


class Belief(NamedTuple):
    """Belief about one throughput: its median, its spread, and the number of measurements behind it.

    Attributes:
        mean: samples/s; the median of a log-normal belief.
        spread: standard deviation of the logarithm; 0 if it is known exactly.
        num_samples: how often the throughput of the job's model was measured in this very cell.
    """

    mean: float
    spread: float
    num_samples: int
