"""Changed decisions and job reports against a bridge and a cluster manager in memory, which checks every order."""

import json
import math
import os
import random
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from baselines import Srtf
from deployment.adapter import NodeStatus, TaskNote, TaskStatus
from deployment.bridge import Bridge, BridgeRules
from deployment.clock import SteadyClock
from deployment.deciding import LocalScheduler
from deployment.jobs import (
    DONE,
    MOST,
    PROGRESS,
    RUNNING,
    STATES,
    BadReportError,
    JobReport,
    load_report,
    write_progress,
)
from deployment.mirror import Mirror
from deployment.state import ClusterState, Decision
from envs.performance import default_model
from envs.simulation import Setup
from envs.types import ClusterSpec, ExecutionPlan, JobSpec, MurmurationError, NodeSpec, Placement, Seconds
from murmuration.config.errors import RunFailedError
from murmuration.soak.fuzzing.changes import change_value, spoil_bytes
from murmuration.soak.fuzzing.count import FuzzCount

SETUP = Setup(ClusterSpec(tuple(NodeSpec("V100", 4) for _ in range(3))), default_model())
OWNER = "fuzz.0f-0"
SAMPLES_PER_SECOND = 100.0  # of a GPU in memory
CHANGED = 0.5  # probability that a decision is changed
LONGEST: Seconds = 2000.0  # of a world: one whose decisions start nothing never ends
NUMBERS: tuple[Any, ...] = (-1, 0, 3, 5, 99, 1000, 2**31, 2**40, 10**30, True, 1.5, math.nan, math.inf, "x", None, [])
ODD = (*NUMBERS, 1e308, -0.0, "running", {}, [1.0], int("9" * 400))  # in place of a value of a report
TIMES: tuple[Any, ...] = (0.0, -1.0, math.nan, -math.inf, "x", None)


class MemoryManager:
    """A cluster manager in memory, whose tasks run at once. It takes nothing for granted that a bridge orders.

    Attributes:
        time: seconds since the beginning.
    """

    user = OWNER.partition(".")[0]

    def __init__(self, specs: Sequence[JobSpec]) -> None:
        self.time: Seconds = 0.0
        self._specs = specs
        self._tasks: dict[str, tuple[TaskNote, Path, float, float]] = {}  # folder, beginning, samples before

    def claim(self, owner: str) -> None:
        """Do nothing: there is one bridge."""

    def leave(self, owner: str) -> None:
        """Do nothing."""

    def nodes(self) -> Sequence[NodeStatus]:
        """Return the nodes, all up."""
        return [
            NodeStatus(f"n{i}", "V100", node.num_gpus, 32.0, 256.0, True) for i, node in enumerate(SETUP.cluster.nodes)
        ]

    def tasks(self) -> Sequence[TaskStatus]:
        """Advance the tasks to the present time and return those that run."""
        for name, (note, folder, began, before) in list(self._tasks.items()):
            throughput = SAMPLES_PER_SECOND * sum(note.gpus.values())
            work, done = self._specs[note.job].work, before + throughput * (self.time - began)
            state = DONE if done >= work else RUNNING
            write_progress(folder, JobReport(note.segment, state, min(done, work), throughput, began, began, self.time))
            if state == DONE:
                del self._tasks[name]
        return [TaskStatus(name, note, "running") for name, (note, *_) in self._tasks.items()]

    def start(self, note: TaskNote, command: Sequence[str], folder: Path) -> str:
        """Start a task.

        Raises:
            RunFailedError: no bridge may order this.
        """
        held = dict.fromkeys((node.name for node in self.nodes()), 0)
        for other, *_ in self._tasks.values():
            for node, count in other.gpus.items():
                held[node] += count
        spec = self._specs[note.job] if 0 <= note.job < len(self._specs) else None
        total = sum(note.gpus.values())
        fits = all(type(count) is int and 0 < count <= 4 - held.get(node, 4) for node, count in note.gpus.items())
        alone = note.job not in [other.job for other, *_ in self._tasks.values()]
        if (
            spec is None
            or not fits
            or not alone
            or not spec.min_gpus <= total <= spec.max_gpus
            or spec.submit_time > self.time
        ):
            raise RunFailedError(f"an illegal order at t = {self.time:g} s: {note}, beside {held}")
        report = load_report(folder)
        self._tasks[f"{note.job}.{note.segment}"] = note, folder, self.time, report.work_done if report else 0.0
        return f"{note.job}.{note.segment}"

    def release(self, task: TaskStatus, note: TaskNote) -> None:
        """Refuse: no task says that it can release nodes.

        Raises:
            RunFailedError: always.
        """
        raise RunFailedError(f"an illegal order to release nodes of {task}")

    def stop(self, task: TaskStatus, *, kill: bool = False) -> None:
        """End a task."""
        self._tasks.pop(task.name, None)


