"""A trained policy against the baselines, on the same held-out workloads.

python scripts/evaluate.py checkpoint=runs/train/<date_time>
python scripts/evaluate.py checkpoint=runs/train/<date_time> scheduler=[optimus,srtf] workload.load=1.1
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin starve the others

from omegaconf import DictConfig

from launch import build_schedulers, build_world, command

# isort: split
from envs.evaluation.report import run_comparison, write_report
from launch.recall import of_checkpoint


@command("evaluate", schedulers="fast")
def main(cfg: DictConfig, folder: Path) -> None:
    """Recall the world that the policy was trained in, run, show, keep."""
    cfg = of_checkpoint(cfg)

    from launch.policy import build_policy

    world = build_world(cfg)
    comparison = run_comparison(
        {"policy": build_policy(cfg), **build_schedulers(cfg)},
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
