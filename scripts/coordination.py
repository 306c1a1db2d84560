"""Compare ways in which the nodes of one policy choose together: conflicts, mean JCT and time for a decision.

python scripts/train.py task=shared-16 agent=coordinated scheduler=optimus trainer.iterations=0
python scripts/coordination.py checkpoint=runs/train/<date_time>
python scripts/coordination.py checkpoint=runs/train/<date_time> most_decisions=[1,16] episodes=20
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin slow down the others

from omegaconf import DictConfig

from launch import command
from launch.runs import recall_setup


@command("coordination")
def main(cfg: DictConfig, folder: Path) -> None:
    """Recall the setup that the policy was trained in, play it in each way, print the table and write it as CSV."""
    cfg = recall_setup(cfg)

    from launch.coordination import compare_choosing

    compare_choosing(cfg, folder / "coordination.csv")


if __name__ == "__main__":
    main()
