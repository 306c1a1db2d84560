"""Advise a Slurm cluster: set nice of jobs that wait and have opted in by --comment=murmuration; Slurm starts them.

python scripts/advise.py scheduler=srtf              # says what it would set
python scripts/advise.py scheduler=srtf act=true     # Ctrl-C sets all values back
python scripts/advise.py restore=true                # sets back what an adviser that was killed has left
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin slow down the others

from launch import command
from murmuration.config.describe import describe_advice
from murmuration.config.descriptions import AdviceRun
from murmuration.runs.advising import advise_cluster


@command("advise", describe_advice, schedulers="starling")
def main(run: AdviceRun, folder: Path) -> None:
    """Print and carry out the changes, round by round."""
    advise_cluster(run, folder)


if __name__ == "__main__":
    main()
