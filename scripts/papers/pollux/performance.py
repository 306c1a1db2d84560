"""Throughputs of the jobs of Pollux's simulator, as a performance model."""

from dataclasses import dataclass, field
from pathlib import Path

from envs.types import Configuration
from papers.pollux.artifact import LONGEST, Application, packed, read_application

GPU_TYPE = "T4"


@dataclass(frozen=True)
class ArtifactModel:
    """Useful samples/s of the artifact's applications, averaged over a whole training run.

    A model's name has the application and the batch size that the job's user chose, such as "cifar10 4096". A placement
    may name another batch size. The efficiency of a batch size is the measured one, so the scenario counts every sample.

    A job on the fewest nodes that hold its GPUs runs as fast as it was measured there. On more nodes, the simulator's
    mean over placements of as many GPUs and nodes counts. Where the simulator has no value, a job does not run.

    Args:
        traces: the folder `traces` of the artifact's simulator.
    """

    traces: Path
    _found: dict[tuple[str, int, int, int], float] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the applications; a batch size follows."""
        return tuple(LONGEST)

    def application(self, model: str) -> Application:
        """Return the tables of a model's application."""
        return read_application(self.traces / model.split()[0])

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Return useful samples/s; see `PerformanceModel.throughput`."""
        batch = configuration.batch_size or int(model.split()[1])
        key = model.split()[0], batch, configuration.num_gpus, configuration.num_nodes
        if key not in self._found:
            self._found[key] = self._rate(*key)
        return self._found[key]

    def _rate(self, name: str, batch: int, gpus: int, nodes: int) -> float:
        application = self.application(name)
        if nodes <= len(packed(gpus)):
            return application.rate(batch, packed(gpus))
        return application.rate_between(batch, nodes, gpus)
