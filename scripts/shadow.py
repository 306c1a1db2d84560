"""Watch a Slurm cluster, or what sacct has recorded, and say what a scheduler would do. Nothing is touched.

python scripts/shadow.py scheduler=tiresias
python scripts/shadow.py checkpoint=checkpoints/anywhere recording=jobs.txt
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin slow down the others

from launch import command
from murmuration.config.describe import describe_shadow
from murmuration.config.descriptions import ShadowRun
from murmuration.runs.watching import watch_cluster


@command("shadow", describe_shadow, schedulers="starling")
def main(run: ShadowRun, folder: Path) -> None:
    """Print and write every change that the scheduler would make."""
    watch_cluster(run, folder)


if __name__ == "__main__":
    main()
