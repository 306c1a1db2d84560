"""Compare schedulers on the same workloads: table, results.json, results.csv and plots.

python scripts/compare.py task=full-64 scheduler=all
python scripts/compare.py task=none workload=philly cluster=homogeneous_64 scheduler=[fifo,srtf]
python scripts/compare.py scheduler=all +own._target_=my_module.MyScheduler
"""

from pathlib import Path

from launch import command
from murmuration.config.describe import describe_comparison
from murmuration.config.descriptions import ComparisonRun
from murmuration.runs.comparing import compare_and_report


@command("compare", describe_comparison, schedulers="all")
def main(run: ComparisonRun, folder: Path) -> None:
    """Run the comparison, print its table and write its report."""
    compare_and_report(run, folder)


if __name__ == "__main__":
    main()