class WrongDecisions:
    """A scheduler whose decisions are changed now and then, as a program that speaks the protocol badly would do.

    Attributes:
        changed: whether the last one was.
    """

    def __init__(self, rng: random.Random) -> None:
        mirror = Mirror(SETUP, most_gpus=SETUP.cluster.num_gpus)
        self._sensible, self._rng, self.changed = LocalScheduler(Srtf(), mirror, np.random.default_rng(0)), rng, False

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision of SRTF, or one with a change."""
        decision = self._sensible.decide(state)
        self.changed = self._rng.random() < CHANGED
        return self._change(decision, state) if self.changed else decision

    def _change(self, decision: Decision, state: ClusterState) -> Decision:
        rng, placements = self._rng, dict(decision.placements)
        job: Any = rng.choice([each.job for each in state.jobs])
        known = placements.get(job) or Placement({rng.randrange(3): rng.randint(1, 4)})
        gpus: dict[Any, Any] = dict(known.gpus)
        match rng.randrange(9):
            case 0:
                return replace(decision, next_decision=rng.choice([*TIMES, state.time, state.time + 1.0]))
            case 1:
                job = rng.choice(NUMBERS[:-1])
            case 2:
                gpus[rng.choice(list(gpus))] = rng.choice(NUMBERS)
            case 3:
                gpus[rng.choice(NUMBERS[:-1])] = 1
            case 4:
                gpus = {node: rng.randint(1, 6) for node in range(rng.randint(0, 3))}
            case 5:
                placements[job] = None
                return replace(decision, placements=placements)
            case 6:
                known = replace(known, batch_size=rng.choice(NUMBERS))
            case 7:
                known = replace(known, beside=rng.choice([*NUMBERS, job]))
            case _:
                amounts = {node: rng.choice(NUMBERS) for node in gpus}
                known = replace(known, cpus=amounts, memory=amounts, plan=rng.choice([None, ExecutionPlan(data=7)]))
        placements[job] = replace(known, gpus=gpus)
        return replace(decision, placements=placements)


def fuzz_decisions(inputs: int, seed: int) -> FuzzCount:
    """Play jobs under decisions of which half are changed; check that each is carried out or refused as a whole.

    Args:
        inputs: decisions.
        seed: determines them.

    Raises:
        RunFailedError: an order is illegal, or an error is raised.
    """
    count, world = FuzzCount("decisions"), 0
    while count.inputs < inputs:
        world += 1
        with tempfile.TemporaryDirectory() as folder:
            _play(random.Random(f"{seed} {world}"), Path(folder), count, world, inputs)
    return count


def _play(rng: random.Random, folder: Path, count: FuzzCount, world: int, most: int) -> None:
    """Let one bridge play eight jobs to their end, or until enough decisions are counted."""
    sizes = [rng.randint(1, 4) for _ in range(8)]
    specs = [
        JobSpec(i, 5.0 * i, size, 100.0 * rng.randint(50, 900), "resnet50", 1, size + rng.randint(0, 4))
        for i, size in enumerate(sizes)
    ]
    manager, maker = MemoryManager(specs), WrongDecisions(rng)
    rules = BridgeRules(False, actions_per_minute=10**6, interval=1.0, retry=2.0)
    clock = SteadyClock(1.0, 0.0, wall=lambda: 0.0, steady=lambda: manager.time)
    bridge = Bridge(manager, OWNER, SETUP, specs, lambda run: ["train"], folder, rules, clock)
    while not bridge.finished and count.inputs < most and manager.time < LONGEST:
        _step(bridge, maker, count, world)
        manager.time += 1.0
    bridge.journal.close()


def _step(bridge: Bridge, maker: WrongDecisions, count: FuzzCount, world: int) -> None:
    """Let a bridge look once, and count its decision if it takes one."""
    counts, trial = bridge.journal.counts, FuzzCount(count.name)
    before = counts["round decided"], counts["decision refused"]
    trial.check(world, lambda: bridge.step(maker))
    decided, refused = counts["round decided"] - before[0], counts["decision refused"] - before[1]
    if trial.refused:
        raise RunFailedError(f"{count.name}: world {world}: an error came out of the bridge")
    count.inputs += decided + refused
    count.changed += (decided + refused) * maker.changed
    count.refused += refused


def fuzz_reports(inputs: int, seed: int) -> FuzzCount:
    """Read reports of which most are changed; what is read must lie in the ranges that are stated.

    Args:
        inputs: reports.
        seed: determines them.

    Raises:
        RunFailedError: one is read that does not, or an error is raised.
    """
    count, rng = FuzzCount("job reports"), random.Random(seed)
    honest = JobReport(3, RUNNING, 400.0, 20.0, 1e9, 1e9 + 5.0, 1e9 + 50.0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(inputs):
            changed = rng.random() < 0.95
            if changed:
                _spoil(folder / PROGRESS, asdict(honest), rng)
            else:
                write_progress(folder, honest)
            count.check(number, lambda: _read(folder), changed=changed)
            _remove(folder / PROGRESS)
    return count


def _read(folder: Path) -> None:
    try:
        found = load_report(folder)
    except BadReportError as error:
        raise MurmurationError(str(error)) from None
    if found is None:
        return
    fits = found.segment > 0 and found.state in STATES and all(0 <= getattr(found, each) <= MOST[each] for each in MOST)
    if not fits or any(type(getattr(found, each)) is not float for each in MOST):
        raise RunFailedError(f"job reports: {found} was read")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def _spoil(path: Path, content: dict[str, Any], rng: random.Random) -> None:
    """Write what a job may leave in place of its report."""
    text = json.dumps(content).encode()
    match rng.randrange(10):
        case 0:
            return os.mkfifo(path)
        case 1:
            return path.symlink_to(
                rng.choice(["/dev/zero", "/dev/null", str(path), str(path.parent), "/proc/self/mem"])
            )
        case 2:
            return path.mkdir()
        case 3 | 4:
            text = spoil_bytes(text, rng)
        case 5:
            text = rng.choice([b" " * 10**7 + text, b'{"a":' * 100_000, b"[" * 100_000])
        case _:
            text = json.dumps(change_value(rng, content, ODD)).encode()
    path.write_bytes(text)
    return None
