"""Compare schedulers on the same workloads: table, results.json, results.csv and plots.

python scripts/compare.py task=full-64 scheduler=all
python scripts/compare.py task=none workload=philly cluster=homogeneous_64 scheduler=[fifo,srtf]
python scripts/compare.py scheduler=all +own._target_=my_module.MyScheduler
"""

from pathlib import Path

from omegaconf import DictConfig

from launch import command
from launch.runs import compare_and_report


@command("compare", schedulers="all")
def main(cfg: DictConfig, folder: Path) -> None:
    """Run the comparison, print its table and write its report."""
    compare_and_report(cfg, folder, cfg.split)


if __name__ == "__main__":
    main()
