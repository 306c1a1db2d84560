"""Print lower bounds on the mean JCT of the measured jobs as shares of a scheduler's, on test workloads of tasks.

python scripts/gap.py --tasks full-64 shared-16 rigid-64 types-64 --scheduler starling --episodes 4
"""

import argparse

import launch  # noqa: F401  the project's packages are found

# isort: split
import numpy as np

from envs.metrics.bounds import Relaxation
from envs.metrics.time_prices import TimePrices
from murmuration import compare, make_task


def print_gap(name: str, scheduler: str, episodes: int, steps: int) -> None:
    """Print the geometric means over workloads of a task: duration alone, the present bound and the time-priced one."""
    task = make_task(name)
    runs = compare([scheduler], task, episodes=episodes, split="test", quiet=True).runs[scheduler]
    rows = []
    for run in runs:
        records, jobs = run.records, np.flatnonzero(run.workload.measured)
        own = np.isin(records["job"], jobs)
        mean_jct = (records["finish_time"] - records["submit_time"])[own].mean()
        relaxation = Relaxation.of(run.workload, task.setup).of_jobs(jobs)
        priced = TimePrices.of(run.workload, task.setup, jobs).mean_jct(steps)
        bounds = relaxation.alone.mean(), relaxation.mean_jct(), priced
        rows.append([bound / mean_jct for bound in bounds] + [max(bounds) / mean_jct])
    alone, present, priced, best = np.exp(np.log(rows).mean(axis=0))
    print(
        f"{name}, {scheduler}, {len(rows)} test workloads: alone {alone:.3f}, present bound {present:.3f}, "
        f"time-priced {priced:.3f}, larger of both {best:.3f}",
        flush=True,
    )


def main() -> None:
    """Read arguments and print a line for each task."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", default=["full-64"], help="names of tasks")
    parser.add_argument("--scheduler", default="starling", help="whose mean JCT the bounds are divided by")
    parser.add_argument("--episodes", type=int, default=4, help="test workloads of each task")
    parser.add_argument("--steps", type=int, default=150, help="of ascent for the time-priced bound")
    given = parser.parse_args()
    for name in given.tasks:
        print_gap(name, given.scheduler, given.episodes, given.steps)


if __name__ == "__main__":
    main()
