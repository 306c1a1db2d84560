"""The suite: sizes and repeats, the parts by name, and the handling of a part that fails."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module

from benchmarks.report import Report
from benchmarks.worlds import Size
from envs.scheduling import Scheduler
from envs.types import MurmurationError, did_you_mean
from murmuration.config.building import build_object
from murmuration.config.descriptions import BenchmarkRun
from murmuration.config.errors import ChoiceError
from murmuration.config.inputs import build_schedulers

SIZES = (Size(8, 160), Size(64, 1000), Size(1000, 16000), Size(12500, 100000))
# Parts by name, as module and function. A module is imported when it is chosen, since some need torch and ray.
BENCHMARKS = {
    "engine": ("engine", "measure_engine"),
    "sharing": ("sharing", "measure_sharing"),
    "constraints": ("constraints", "measure_constraints"),
    "bidding": ("bidding", "measure_bidding"),
    "decisions": ("decisions", "measure_decisions"),
    "compiled": ("decisions", "measure_compiled_decisions"),
    "starting": ("starting", "measure_starting"),
    "options": ("options", "measure_options"),
    "evolution": ("evolution", "measure_evolution"),
    "traces": ("traces", "measure_traces"),
    "bounds": ("bounds", "measure_bounds"),
    "slurm": ("slurm", "measure_slurm"),
    "queues": ("queues", "measure_queues"),
    "what_if": ("what_if", "measure_what_if"),
    "published": ("published", "measure_published"),
    "workers": ("workers", "measure_workers"),
}


@dataclass(frozen=True, slots=True)
class Suite:
    """One choice of sizes and repeats."""

    schedulers: Mapping[str, Scheduler] = field(default_factory=dict)  # their decisions are timed
    data: str = ""  # folder with traces/; without it the parts that need it are left out
    num_sizes: int = len(SIZES)  # of 8/160, 64/1,000, 1,000/16,000 and 12,500/100,000 nodes/jobs, smallest first
    repeats: int = 3  # the best one counts
    part: int = 200  # arrivals that the reference engine plays where it cannot play all
    steps: int = 100  # a quarter of them are the rounds of bids in each repeat
    decisions: int = 3  # of each scheduler after its first
    decision_limit: float = 20.0  # seconds on the clock
    rounds: int = 200  # of a minute, beside published simulators
    fresh: bool = True  # whether a start without compiled kernels is timed
    pairs: int = 8  # of an iteration of evolution strategies, each with one workload; workloads of one on options
    workers: Sequence[int] = ()  # numbers of Ray workers, one first; none: nothing is measured
    million: bool = True  # whether 1,000,000 jobs on 100,000 GPUs are played, and their lower bound is computed

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes that are measured."""
        return SIZES[: self.num_sizes]


Measure = Callable[[Report, Suite], None]


def build_suite(run: BenchmarkRun) -> Suite:
    """Build the suite of a run.

    Raises:
        ChoiceError: an option does not exist.
    """
    suite: Suite = build_object(run.suite, schedulers=build_schedulers(run.schedulers), data=run.data)
    return suite


def select_parts(names: Sequence[str]) -> dict[str, Measure]:
    """The functions that measure the named parts; `all` stands for every part.

    Raises:
        ChoiceError: there is no such part.
    """
    wanted = list(BENCHMARKS) if list(names) == ["all"] else names
    for name in wanted:
        if name not in BENCHMARKS:
            hint, there = did_you_mean(name, BENCHMARKS, lead=", "), ", ".join(["all", *BENCHMARKS])
            raise ChoiceError(f"parts={name}: no such part{hint}; there are: {there}")
    places = {name: BENCHMARKS[name] for name in wanted}
    return {
        name: getattr(import_module(f"benchmarks.{module}"), function) for name, (module, function) in places.items()
    }


@contextmanager
def record_failures(report: Report, part: str) -> Iterator[None]:
    """Run one part; record its failure, for example for lack of data, and continue."""
    try:
        yield
    except MurmurationError as refusal:
        report.notes.append(f"{part}: stopped: {refusal}")
    except Exception:
        report.add_fault(part)
