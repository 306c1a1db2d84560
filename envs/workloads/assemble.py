"""Turn a reader's columns into a workload: derive work from durations, assign models and elastic ranges."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from envs.performance import FRACTIONS, PerformanceModel, name_of_fraction
from envs.types import BoolArray, ClusterSpec, FloatArray, IntArray, PerformanceError, TraceError
from envs.workloads.constraining import ConstraintsSetting, LimitsSetting, TraceConstraints
from envs.workloads.mix import JobMix, ModelThroughputs, draw_models, known_as, mix_for
from envs.workloads.readers.report import FILE_ATTRIBUTE
from envs.workloads.recorded import RecordedPast
from envs.workloads.requests import ROUND, Requests
from envs.workloads.waiting import Dependencies, find_dependencies
from envs.workloads.workload import JOB_COLUMNS, Workload

if TYPE_CHECKING:
    import pandas as pd

MOST_ELASTIC = 1e6
ELASTIC = f"from 1 (rigid) to {MOST_ELASTIC:,.0f}"  # allowed factors of the elastic range, for messages


@dataclass(frozen=True)
class Assembly:
    """The rules by which columns become jobs. They assign what no public trace has: models and elasticity.

    If the trace does not state a job's work, it is the duration times the throughput on the requested GPUs of the
    trace's GPU type, consolidated on the fewest nodes. A model is drawn from those models of the mix that run on the
    job's number of GPUs, both on the trace's GPU type and on the cluster. With a factor `elastic` of f, a job of n GPUs
    runs on ceil(n / f) to floor(n * f) GPUs; a factor of 1 means rigid jobs.
    """

    performance: PerformanceModel
    cluster: ClusterSpec
    gpu_type: str  # of the trace
    gpus_per_node: int  # of the trace
    source: str = ""  # name of the trace; it selects the aliases of model names
    mix: JobMix | None = None
    elastic: float = 1.0
    seed: int = 0
    constraints: ConstraintsSetting = "none"  # whether jobs may run only where the trace says
    limits: LimitsSetting = "none"  # whether jobs end at the time limits that the trace states; drawn: all have one
    holds: ConstraintsSetting = "none"  # whether jobs wait for the times and for the jobs that the trace states
    throughputs: ModelThroughputs = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1.0 <= self.elastic < np.inf:
            raise TraceError(
                f"workload.elastic is {self.elastic}; it must be a finite factor of at least 1 (1 is rigid)"
            )
        if self.constraints not in ("trace", "none"):
            raise TraceError(f"workload.constraints is {self.constraints!r}; it must be trace or none")
        if self.holds not in ("trace", "none"):
            raise TraceError(f"workload.holds is {self.holds!r}; it must be trace or none")
        if self.limits not in ("trace", "drawn", "none"):
            raise TraceError(f"workload.limits is {self.limits!r}; it must be trace, drawn or none")
        object.__setattr__(self, "throughputs", ModelThroughputs(self.performance))

    def workload(self, frame: "pd.DataFrame", name: str, notes: Sequence[str] = ()) -> Workload:
        """Turn a reader's frame into a workload, in the order of its rows.

        Raises:
            TraceError: a model has no throughput figures, or a job does not run on the trace's own GPUs.
        """
        table = np.zeros(len(frame), JOB_COLUMNS)
        for column in ("submit_time", "duration", "num_gpus"):
            table[column] = frame[column].to_numpy()
        codes, models, said = self._models(frame)
        fraction, part_note = self._fractions(frame)
        table["model"], models = with_fractions(codes, models, fraction)
        table["work"] = frame["work"].to_numpy() if "work" in frame else self._work(frame, table["model"], models)
        constrained = TraceConstraints(frame if self.constraints == "trace" else frame[["row"]], self.cluster)
        table["model"], models = constrained.names(models, table["model"])
        table["min_gpus"], table["max_gpus"] = elastic_range(table["num_gpus"], self.elastic, self.cluster)
        own = [column for column in ("min_gpus", "max_gpus") if column in frame]
        for column in own:
            table[column] = frame[column].to_numpy()
        for column in ("min_gpus", "max_gpus"):
            table[column][fraction < 1] = 1
        if "max_gpus" in own:
            ceiling = np.maximum(table["num_gpus"], max(self.cluster.gpus_by_type.values()))
            table["max_gpus"] = np.minimum(table["max_gpus"], ceiling)
        ranges = f"the trace's own column{'s' * (len(own) > 1)} {' and '.join(own)}; else " if own else ""
        tenants: tuple[str, ...] = ("",)
        if "tenant" in frame:
            codes, found = frame["tenant"].factorize(sort=True)
            table["tenant"], tenants = codes, tuple(str(tenant) for tenant in found)
        for column in ("guaranteed", "priority", "nice", *(() if self.limits == "none" else ("time_limit",))):
            if column in frame:
                table[column] = frame[column].to_numpy()
        drawn = self._draw_limits(table) if self.limits == "drawn" else ()
        names, users, ids = (texts_of(frame, column) for column in ("name", "user", "id"))
        dependencies = self._holds(frame, table, names, users, ids)
        asked = *constrained.notes(), *_note_limits(table["time_limit"]), *drawn, *_note_holds(table, dependencies)
        return Workload(
            name,
            table,
            models,
            tenants,
            notes=(*notes, said, *part_note, *asked, ranges + range_note(self.elastic)),
            names=names,
            plans=tuple(frame["plan"]) if "plan" in frame else (),
            users=users,
            ids=ids,
            dependencies=dependencies,
            qos=texts_of(frame, "qos"),
            recorded=RecordedPast.of(frame),
        )

    def _draw_limits(self, table: npt.NDArray[np.void]) -> tuple[str, ...]:
        """Draw a limit for each job that has none, as users overstate them; return a note."""
        without = table["time_limit"] == 0
        seconds = table["duration"]
        known = np.isfinite(seconds)
        longest = float(ROUND[min(np.searchsorted(ROUND, seconds[known].max(initial=0.0)), len(ROUND) - 1)])
        users = Requests({"": 1.0}, {"": longest}, too_short=0.0)
        drawn = users.draw_limits(np.random.default_rng(self.seed), seconds, np.zeros(len(table), np.int64))
        table["time_limit"] = np.where(without & known, np.maximum(drawn, seconds), table["time_limit"])
        return (
            f"time limits of {int((without & known).sum()):,} jobs are drawn (seed {self.seed}), not observed: round "
            "times, overstated as in Tsafrir et al. (JSSPP 2005), none below the run time",
        )

    def _holds(
        self,
        frame: "pd.DataFrame",
        table: npt.NDArray[np.void],
        names: Sequence[str],
        users: Sequence[str],
        ids: Sequence[str],
    ) -> Dependencies:
        """Set begin times and return dependencies; one on a job that was left out of the frame is met."""
        if self.holds == "none":
            return ()
        if "begin_after" in frame:
            after = frame["begin_after"].to_numpy(np.float64)
            table["begin_time"] = np.where(after > 0, table["submit_time"] + after, 0.0)
        empty = [""] * len(frame)
        owners = list(zip(users or empty, names or empty, strict=True))
        return find_dependencies(texts_of(frame, "dependency") or empty, ids or empty, owners, lambda job, why: None)

    def _fractions(self, frame: "pd.DataFrame") -> tuple[FloatArray, tuple[str, ...]]:
        """Return float64[num_jobs], the fraction of a GPU that each job asks for, and a note if any is below 1."""
        asked = frame["gpu_fraction"].to_numpy(np.float64) if "gpu_fraction" in frame else np.ones(len(frame))
        part = asked < 1
        if not part.any():
            return np.ones(len(frame)), ()
        count = f"{int(part.sum()):,} jobs ask for a fraction of a GPU"
        if not getattr(self.performance, "knows_fractions", False):
            return np.ones(len(frame)), (
                f"{count}, which counts as a whole one: the performance model knows no fractions",
            )
        steps = np.array([*FRACTIONS, 1.0])
        fraction = steps[np.searchsorted(steps, asked - 1e-9)]
        return fraction, (f"{count}: it counts as {', '.join(f'{step:g}' for step in FRACTIONS)} or a whole one",)

    def _models(self, frame: "pd.DataFrame") -> tuple[IntArray, tuple[str, ...], str]:
        if "model" in frame:
            codes, found = frame["model"].factorize(sort=True)
            named: list[str] = []
            for code, model in enumerate(found):
                own = known_as(str(model), self.source, self.performance)
                if own is None:
                    row, known = frame["row"].iloc[int(np.argmax(codes == code))], ", ".join(self.performance.models)
                    raise TraceError(
                        f"{file_prefix(frame)}row {row}: model {model!r} has no throughput figures; known: {known}; "
                        "add it to the performance model"
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
        there = self.throughputs.of(model, self.gpu_type, num_gpus, self.gpus_per_node) > 0
        return there and self.throughputs.runs(model, num_gpus, self.cluster)

    def _work(self, frame: "pd.DataFrame", codes: npt.NDArray[np.int64], models: tuple[str, ...]) -> FloatArray:
        types = (
            frame["gpu_type"].to_numpy() if "gpu_type" in frame else np.full(len(frame), self.gpu_type, dtype=object)
        )
        import pandas as pd  # imported here because it loads slowly and only traces need it

        keys = pd.MultiIndex.from_arrays([codes, frame["num_gpus"].to_numpy(), types])
        index, distinct = pd.factorize(keys)
        by_class = np.zeros(len(distinct))
        for at, (code, gpus, gpu_type) in enumerate(distinct):
            try:
                by_class[at] = self.throughputs.of(models[code], gpu_type, int(gpus), self.gpus_per_node)
            except PerformanceError as error:
                row = frame["row"].iloc[int(np.argmax(index == at))]
                raise TraceError(
                    f"{file_prefix(frame)}row {row}: {error} (a reader's option names or maps it)"
                ) from error
        throughput: FloatArray = by_class[index]
        stuck: BoolArray = throughput <= 0
        if stuck.any():
            at = int(np.argmax(stuck))
            raise TraceError(
                f"{file_prefix(frame)}row {frame['row'].iloc[at]}: model {models[codes[at]]} does not run on "
                f"{frame['num_gpus'].iloc[at]} GPUs of type "
                f"{types[at]}, so its duration gives no work; set another GPU type of the trace, or leave the model out"
            )
        work: FloatArray = frame["duration"].to_numpy(np.float64) * throughput
        return work


def with_fractions(codes: IntArray, models: tuple[str, ...], fraction: FloatArray) -> tuple[IntArray, tuple[str, ...]]:
    """Return the models of jobs that ask for fractions of a GPU, see `envs.performance.slices`.

    Args:
        codes: int64[num_jobs], places in `models`.
        models: names.
        fraction: float64[num_jobs]; models of jobs with 1 keep their names.

    Returns:
        int64[num_jobs] and the names: those of `models`, then those with fractions.
    """
    if (fraction == 1).all():
        return codes, models
    steps, which = np.unique(fraction, return_inverse=True)
    pairs, found = np.unique(np.stack((which, codes)), axis=1, return_inverse=True)
    names = [
        models[code] if steps[step] == 1 else name_of_fraction(models[code], float(steps[step]))
        for step, code in pairs.T.tolist()
    ]
    every = tuple(dict.fromkeys((*models, *names)))
    return np.array([every.index(name) for name in names], np.int64)[found.reshape(-1)], every


def texts_of(frame: "pd.DataFrame", column: str) -> tuple[str, ...]:
    """Return a column of texts of a reader's frame, one per row; empty if it has no such column, or no text there."""
    return tuple(frame[column]) if column in frame and (frame[column] != "").any() else ()


