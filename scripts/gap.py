"""Split the distance from the lower bound to a scheduler's mean JCT, over the measured jobs of test workloads.

python scripts/gap.py full-64 shared-16 rigid-64 users-64 --scheduler starling --episodes 4
"""

import argparse
from dataclasses import replace
from typing import Any

import launch  # noqa: F401  the project's packages are found

# isort: split
import numpy as np

from envs.evaluation import compare_schedulers
from envs.performance import Contention
from envs.types import ClusterSpec
from murmuration.config.describe import compose_comparison
from murmuration.config.inputs import build_inputs, build_schedulers

STEPS: dict[str, dict[str, Any]] = {  # each world is without what is named, and without what those before it leave out
    "failures, neighbours on the network": {"failures": None, "contention": Contention("off")},
    "cores and memory": {"cpu_memory": "unlimited"},
    "start and restart delays": {"reconfiguration": None, "start_delay": 0.0, "restart_delay": 0.0},
}
LAST = ("nodes: where free GPUs are, jobs on several", "not knowing the future")


def print_gap(task: str, scheduler: str, oracle: bool, episodes: int) -> None:
    """Print, for a task, mean JCTs in s, and what each part adds, as a share of the scheduler's mean JCT."""
    run = compose_comparison([f"task={task}", f"scheduler=[{scheduler}{',oracle' if oracle else ''}]"])
    inputs, players = build_inputs(run.problem), build_schedulers(run.schedulers)
    workloads, setups = inputs.source.evaluation()[:episodes], [inputs.setup]
    for changes in STEPS.values():
        setups.append(replace(setups[-1], scenario=replace(setups[-1].scenario, **changes)))
    first, counts = {node.gpu_type: node for node in setups[0].cluster.nodes}, setups[0].cluster.gpus_by_type
    one_each = ClusterSpec(tuple(replace(first[each], num_gpus=count) for each, count in counts.items()))
    gaps, whole, setups = list[float](), 0.0, [*setups, *[replace(setups[-1], cluster=one_each)] * (1 + oracle)]
    for place, setup in enumerate(setups):
        name = "oracle" if place > len(STEPS) + 1 else scheduler
        played = compare_schedulers({name: players[name]}, workloads, setup, inputs.seed, resamples=20)
        mean = float(np.mean([each.mean_jct for each in played.summaries[name]]))
        gaps, whole = [*gaps, mean - float(np.mean(played.least_jct(name)))], whole or mean
    parts = {"in the bound: a job's least duration, start delay and wait": whole - gaps[0]}
    parts |= dict(zip([*STEPS, *LAST], -np.diff(gaps), strict=False))
    parts["discrete sizes, the scheduler, looseness of the bound"] = gaps[-1]
    rows = [f"  {seconds:8.0f} s {seconds / whole:7.1%}  {part}" for part, seconds in parts.items()]
    print(f"{task}, {scheduler}, {len(workloads)} test workloads: mean JCT {whole:.0f} s", *rows, sep="\n", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--scheduler", default="starling", help="whose mean JCT is explained")
    parser.add_argument("--oracle", action="store_true", help="play the oracle too, which takes minutes")
    parser.add_argument("--episodes", type=int, default=4, help="test workloads of each task")
    given = parser.parse_args()
    for each in given.tasks:
        print_gap(each, given.scheduler, given.oracle, given.episodes)
