"""Split the distance from the lower bound to a scheduler's mean JCT, over the measured jobs of test workloads.

python scripts/gap.py --tasks full-64 shared-16 rigid-64 types-64 --scheduler starling --episodes 4
"""

import argparse

import launch  # noqa: F401  the project's packages are found

# isort: split
from dataclasses import replace

import numpy as np

from envs.metrics.bounds import Relaxation
from murmuration import compare, make_task

NO_CONTENTION = ("scenario.contention._target_=envs.performance.Contention", "scenario.contention.mode=off")
WORLDS = (  # each is without what is named, and without what those before it leave out
    ("", ()),
    ("failures of nodes", ("scenario.failures=null",)),
    ("contention, shortage of cores and memory", (*NO_CONTENTION, "scenario.cpu_memory=unlimited")),
    ("start and restart delays", ("scenario.reconfiguration=null", "scenario.restart_delay=0")),
)


def print_gap(name: str, scheduler: str, episodes: int) -> None:
    """Print, for a task, mean JCTs in s, and what each part adds, as a share of the scheduler's mean JCT."""
    task, means, options = make_task(name), [], list[str]()
    for _, changes in WORLDS:
        options += changes
        runs = compare([scheduler], make_task(name, *options), episodes=episodes, split="test", quiet=True)
        means.append(np.array([summary.mean_jct for summary in runs.summaries[scheduler]]))
    rows = []
    for run in runs.runs[scheduler]:
        relaxation = Relaxation.of(run.workload, task.setup).of_jobs(np.flatnonzero(run.workload.measured))
        machine = replace(relaxation, priced=None).mean_jct()
        rows.append((relaxation.alone.mean(), relaxation.delay.mean(), machine, relaxation.mean_jct()))
    alone, delay, machine, best = np.array(rows).T
    shares = [np.exp(np.log(bound / means[0]).mean()) for bound in (machine, best)]
    print(f"{name}, {scheduler}, {len(rows)} test workloads: bound / mean JCT", end=" ")
    print("{:.3f} of one machine, {:.3f} with prices of time".format(*shares))
    best, whole = best.mean(), means[0].mean()
    parts = [("duration alone", alone.mean()), ("start delay that is certain", delay.mean())]
    parts += [("queueing, in the bound", best - alone.mean() - delay.mean())]
    parts += [("nodes, discrete sizes, the unknown future, looseness of the bound", means[-1].mean() - best)]
    parts += [(WORLDS[i][0], means[i - 1].mean() - means[i].mean()) for i in range(len(WORLDS) - 1, 0, -1)]
    for part, seconds in parts:
        print(f"  {seconds:8.0f} s {seconds / whole:7.1%}  {part}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", default=["full-64"], help="names of tasks")
    parser.add_argument("--scheduler", default="starling", help="whose mean JCT is explained")
    parser.add_argument("--episodes", type=int, default=4, help="test workloads of each task")
    given = parser.parse_args()
    for name in given.tasks:
        print_gap(name, given.scheduler, given.episodes)
