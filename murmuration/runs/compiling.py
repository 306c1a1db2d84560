"""Compile all kernels: tiny episodes of every scheduler, of policies, and of the environments."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec

import numpy as np
from rich.progress import BarColumn, Progress, TimeElapsedColumn

from baselines import Fifo, Kueue
from envs.evaluation.compiling import CompilingColumn
from envs.options import OptionRules, OptionSpec
from envs.pictures.texts import TaskText, TextConsole
from envs.registration import VECTOR_ENVS, make_batched
from envs.scheduling import Scheduler
from envs.simulation import Simulator, run_episode
from envs.types import MurmurationError
from envs.workloads import Workload
from murmuration.config.choices import own_configs
from murmuration.config.describe import compose_comparison
from murmuration.config.inputs import RunInputs, build_inputs, build_schedulers, find_workloads, leave_out

TASKS = ("shared-16", "plans-64", "adaptive-40", "unknown-64", "users-64", "sharing-64", "sharing-hidden-64")
POLICIES = ("bids-64",)
NUM_JOBS = 8

_Step = tuple[str, Callable[[], None]]


def compile_all() -> int:
    """Play everything that has kernels, with a progress bar; return the number of episodes."""
    with own_configs():
        steps = [*_environments(), *(step for task in TASKS for step in _episodes(task))]
    columns = TaskText("{task.description}"), BarColumn(), TimeElapsedColumn(), CompilingColumn()
    with Progress(*columns, console=TextConsole(), transient=True) as bar:
        task = bar.add_task("", total=len(steps))
        for name, play in steps:
            bar.update(task, description=name)
            play()
            bar.advance(task)
    return len(steps)


def _environments() -> Iterator[_Step]:
    return ((name, partial(_step_environment, name)) for name in VECTOR_ENVS)


def _step_environment(name: str) -> None:
    env = make_batched(name)
    env.reset(seed=0)
    env.step(np.zeros_like(env.action_space.sample()))


def _episodes(task: str) -> Iterator[_Step]:
    """One episode of each scheduler in a task, and of trained policies where they can be loaded."""
    run = compose_comparison([f"task={task}", "scheduler=all"])
    inputs = build_inputs(run.problem)
    workload = Workload.of([*find_workloads(inputs, run.split, 1)[0]][:NUM_JOBS])
    left_out = leave_out(run)
    schedulers = {name: each for name, each in build_schedulers(run.schedulers).items() if name not in left_out}
    if task == TASKS[0]:
        schedulers["kueue"] = Kueue(Fifo("skip"))
    if task == TASKS[0] and find_spec("torch") and find_spec("safetensors"):
        from murmuration.config.choices import find_shipped
        from murmuration.runs.policies import load_policy  # needs torch

        schedulers |= {name: load_policy(find_shipped(name)) for name in POLICIES} | _untrained()
    return ((f"{task} {name}", partial(_play, each, workload, inputs)) for name, each in schedulers.items())


def _untrained() -> dict[str, Scheduler]:
    """Return policies over options with random weights; one acts in compiled code, the other in torch."""
    from agents.networks.option_attention import OptionAttention
    from agents.networks.option_scorer import OptionScorer
    from agents.policies.options.scheduler import OptionScheduler

    rules = OptionRules(changes="move", idle="never")
    return {each.__name__: OptionScheduler(each(OptionSpec()), rules) for each in (OptionScorer, OptionAttention)}


def _play(scheduler: Scheduler, workload: Workload, inputs: RunInputs) -> None:
    """Play a few jobs. Some schedulers refuse a task; others need programs that are not installed."""
    try:
        run_episode(scheduler, Simulator(workload, inputs.setup, inputs.seed))
    except MurmurationError:
        return
