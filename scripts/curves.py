"""Draw learning curves of several methods from nothing: progress from the random policy to Starling, over CPU time.

python scripts/curves.py "runs={scorer: runs/train/a, attention: runs/train/b}"
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin slow down the others

from launch import command
from murmuration.config.describe import describe_curves
from murmuration.config.descriptions import CurvesRun


@command("curves", describe_curves)
def main(run: CurvesRun, folder: Path) -> None:
    """Read the runs, print a row for each method and task, and write curves.csv and curves.png."""
    from murmuration.runs.curves import compare_runs

    compare_runs(run, folder)


if __name__ == "__main__":
    main()
