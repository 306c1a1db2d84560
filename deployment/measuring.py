"""Latencies of a cluster manager, measured with a few short tasks: what a start and a stop cost."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deployment.adapter import ActionRefusedError, ClusterAdapter, TaskNote
from deployment.jobs import RUNNING, JobReport, read_report
from envs.types import Seconds

PATIENCE: Seconds = 60.0


@dataclass(frozen=True)
class MeasuredLatencies:
    """Seconds of real time, one entry for each task that was started for them; none where nothing was measured.

    Attributes:
        start: from the order to start a task to its first process.
        stop: from the order to stop to the checkpoint.
        restart: from the order to stop and start a task to the first process of its next segment.
        look: of one look at the cluster.
    """

    start: Sequence[float] = ()
    stop: Sequence[float] = ()
    restart: Sequence[float] = ()
    look: Sequence[float] = ()

    def costs(self, interval: Seconds) -> list[tuple[float, float]]:
        """Return what a start and a restart cost from the event that calls for them on, for each task.

        Args:
            interval: seconds of real time between two looks: an event waits half of it, and for the look.
        """
        late = [interval / 2.0 + look for look in self.look]
        return [
            (start + wait, restart + wait) for start, restart, wait in zip(self.start, self.restart, late, strict=True)
        ]

    def __str__(self) -> str:
        return ", ".join(
            f"{name.replace('restart', 'stop and start')} {statistics.mean(values):.3f} s"
            for name, values in vars(self).items()
        )


def measure_latencies(
    adapter: ClusterAdapter, owner: str, command: Callable[[Path, int], Sequence[str]], folder: Path, count: int
) -> MeasuredLatencies:
    """Start, stop and start again some tasks, one after the other, on the nodes in turn.

    Args:
        adapter: of the cluster manager.
        owner: id of the bridge for the notes of these tasks.
        command: returns the command of a task that never ends by itself, from its folder and its segment.
        folder: for the tasks' folders.
        count: the number of tasks.

    Raises:
        ActionRefusedError: the manager refuses, or a task does not run within a minute.
    """
    starts, stops, restarts, looks = [], [], [], []
    nodes = [node for node in adapter.nodes() if node.up]
    for number in range(count):
        place, gpus = folder / str(number), {nodes[number % len(nodes)].name: 1}
        place.mkdir(parents=True)
        ordered = time.time()
        adapter.tasks()
        looks.append(time.time() - ordered)
        ordered = time.time()
        adapter.start(TaskNote(owner, number, 1, gpus), command(place, 1), place)
        starts.append(_wait(place, 1).began - ordered)
        ordered = time.time()
        _stop(adapter, owner, number)
        adapter.start(TaskNote(owner, number, 2, gpus), command(place, 2), place)
        restarts.append(_wait(place, 2).began - ordered)
        ordered = time.time()
        _stop(adapter, owner, number)
        stops.append(_wait(place, 2, running=False).updated - ordered)
    return MeasuredLatencies(starts, stops, restarts, looks)


def _stop(adapter: ClusterAdapter, owner: str, number: int) -> None:
    for task in adapter.tasks():
        if (task.note.owner, task.note.job) == (owner, number) and task.state != "ended":
            adapter.stop(task)


def _wait(folder: Path, segment: int, *, running: bool = True) -> JobReport:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = read_report(folder)
        if found is not None and found.segment == segment and (found.state == RUNNING) is running:
            return found
        time.sleep(0.01)
    raise ActionRefusedError(f"{folder}: its task did not {'run' if running else 'stop'} within {PATIENCE:g} s")
