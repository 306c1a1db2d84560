"""Compare schedulers on the same workloads: table, results.json, results.csv and pictures.

python scripts/compare.py scheduler=all
python scripts/compare.py workload=philly cluster=homogeneous_64 scheduler=[fifo,srtf]
python scripts/compare.py scheduler=all +own._target_=my_module.MyScheduler
"""

from pathlib import Path

from omegaconf import DictConfig

from launch import build_schedulers, build_world, command

# isort: split
from envs.evaluation.report import run_comparison, write_report


@command("compare", schedulers="all")
def main(cfg: DictConfig, folder: Path) -> None:
    """Build the world, run, show, keep."""
    world = build_world(cfg)
    comparison = run_comparison(
        build_schedulers(cfg),
        world.source.evaluation(cfg.split),
        world.cluster,
        world.performance,
        world.scenario,
        world.seed,
        reference=cfg.reference,
        optional=cfg.schedulers if cfg.optional else (),
    )
    write_report(comparison, folder)


if __name__ == "__main__":
    main()
