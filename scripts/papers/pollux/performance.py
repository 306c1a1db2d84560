"""Throughputs of the jobs of Pollux's simulator, as a performance model."""

from dataclasses import dataclass, field
from pathlib import Path

from envs.types import Configuration, Samples
from papers.pollux.artifact import LONGEST, Application, read_application

ADAPTED = "adapted"


@dataclass(frozen=True)
class PolluxTables:
    """Useful samples/s of the artifact's applications, averaged over a whole training run.

    A model's name has the application and the batch size that its user chose, such as "cifar10 4096". With "cifar10
    adapted" a job has the best batch size in every epoch. Then more GPUs never make it slower, since it leaves GPUs
    idle that do not help it. Where the simulator has no value, a job does not run.

    Args:
        traces: the folder `traces` of the artifact's simulator.
    """

    traces: Path
    _found: dict[tuple[str, int, int], float] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the applications; a batch size follows."""
        return tuple(LONGEST)

    def application(self, model: str) -> Application:
        """Return the tables of a model's application."""
        return read_application(self.traces / model.split()[0])

    def work(self, model: str) -> Samples:
        """Return the work of a job of this model."""
        return self.application(model).work

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Return useful samples/s; see `PerformanceModel.throughput`."""
        return self._find(model, configuration.num_gpus, configuration.num_nodes)

    def _find(self, model: str, gpus: int, nodes: int) -> float:
        key = model, gpus, nodes
        if key not in self._found:
            application, batch = self.application(model), model.split()[1]
            if batch == ADAPTED:
                fewer = self._find(model, gpus - 1, min(nodes, gpus - 1)) if gpus > 1 else 0.0
                self._found[key] = max(fewer, application.adapted_throughput(gpus, nodes))
            else:
                self._found[key] = application.whole_run_throughput(int(batch), gpus, nodes)
        return self._found[key]
