"""Throughputs of the jobs of Sia's simulator (Subramanya et al., SOSP'23), which extends Pollux's to several GPU types.

The simulator is github.com/siasosp23/artifacts, folder `sia-simulator`. Its `traces/<application>` have the times of a
step on T4, A100 and RTX 2080 Ti (`placements-<type>.csv`, `scalability-<type>.csv`).
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from envs.types import Configuration, Samples, Seconds
from papers.pollux.artifact import Application, fewest_node_gpus
from papers.pollux.performance import ADAPTED, PolluxTables

NODES: dict[str, tuple[int, int]] = {"aws": (6, 4), "dgx-ext": (2, 8), "rtx": (3, 8)}
"""Nodes and GPUs of each by type, as the artifact names them: 24 T4, 16 A100 and 24 RTX 2080 Ti."""

SLOWDOWNS: dict[str, float] = {"cifar10": 1.8, "ncf": 1.5}  # by which jobs are slower than was measured
OTHER_SLOWDOWN = 1.2
RESTARTS: dict[str, Seconds] = {"cifar10": 50, "deepspeech2": 25, "bert": 120, "yolov3": 80, "imagenet": 250, "ncf": 15}


class SiaApplication(Application):
    """An application on one GPU type. A GPU takes at most the samples that were measured on as many GPUs."""

    def largest_micro_batch(self, gpus: int) -> int:
        """Samples that one of so many GPUs on the fewest nodes can take at once."""
        placement = sorted(fewest_node_gpus(gpus, self.gpus_per_node))
        rows = self.placements.get("".join(map(str, placement)))
        if rows is None:
            found = self.measured[1]
            rows = found[(found.num_nodes >= len(placement)) & (found.num_replicas >= gpus)]
        return int(rows.local_bsz.max()) if len(rows) else self.most


@cache
def read_sia_application(folder: Path, gpu_type: str) -> Application:
    """Read the tables of an application on one GPU type, once."""
    return SiaApplication(folder, f"-{gpu_type}", NODES[gpu_type][1])


@dataclass(frozen=True)
class TypeTables(PolluxTables):
    """The tables of one GPU type. GPUs count as on the fewest nodes, where the schedulers played here put them."""

    gpu_type: str = "aws"

    def application(self, model: str) -> Application:
        """Return the tables of a model's application."""
        return read_sia_application(self.traces / model.split()[0], self.gpu_type)

    def _find(self, model: str, gpus: int, nodes: int) -> float:
        return super()._find(model, gpus, len(fewest_node_gpus(gpus, NODES[self.gpu_type][1])))


@dataclass(frozen=True)
class SiaTables(TypeTables):
    """Throughputs by GPU type. They are in steps/s where the batch size is fixed, as in the artifact's Gavel.

    Models are named as in `PolluxTables`.
    """

    def work(self, model: str) -> Samples:
        """Return the useful samples of a job, or its steps at a fixed batch size."""
        application, batch = self.application(model), model.split()[1]
        return application.work if batch == ADAPTED else application.steps(int(batch))

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Return useful samples/s, or steps/s at a fixed batch size."""
        name = model.split()[0]
        useful = _tables_of(self.traces, configuration.gpu_type).throughput(model, configuration)
        return useful * self.work(model) / self.application(model).work / SLOWDOWNS.get(name, OTHER_SLOWDOWN)


@cache
def _tables_of(traces: Path, gpu_type: str) -> TypeTables:
    return TypeTables(traces, gpu_type=gpu_type)


@dataclass(frozen=True)
class SiaRestarts:
    """Seconds of each start and change, by application."""

    def seconds(self, model: str, *, first: bool = False) -> Seconds:
        """Return the seconds without progress."""
        return RESTARTS[model.split()[0]]
