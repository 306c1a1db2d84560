"""How fast everything is: engine, environment, schedulers, training, on one thread, with counts that must agree.

python scripts/benchmark.py                                   # a minute
python scripts/benchmark.py suite=full                        # about ten
python scripts/benchmark.py suite=full parts=[engine,decisions]
"""

import os
from pathlib import Path

# Before NumPy and torch: everything is timed on one thread.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", OMP_WAIT_POLICY="PASSIVE")

from omegaconf import DictConfig

from launch import command

# isort: split
from benchmarks.machine import about
from benchmarks.parts import chosen, noted
from benchmarks.plot import plot_scaling
from benchmarks.report import Report
from benchmarks.suite import suite_of
from benchmarks.tables import show, write_page


@command("benchmark", schedulers="all")
def main(cfg: DictConfig, folder: Path) -> None:
    """Measure, keep, show; counts that do not agree are an error, times never."""
    suite = suite_of(cfg)
    report = Report()
    for name, measure in chosen(cfg.parts).items():
        with noted(report, name):
            measure(report, suite)
    report.write(folder, {"suite": cfg.suite, **about()})
    write_page(report, folder)
    plot_scaling(report, folder)
    show(report)
    report.check()


if __name__ == "__main__":
    main()
