"""Jobs whose throughputs no estimator has seen: what users state of them, and measurements in drawn cells."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from envs.performance import without_draw
from envs.simulation import Setup
from envs.simulation.world.throughput import ThroughputTable, level_nodes
from envs.types import BoolArray, FloatArray, IntArray, ThroughputSamples
from envs.workloads import Workload


class HeldOutJob(NamedTuple):
    """A job, and samples of it in the order in which estimators get them.

    Attributes:
        model: its model, of which estimators see no curve.
        throughputs: float64[num_gpu_types, sizes, levels], the true samples/s.
        allowed: bool[num_gpu_types, sizes, levels], the cells in which the job may run on the cluster.
        samples: the statement of its user, then measurements in different cells.
    """

    model: str
    throughputs: FloatArray
    allowed: BoolArray
    samples: ThroughputSamples

    def after(self, num_measured: int) -> ThroughputSamples:
        """Return the statement and the first measurements."""
        cells, throughput, error, stated = self.samples
        first = slice(num_measured + 1)
        return ThroughputSamples(cells[first], throughput[first], error[first], stated[first])

    def unseen(self, num_measured: int) -> BoolArray:
        """Return the allowed cells without the first measured ones; bool[num_gpu_types, sizes, levels]."""
        left = self.allowed.copy()
        left[tuple(self.samples.cells[1 : num_measured + 1].T)] = False
        return left


def held_out_jobs(workloads: Sequence[Workload], setup: Setup, most_measured: int, seed: int) -> Iterator[HeldOutJob]:
    """Draw samples of all jobs that may run in more than `most_measured` cells and on GPUs of one type.

    Errors are those of the setup's scenario. Measured cells are drawn at random among the allowed ones.
    """
    rng = np.random.default_rng(seed)
    information = setup.scenario.information
    error = np.append(information.stated_error, np.full(most_measured, information.sample_error))
    largest = max(int(workload.jobs["max_gpus"].max()) for workload in workloads)
    for workload in workloads:
        table = ThroughputTable.of(setup, workload.models, largest)
        for job in workload.jobs:
            throughputs = table.throughputs[job["model"]]
            allowed = allowed_cells(setup, throughputs, int(job["min_gpus"]), int(job["max_gpus"]))
            cells = np.argwhere(allowed)
            size = min(int(job["num_gpus"]), throughputs.shape[1] - 1)
            alone = throughputs[:, size, 0]
            if len(cells) <= most_measured or not alone.max() > 0:
                continue
            measured = cells[rng.choice(len(cells), most_measured, replace=False)]
            cells = np.vstack([[alone.argmax(), size, 0], measured])
            shown = throughputs[tuple(cells.T)] * np.exp(rng.standard_normal(len(cells)) * error)
            stated = np.arange(len(cells)) == 0
            model = without_draw(workload.models[job["model"]])
            yield HeldOutJob(model, throughputs, allowed, ThroughputSamples(cells, shown, error, stated))


def allowed_cells(setup: Setup, throughputs: FloatArray, least: int, most: int) -> BoolArray:
    """Return the cells in which a job may run on the cluster's GPUs of one type.

    Args:
        setup: its cluster says how many nodes a type has.
        throughputs: float64[num_gpu_types, sizes, levels].
        least: GPUs of the job.
        most: GPUs of the job.
    """
    cluster = setup.cluster
    gpu_type, size, level = np.indices(throughputs.shape)
    levels: IntArray = np.array([level_nodes(each) for each in range(throughputs.shape[2])])
    nodes = np.array([(cluster.node_types == each).sum() for each in range(len(cluster.gpu_types))])
    gpus = np.array([cluster.node_gpus[cluster.node_types == each].sum() for each in range(len(cluster.gpu_types))])
    fits = (levels[level] <= nodes[gpu_type]) & (size <= gpus[gpu_type])
    return np.asarray((throughputs > 0) & fits & (size >= least) & (size <= most))
