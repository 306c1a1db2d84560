"""What is asked: changes to the scheduler, the cluster and the jobs, each beside what the cluster has today."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from baselines.kueue import Kueue, behind_kueue
from baselines.slurm.site_conf import expand_node_names
from envs.scheduling import Scheduler
from envs.simulation import Setup
from envs.types import (
    Constraints,
    NodeSpec,
    constrain,
    constraints_of,
    did_you_mean,
    features_of,
    name_of_nodes,
    plain_type,
    pools_of,
)
from envs.workloads import Workload
from murmuration.config.errors import ChoiceError
from murmuration.config.inputs import build_schedulers
from murmuration.what_if.played import Play
from murmuration.what_if.replay import Question, Replay, describe_question

_NODES = re.compile(r"\+(\d{1,6})x([^:\s]+)(?::([^\s]+))?")
MANY_JOBS = 20_000  # above which EASY backfill, which is not compiled, takes minutes


@dataclass(frozen=True)
class PlayedWorld:
    """What one play has: the jobs, the setup, the scheduler, and by how much times of the trace are longer."""

    workload: Workload
    setup: Setup
    scheduler: Scheduler
    stretch: float = 1.0


def usual_changes(workload: Workload) -> list[str]:
    """Return what is played where nothing is asked."""
    limited = ["limit-accuracy=1"] if (workload.jobs["time_limit"] > 0).any() else []
    easy = limited and len(workload) <= MANY_JOBS
    return [f"policy={'fifo_easy' if easy else 'fifo_backfill'}", "load=1.1", *limited, "constraints=none"]


class Alternatives:
    """Makes plays from changes such as `load=1.2`, each beside the incumbent.

    Args:
        question: what is asked.
        replay: the trace and its world.

    Raises:
        ChoiceError: there is no such scheduler as the incumbent.
    """

    def __init__(self, question: Question, replay: Replay) -> None:
        reserved = [each for each in replay.options if each.startswith("schedulers.slurm.reservations=")]
        self._question = replace(question, options=(*question.options, *reserved))
        self._replay = replay
        self._today = self._scheduler(question.incumbent)
        self._changes: dict[str, Callable[[PlayedWorld, str], PlayedWorld]] = {
            "policy": self._policy,
            "load": _load,
            "nodes": _nodes,
            "without": self._without,
            "partition": _partition,
            "constraints": self._constraints,
            "limit-accuracy": _limit_accuracy,
            "slurm-conf": self._slurm_conf,
            "queues": self._queues,
        }

    def incumbent(self) -> Play:
        """Return what the cluster has today."""
        return self._play(self._question.incumbent, self._world())

    def _world(self) -> PlayedWorld:
        world = PlayedWorld(self._replay.workload, self._replay.setup, self._today)
        return self._queues(world, self._question.queues) if self._question.queues else world

    def make(self, changes: Sequence[str]) -> Play:
        """Return a play with some changes at once.

        Args:
            changes: each `<name>=<value>`.

        Raises:
            ChoiceError: there is no such change, scheduler, node or partition, or a value is wrong.
        """
        world = self._world()
        for change in changes:
            name, _, value = change.partition("=")
            if name not in self._changes:
                raise ChoiceError(f"{name}: no such change{did_you_mean(name, self._changes, lead=', ')}")
            world = self._changes[name](world, value)
        return self._play(" ".join(map(_label, changes)), world)

    def _play(self, label: str, world: PlayedWorld) -> Play:
        """Return a play in which jobs keep their GPUs, unless the scheduler is one that stops jobs."""
        preempts = bool(getattr(world.scheduler, "preemptive", True))
        scenario = replace(world.setup.scenario, preemption="allowed" if preempts else "never")
        return Play(label, world.workload, replace(world.setup, scenario=scenario), world.scheduler, world.stretch)

    def _scheduler(self, name: str, question: Question | None = None, typed: Sequence[str] = ()) -> Scheduler:
        run = describe_question(question or self._question, [name], typed)
        return build_schedulers(run.schedulers)[name]

    def _policy(self, world: PlayedWorld, value: str) -> PlayedWorld:
        if not Path(value).exists():
            return _placed_by(world, self._scheduler(value))
        from murmuration.runs.policies import load_policy  # needs torch

        return _placed_by(world, load_policy(value))

    def _queues(self, world: PlayedWorld, value: str) -> PlayedWorld:
        """Let the scheduler place what queues of Kueue admit; a job's queue is in the record, or its tenant's."""
        inner = world.scheduler.inner if isinstance(world.scheduler, Kueue) else world.scheduler
        return replace(_by_queue(world), scheduler=behind_kueue(inner, value, overcommit=True))

    def _slurm_conf(self, world: PlayedWorld, value: str) -> PlayedWorld:
        return replace(world, scheduler=self._scheduler("slurm", replace(self._question, slurm_conf=value)))

    def _constraints(self, world: PlayedWorld, value: str) -> PlayedWorld:
        """Let jobs run on any node: one partition has all, and GPU types do not matter."""
        if value != "none":
            raise ChoiceError(f"constraints={value[:40]}: must be none")
        nodes = [
            replace(node, gpu_type=name_of_nodes(plain_type(node.gpu_type), (), features_of(node.gpu_type)))
            for node in world.setup.cluster.nodes
        ]
        one = "schedulers.slurm.partitions={everywhere: {Default: true}}"
        if self._question.incumbent == "slurm" and world.scheduler is self._today:
            world = replace(world, scheduler=self._scheduler("slurm", typed=[one]))
        return _on(_edit_constraints(world, lambda asked: replace(asked, pools=(), gpu_types=())), nodes)

    def _without(self, world: PlayedWorld, value: str) -> PlayedWorld:
        names = self._replay.names
        if self._question.reservations:
            raise ChoiceError(f"without={value}: numbers of nodes change, which --reservations needs; leave one out")
        wanted = list(expand_node_names("without", value))
        for name in wanted:
            if name not in names:
                raise ChoiceError(
                    f"without={name}: no such node{did_you_mean(name, names, lead=', ')}; there are {_some(names)}"
                )
        kept = [node for name, node in zip(names, world.setup.cluster.nodes, strict=False) if name not in wanted]
        kept += world.setup.cluster.nodes[len(names) :]
        return _on(world, kept)


def _placed_by(world: PlayedWorld, scheduler: Scheduler) -> PlayedWorld:
    """Return a world in which another scheduler places the jobs, behind the queues that are there."""
    if isinstance(world.scheduler, Kueue):
        scheduler = world.scheduler.around(scheduler)
    return replace(world, scheduler=scheduler)


def _by_queue(world: PlayedWorld) -> PlayedWorld:
    """Return a world in which tenants are namespace/queue, where the record has the queue of a job."""
    past, load = world.workload.recorded, world.workload
    if past is None or not any(past.queue) or "/" in "".join(load.tenants):
        return world
    names = [
        f"{load.tenants[tenant]}/{queue}" if queue else load.tenants[tenant]
        for tenant, queue in zip(load.jobs["tenant"].tolist(), past.queue, strict=True)
    ]
    tenants, jobs = tuple(dict.fromkeys(names)), load.jobs.copy()
    number = {name: place for place, name in enumerate(tenants)}
    jobs["tenant"] = [number[name] for name in names]
    return replace(world, workload=replace(load, jobs=jobs, tenants=tenants))


def _label(change: str) -> str:
    """Return a change as tables call it: policies by their names, or by those of their folders."""
    name, _, value = change.partition("=")
    if name == "queues":
        return f"queues={Path(value).name}"
    return Path(value).name if name == "policy" else change


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8:,} more" if len(names) > 8 else "")


def _number(name: str, value: str, low: float, high: float) -> float:
    try:
        found = float(value)
    except ValueError:
        found = float("nan")
    if not low <= found <= high:
        raise ChoiceError(f"{name}={value[:40]}: must be a number from {low:g} to {high:g}")
    return found


def _on(world: PlayedWorld, nodes: Sequence[NodeSpec]) -> PlayedWorld:
    """Return a world with other nodes; jobs that fit none are refused as the world refuses them."""
    cluster = replace(world.setup.cluster, nodes=tuple(nodes))
    return replace(world, setup=replace(world.setup, cluster=cluster))


def _load(world: PlayedWorld, value: str) -> PlayedWorld:
    """Let jobs come faster: times between submissions are divided by the value."""
    factor = _number("load", value, 0.01, 100)
    jobs = world.workload.jobs.copy()
    for column in ("submit_time", "begin_time"):
        jobs[column] /= factor
    return replace(world, workload=replace(world.workload, jobs=jobs), stretch=world.stretch * factor)


def _nodes(world: PlayedWorld, value: str) -> PlayedWorld:
    """Add nodes like those of a GPU type that the cluster has, such as +2xH100, or of a partition, +2xH100:batch."""
    form = _NODES.fullmatch(value)
    if form is None:
        raise ChoiceError(f"nodes={value[:40]}: write +2xH100, or +2xH100:partition")
    count, gpu_type, pool = int(form[1]), form[2], form[3]
    cluster = world.setup.cluster
    like = [
        node
        for node in cluster.nodes
        if plain_type(node.gpu_type).lower() == gpu_type.lower() and (not pool or pool in pools_of(node.gpu_type))
    ]
    if not like:
        known = sorted({plain_type(name) for name in cluster.gpu_types})
        raise ChoiceError(
            f"nodes={value[:40]}: the cluster has no such nodes to add to; its GPUs are {', '.join(known)}"
        )
    return _on(world, [*cluster.nodes, *[like[0]] * count])


def _edit_constraints(world: PlayedWorld, edit: Callable[[Constraints], Constraints]) -> PlayedWorld:
    models = [constrain(model, edit(constraints_of(model))) for model in world.workload.models]
    every = tuple(dict.fromkeys(models))
    jobs = world.workload.jobs.copy()
    jobs["model"] = np.array([every.index(model) for model in models])[jobs["model"]]
    return replace(world, workload=replace(world.workload, jobs=jobs, models=every))


def _partition(world: PlayedWorld, value: str) -> PlayedWorld:
    """Let the jobs of one partition run in another one, too, such as debug:batch."""
    old, _, new = value.partition(":")
    known = sorted({pool for name in world.setup.cluster.gpu_types for pool in pools_of(name)})
    for name in (old, new):
        if name not in known:
            raise ChoiceError(
                f"partition={value[:60]}: the cluster has no partition {name or 'of that name'}"
                f"{did_you_mean(name, known, lead=', ')}; write partition=<from>:<to>; there are {_some(known)}"
            )

    def edit(asked: Constraints) -> Constraints:
        if old not in asked.pools:
            return asked
        return replace(asked, pools=(new,), gpu_types=())

    return _edit_constraints(world, edit)


def _limit_accuracy(world: PlayedWorld, value: str) -> PlayedWorld:
    """Let users state limits this many times as long as their jobs run, where they state longer ones."""
    factor = _number("limit-accuracy", value, 1, 1000)
    jobs = world.workload.jobs.copy()
    if not (jobs["time_limit"] > 0).any():
        raise ChoiceError(f"limit-accuracy={value}: the jobs have no time limits")
    stated = jobs["time_limit"] > 0
    closer = np.minimum(jobs["time_limit"], jobs["duration"] * factor * (1 + 1e-6))
    jobs["time_limit"] = np.where(stated, closer, 0.0)
    return replace(world, workload=replace(world.workload, jobs=jobs))
