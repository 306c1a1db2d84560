"""Compare a trained policy with the baselines on the same held-out workloads.

python scripts/evaluate.py checkpoint=runs/train/<date_time>
python scripts/evaluate.py checkpoint=runs/train/<date_time> scheduler=[optimus,srtf] workload.load=1.1
python scripts/evaluate.py run=runs/compare/<date_time>    # repeats a run: are the figures the same to the bit?
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin slow down the others

from omegaconf import DictConfig

from launch import command
from launch.repeat import repeat_run
from launch.runs import recall_setup


@command("evaluate", schedulers="fast")
def main(cfg: DictConfig, folder: Path) -> None:
    """Recall the setup that the policy was trained in, run the comparison, print its table and write its report."""
    if cfg.run:
        repeat_run(cfg, folder)
        return
    cfg = recall_setup(cfg)

    from launch.policies import evaluate_policy

    evaluate_policy(cfg, folder)


if __name__ == "__main__":
    main()
