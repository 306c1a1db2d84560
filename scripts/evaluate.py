"""Compare a trained policy with the baselines on the same held-out workloads.

python scripts/evaluate.py checkpoint=runs/train/<date_time>
python scripts/evaluate.py checkpoint=runs/train/<date_time> scheduler=[optimus,srtf] workload.load=1.1
python scripts/evaluate.py run=runs/compare/<date_time>    # repeats a run: are the figures the same to the bit?
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin slow down the others

from launch import command
from murmuration.config.describe import describe_evaluation
from murmuration.config.descriptions import EvaluationRun, Repetition
from murmuration.runs.repeat import repeat_run


@command("evaluate", describe_evaluation, schedulers="fast")
def main(run: EvaluationRun | Repetition, folder: Path) -> None:
    """Run the comparison or repeat the earlier run, print its table and write its report."""
    if isinstance(run, Repetition):
        repeat_run(run, folder)
        return

    from murmuration.runs.policies import evaluate_policy

    evaluate_policy(run, folder)


if __name__ == "__main__":
    main()
