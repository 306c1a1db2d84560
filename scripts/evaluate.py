"""Compare a trained policy with the baselines on the same held-out workloads.

python scripts/evaluate.py checkpoint=runs/train/<date_time>
python scripts/evaluate.py checkpoint=runs/train/<date_time> scheduler=[optimus,srtf] workload.load=1.1
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin slow down the others

from omegaconf import DictConfig

from launch import command
from launch.registry import registered
from launch.runs import compare_and_report, recall_setup


@command("evaluate", schedulers="fast")
def main(cfg: DictConfig, folder: Path) -> None:
    """Recall the setup that the policy was trained in, run the comparison, print its table and write its report."""
    cfg = recall_setup(cfg)

    from launch.policies import load_policy

    policy = load_policy(cfg.checkpoint, registered(cfg), sampled=cfg.sampled)
    compare_and_report(cfg, folder, cfg.split, {"policy": policy})


if __name__ == "__main__":
    main()
