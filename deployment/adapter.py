"""The interface between the bridge and a cluster manager such as Slurm or Kubernetes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from envs.types import JobId, MurmurationError

TaskState = Literal["pending", "running", "ended"]
MARK = "murmuration"  # begins the note of every task that a bridge has started


class ActionRefusedError(MurmurationError):
    """The cluster manager refused an action or did not answer; the bridge looks again and tries later."""


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node as the cluster manager describes it; memory in GB."""

    name: str
    gpu_type: str
    num_gpus: int
    cpu_cores: float
    memory: float
    up: bool


@dataclass(frozen=True, slots=True)
class TaskNote:
    """The note that a bridge writes on a task, so that the cluster manager alone knows which job runs where.

    Attributes:
        job: its id.
        segment: number of the job's start, from 1.
        gpus: by name of node.
    """

    job: JobId
    segment: int
    gpus: Mapping[str, int]

    def write(self) -> str:
        """Return the note as a text without spaces."""
        return f"{MARK}/{self.job}/{self.segment}/" + ",".join(f"{node}={count}" for node, count in self.gpus.items())


def read_note(text: str) -> TaskNote | None:
    """Return the note of a task; None if no bridge has started it."""
    parts = text.split("/")
    if len(parts) != 4 or parts[0] != MARK:
        return None
    try:
        pairs = [each.split("=") for each in parts[3].split(",")]
        return TaskNote(int(parts[1]), int(parts[2]), {node: int(count) for node, count in pairs})
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One segment of a job as the cluster manager sees it.

    Attributes:
        name: by which the manager knows it, such as a Slurm job id.
        note: of the bridge that started it.
        state: whether it waits, runs, or has ended or is about to.
        first_node: name of the node that it cannot release; empty where it can release none, see `release`.
    """

    name: str
    note: TaskNote
    state: TaskState
    first_node: str = ""


class ClusterAdapter(Protocol):
    """The requests of a bridge to a cluster manager. Every method asks the manager; nothing is remembered."""

    def nodes(self) -> Sequence[NodeStatus]:
        """Return the nodes with GPUs, in an order that does not change.

        Raises:
            ActionRefusedError: the manager does not answer.
        """
        ...

    def tasks(self) -> Sequence[TaskStatus]:
        """Return the tasks that a bridge has started; those that have ended may be absent.

        Raises:
            ActionRefusedError: the manager does not answer.
        """
        ...

    def start(self, note: TaskNote, command: Sequence[str], folder: Path) -> str:
        """Start a command on the GPUs of a note; return the name of the task.

        Raises:
            ActionRefusedError: the manager refuses.
        """
        ...

    def release(self, task: TaskStatus, note: TaskNote) -> None:
        """Release the nodes of a running task that a note does not name, and put that note on the task.

        Only for a task with a `first_node`, which must be among them. Its command has stopped before.

        Raises:
            ActionRefusedError: the manager refuses; the task is as it was.
        """
        ...

    def stop(self, task: TaskStatus, *, kill: bool = False) -> None:
        """Ask a task to write a checkpoint and end (SIGTERM), or end it now.

        Raises:
            ActionRefusedError: the manager refuses. A task that has ended is no error.
        """
        ...
