"""From a reader's columns to a workload: work from durations, models and elastic ranges where the trace has none."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from envs.performance import PerformanceModel
from envs.types import BoolArray, ClusterSpec, FloatArray, IntArray, TraceError
from envs.workloads.mix import JobMix, Speeds, draw_models, known_as, mix_for
from envs.workloads.readers.report import FILE
from envs.workloads.workload import JOB_COLUMNS, Workload

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Assembly:
    """How columns become jobs. What no public trace has (model and duration together, elasticity) is assigned here.

    Work is a job's duration times its speed on its requested GPUs of the trace's GPU type, consolidated on the fewest
    nodes, unless the trace states the work. A model is drawn from the mix, among those that run on the job's GPUs both
    there and on the cluster. A factor `elastic` of f lets a job of n GPUs run on ceil(n / f) to floor(n * f); 1 is
    rigid.
    """

    performance: PerformanceModel
    cluster: ClusterSpec
    gpu_type: str  # of the trace
    gpus_per_node: int  # of the trace
    source: str = ""  # name of the trace, by which its model names are understood
    mix: JobMix | None = None
    elastic: float = 1.0
    seed: int = 0
    speeds: Speeds = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1.0 <= self.elastic < np.inf:
            raise TraceError(
                f"workload.elastic is {self.elastic}; it must be a finite factor of at least 1 (1 is rigid)"
            )
        object.__setattr__(self, "speeds", Speeds(self.performance))

    def workload(self, frame: "pd.DataFrame", name: str, notes: Sequence[str] = ()) -> Workload:
        """The jobs of a reader's frame, in its order.

        Raises:
            TraceError: a model without figures, or a job that does not run on the trace's own GPUs.
        """
        table = np.zeros(len(frame), JOB_COLUMNS)
        for column in ("submit_time", "duration", "num_gpus"):
            table[column] = frame[column].to_numpy()
        table["model"], models, said = self._models(frame)
        table["work"] = frame["work"].to_numpy() if "work" in frame else self._work(frame, table["model"], models)
        table["min_gpus"], table["max_gpus"] = elastic_range(table["num_gpus"], self.elastic, self.cluster)
        tenants: tuple[str, ...] = ("",)
        if "tenant" in frame:
            codes, found = frame["tenant"].factorize(sort=True)
            table["tenant"], tenants = codes, tuple(str(tenant) for tenant in found)
        if "guaranteed" in frame:
            table["guaranteed"] = frame["guaranteed"].to_numpy()
        return Workload(
            name,
            table,
            models,
            tenants,
            tuple(frame["name"]) if "name" in frame else (),
            notes=(*notes, said, range_note(self.elastic)),
            plans=tuple(frame["plan"]) if "plan" in frame else (),
        )

    def _models(self, frame: "pd.DataFrame") -> tuple[IntArray, tuple[str, ...], str]:
        if "model" in frame:
            codes, found = frame["model"].factorize(sort=True)
            named: list[str] = []
            for code, model in enumerate(found):
                own = known_as(str(model), self.source, self.performance)
                if own is None:
                    row, known = frame["row"].iloc[int(np.argmax(codes == code))], ", ".join(self.performance.models)
                    raise TraceError(
                        f"{place(frame)}row {row}: model {model!r} has no speed figures; known: {known}; add it to "
                        "the performance model"
                    )
                named.append(own)
            models = tuple(dict.fromkeys(named))
            renumber = np.array([models.index(own) for own in named], dtype=np.int64)
            return renumber[codes], models, "models are the trace's own"
        mix = mix_for(self.performance, self.mix)
        drawn = draw_models(
            np.random.default_rng(self.seed), frame["num_gpus"].to_numpy(np.int64), mix, self._runs_there_and_here
        )
        shares = ", ".join(
            f"{model} {weight / sum(mix.weights):.0%}" for model, weight in zip(mix.models, mix.weights, strict=True)
        )
        return drawn, tuple(mix.models), f"models are assigned, not observed: drawn with seed {self.seed} from {shares}"

    def _runs_there_and_here(self, model: str, num_gpus: int) -> bool:
        there = self.speeds.rate(model, self.gpu_type, num_gpus, self.gpus_per_node) > 0
        return there and self.speeds.runs(model, num_gpus, self.cluster)

    def _work(self, frame: "pd.DataFrame", codes: npt.NDArray[np.int64], models: tuple[str, ...]) -> FloatArray:
        types = (
            frame["gpu_type"].to_numpy() if "gpu_type" in frame else np.full(len(frame), self.gpu_type, dtype=object)
        )
        import pandas as pd  # slow to load, and only traces come here

        keys = pd.MultiIndex.from_arrays([codes, frame["num_gpus"].to_numpy(), types])
        index, distinct = pd.factorize(keys)
        rates = np.array(
            [self.speeds.rate(models[code], kind, int(gpus), self.gpus_per_node) for code, gpus, kind in distinct]
        )
        speed: FloatArray = rates[index]
        stuck: BoolArray = speed <= 0
        if stuck.any():
            at = int(np.argmax(stuck))
            raise TraceError(
                f"{place(frame)}row {frame['row'].iloc[at]}: model {models[codes[at]]} does not run on "
                f"{frame['num_gpus'].iloc[at]} GPUs of type "
                f"{types[at]}, so no work follows from its duration; set another trace GPU type, or leave the model out"
            )
        work: FloatArray = frame["duration"].to_numpy(np.float64) * speed
        return work


def place(frame: "pd.DataFrame") -> str:
    """The file that a reader's frame is of, as the beginning of a message; nothing if the reader does not say."""
    return f"{frame.attrs[FILE]}: " if FILE in frame.attrs else ""


def elastic_range(num_gpus: IntArray, factor: float, cluster: ClusterSpec) -> tuple[IntArray, IntArray]:
    """(min_gpus, max_gpus), int64[num_jobs] each: ceil(n / factor) to floor(n * factor), at most all of one type."""
    ceiling = max(cluster.gpus_by_type.values())
    least = np.ceil(num_gpus / factor).astype(np.int64)
    most = np.floor(num_gpus * factor).astype(np.int64)
    return least, np.maximum(num_gpus, np.minimum(most, ceiling))


def range_note(elastic: float) -> str:
    """What results must say about elasticity."""
    if elastic == 1.0:
        return "jobs are rigid: they run on the GPUs that they ask for"
    return f"elastic ranges are assigned: n/{elastic:g} to {elastic:g}n GPUs, at most all of one type"
