"""The lower bounds that comparisons print, on loaded clusters of three GPU types."""

from benchmarks.report import Report
from benchmarks.suite import Suite
from benchmarks.timing import cpu_seconds
from benchmarks.worlds import PLAIN, Size
from envs.metrics.bounds import Relaxation
from envs.performance import default_model
from envs.simulation import Setup

BOUNDED = (Size(125, 10_000), Size(1250, 100_000), Size(12500, 1_000_000))


def measure_bounds(report: Report, suite: Suite) -> None:
    """Time the bounds of 10,000 and 100,000 jobs, and of a million if the suite asks for them."""
    measure_bound(Report(), Size(8, 160))  # compile
    for size in BOUNDED if suite.million else BOUNDED[:-1]:
        measure_bound(report, size)


def measure_bound(report: Report, size: Size) -> None:
    """Time the relaxation of one workload, and the search for its largest bound on the mean JCT."""
    workload, setup = size.workload(), Setup(size.cluster(), default_model(), PLAIN)
    made: list[Relaxation] = []
    spent = cpu_seconds(lambda: made.append(Relaxation.of(workload, setup)))
    report.add("bounds", size, "relaxation", spent, "CPU-s")
    report.add("bounds", size, "search for the bound", cpu_seconds(made[0].mean_jct), "CPU-s")
    report.add("bounds", size, "bound on the mean JCT", made[0].mean_jct(), "s")
