"""The interface between the bridge and a cluster manager such as Slurm or Kubernetes."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from envs.types import JobId, MurmurationError

TaskState = Literal["pending", "running", "ended"]
MARK = "murmuration"  # begins the note of every task that a bridge has started
CLAIM_MARK = "murmuration-bridge"  # begins the note of the task by which a bridge claims a cluster
MOST_GPUS_OF_NODE = 1024


class ActionRefusedError(MurmurationError):
    """The cluster manager refused an action or did not answer; the bridge looks again and tries later."""


class ClusterTakenError(MurmurationError):
    """Another bridge has claimed the cluster."""


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
        owner: id of the bridge, see `name_owner`.
        job: its id.
        segment: number of the job's start, from 1.
        gpus: by name of node.
    """

    owner: str
    job: JobId
    segment: int
    gpus: Mapping[str, int]

    def write(self) -> str:
        """Return the note as a text without spaces."""
        gpus = ",".join(f"{node}={count}" for node, count in self.gpus.items())
        return f"{MARK}/{self.owner}/{self.job}/{self.segment}/{gpus}"


@dataclass(frozen=True, slots=True)
class ClusterClaim:
    """The task by which a bridge keeps others off a cluster.

    Attributes:
        name: by which the cluster manager knows the task.
        owner: id of the bridge.
        user: who has submitted the task.
    """

    name: str
    owner: str
    user: str


def name_owner(user: str) -> str:
    """Return the id of a new bridge, from its user and random digits."""
    return f"{user}.{secrets.token_hex(6)}"


def read_note(text: str, user: str) -> TaskNote | None:
    """Return the note of a task that a user has submitted; None if no bridge of that user has written it."""
    parts = text.split("/")
    if len(parts) != 5 or parts[0] != MARK or parts[1].rpartition(".")[0] != user:
        return None
    try:
        pairs = [each.split("=") for each in parts[4].split(",")]
        note = TaskNote(parts[1], _number(parts[2]), _number(parts[3]), {node: _number(count) for node, count in pairs})
    except ValueError:
        return None
    return note if all(0 < count <= MOST_GPUS_OF_NODE for count in note.gpus.values()) else None


def read_claim(name: str, text: str, user: str) -> ClusterClaim | None:
    """Return the claim that a task is; None if its note is that of none."""
    mark, _, owner = text.partition("/")
    return ClusterClaim(name, owner, user) if mark == CLAIM_MARK and owner else None


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise ValueError
    return int(text)


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

    @property
    def user(self) -> str:
        """The user whose tasks this adapter starts and sees."""
        ...

    def claim(self, owner: str) -> None:
        """Claim the cluster for a bridge; one that has the claim keeps it, also after it was killed.

        Raises:
            ClusterTakenError: another bridge has it.
            ActionRefusedError: the manager does not answer, or refuses.
        """
        ...

    def leave(self, owner: str) -> None:
        """Give the claim of a bridge up; nothing if it has none.

        Raises:
            ActionRefusedError: the manager does not answer, or refuses.
        """
        ...

    def nodes(self) -> Sequence[NodeStatus]:
        """Return the nodes with GPUs, in an order that does not change.

        Raises:
            ActionRefusedError: the manager does not answer.
        """
        ...

    def tasks(self) -> Sequence[TaskStatus]:
        """Return the tasks that bridges of this user have started; those that have ended may be absent.

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
