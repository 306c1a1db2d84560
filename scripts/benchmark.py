"""Time the engine, environments, schedulers and training on one thread, and check that their counts agree.

python scripts/benchmark.py                                   # a minute
python scripts/benchmark.py suite=full                        # about ten
python scripts/benchmark.py suite=full parts=[engine,bidding]
"""

import os
from pathlib import Path

# Before NumPy and torch: everything is timed on one thread.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", OMP_WAIT_POLICY="PASSIVE")

from launch import command

# isort: split
from benchmarks.plot import plot_scaling
from benchmarks.report import Report, print_report, write_page
from benchmarks.suite import build_suite, record_failures, select_parts
from benchmarks.timing import describe_machine
from murmuration.config.describe import describe_benchmark
from murmuration.config.descriptions import BenchmarkRun


@command("benchmark", describe_benchmark, schedulers="all")
def main(run: BenchmarkRun, folder: Path) -> None:
    """Run the parts, keep and print their figures; counts that differ are an error, missed times are not."""
    suite = build_suite(run)
    report = Report()
    for name, measure in select_parts(run.parts).items():
        with record_failures(report, name):
            measure(report, suite)
    report.write(folder, {"suite": run.name, **describe_machine()})
    write_page(report, folder)
    plot_scaling(report, folder)
    print_report(report)
    report.check()


if __name__ == "__main__":
    main()
