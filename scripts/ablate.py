"""What is each part of a training run worth? Train variants over paired seeds; print differences with standard errors.

python scripts/ablate.py
python scripts/ablate.py resume=runs/ablate/<date_time> seeds=10
python scripts/ablate.py 'options="task=shared-16"' 'variants={small: "", wide: "agent.options.hidden=48"}'
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin slow down the others

from launch import command
from murmuration.config.describe_ablation import describe_ablation
from murmuration.config.descriptions import AblationRun


@command("ablate", describe_ablation)
def main(run: AblationRun, folder: Path) -> Path:
    """Train what is not trained yet; print tables; write runs.csv, ablation.csv and ablation.png."""
    from murmuration.runs.ablating import ablate

    return ablate(run, Path(run.resume) if run.resume else folder)


if __name__ == "__main__":
    main()