def file_prefix(frame: "pd.DataFrame") -> str:
    """Return "<file>: " as the start of a message about a reader's frame; empty if the frame names no file."""
    return f"{frame.attrs[FILE_ATTRIBUTE]}: " if FILE_ATTRIBUTE in frame.attrs else ""


def _note_limits(limits: FloatArray) -> tuple[str, ...]:
    """Return the note on time limits that is printed with results."""
    own = limits[limits > 0]
    if not len(own):
        return ()
    return (
        f"{len(own):,} of {len(limits):,} jobs have time limits, at which they end (median {np.median(own) / 3600:.3g} "
        "h); workload.limits=none lifts this",
    )


def _note_holds(table: npt.NDArray[np.void], dependencies: Dependencies) -> tuple[str, ...]:
    """Return the note on begin times and dependencies that is printed with results."""
    begins, jobs = int((table["begin_time"] > table["submit_time"]).sum()), len({job for job, _, _ in dependencies})
    if not begins and not jobs:
        return ()
    return (f"{begins:,} jobs have begin times, and {jobs:,} wait for others to end; workload.holds=none lifts both",)


def elastic_range(num_gpus: IntArray, factor: float, cluster: ClusterSpec) -> tuple[IntArray, IntArray]:
    """Return (min_gpus, max_gpus), int64[num_jobs] each: ceil(n / factor) and floor(n * factor).

    The maximum is at most the number of GPUs of the cluster's largest GPU type.
    """
    ceiling = max(cluster.gpus_by_type.values())
    least = np.ceil(num_gpus / factor).astype(np.int64)
    most = np.floor(np.minimum(num_gpus * factor, ceiling)).astype(np.int64)
    return least, np.maximum(num_gpus, most)


def range_note(elastic: float) -> str:
    """Return the note on elasticity that is printed with results."""
    if elastic == 1.0:
        return "jobs are rigid: they run on exactly the number of GPUs that they request"
    return f"elastic ranges are assigned: n/{elastic:g} to {elastic:g}n GPUs, at most all GPUs of one type"
