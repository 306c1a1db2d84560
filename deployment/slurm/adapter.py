"""Slurm as a `ClusterAdapter`, through its command line tools."""

import os
import pwd
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from deployment.adapter import (
    CLAIM_MARK,
    ActionRefusedError,
    ClusterClaim,
    ClusterTakenError,
    NodeStatus,
    TaskNote,
    TaskStatus,
)
from deployment.reading import ProtocolError
from deployment.slurm.parsing import read_claims, read_nodes, read_tasks
from envs.types import Seconds, as_line

Listed = TypeVar("Listed")
SILENT = "failed without an error message"
# How scancel reports that a task has ended. If the task ends just before the signal, scancel prints nothing.
GONE = ("Invalid job id", "already completing", "Job/step already", "Invalid job/step", SILENT)


class SlurmAdapter:
    """Starts and stops tasks by sbatch and scancel, shrinks them by scontrol, and looks by squeue and sinfo.

    Args:
        environment: of the commands; None for that of this process. `SLURM_CONF` may name the cluster.
        patience: seconds after which a command counts as refused.
        options: further options of sbatch, such as `--partition=gpu`.
    """

    def __init__(
        self, environment: Mapping[str, str] | None = None, patience: Seconds = 20.0, options: Sequence[str] = ()
    ) -> None:
        self._environment = dict(os.environ if environment is None else environment)
        self._patience, self._options = patience, list(options)

    def nodes(self) -> Sequence[NodeStatus]:
        """Return the nodes with GPUs, by name."""
        return self._read(lambda: read_nodes(self._run(["sinfo", "--json"])))

    def tasks(self) -> Sequence[TaskStatus]:
        """Return the tasks that a bridge has started and that wait, run or are about to end."""
        return self._read(lambda: read_tasks(self.queue(), self.user))

    @property
    def user(self) -> str:
        """The user of this process, or the one whose token slurmrestd gets."""
        return self._environment.get("SLURM_USER_NAME") or pwd.getpwuid(os.getuid()).pw_name

    def claim(self, owner: str) -> None:
        """Claim the cluster by a task that is held and so never runs; of several claims the oldest counts.

        Users and other machines see it too, and it stays where a bridge is killed.
        """
        held = ["--hold", "--nodes=1", "--output=/dev/null", f"--job-name={CLAIM_MARK}", *self._options]
        own = [each for each in self._claims() if (each.owner, each.user) == (owner, self.user)]
        if not own:
            self._run(["sbatch", f"--comment={CLAIM_MARK}/{owner}", *held], "#!/bin/sh\nexit 0\n")
        first = self._claims()[0]
        if (first.owner, first.user) != (owner, self.user):
            self.leave(owner)
            raise ClusterTakenError(
                f"the bridge {as_line(first.owner)} has claimed the cluster by the Slurm job {first.name} of the user "
                f"{as_line(first.user)}; wait until it has ended, go on with it by continued=<its folder>, an adviser "
                f"by state=<its folder>, or, if it is gone for good, scancel {first.name}"
            )

    def leave(self, owner: str) -> None:
        """Cancel the task by which a bridge has claimed the cluster."""
        for each in self._claims():
            if (each.owner, each.user) == (owner, self.user):
                self._run(["scancel", each.name])

    def _claims(self) -> Sequence[ClusterClaim]:
        return self._read(lambda: read_claims(self.queue()))

    def queue(self) -> str:
        """Return what `squeue --json` prints, with the jobs of everybody.

        Raises:
            ActionRefusedError: Slurm does not answer.
        """
        return self._run(["squeue", "--json"])

    def start(self, note: TaskNote, command: Sequence[str], folder: Path) -> str:
        """Submit a command on the GPUs of a note; an uneven gang becomes a heterogeneous job."""
        parts = [
            (gpus, [node for node, _ in group])
            for gpus, group in groupby(sorted(note.gpus.items(), key=lambda each: each[1]), key=lambda each: each[1])
        ]
        words = ["sbatch", "--parsable"]
        for number, (gpus, nodes) in enumerate(parts):
            words += [":"] if number else []
            words += [f"--nodes={len(nodes)}", f"--gres=gpu:{gpus}", f"--nodelist={','.join(nodes)}"]
            words += [f"--comment={note.write()}", f"--job-name=murmuration-{note.job}", "--no-requeue", *self._options]
            words += ["--output=/dev/null", f"--error={folder / 'errors.txt'}", f"--chdir={folder}"]
        script = f"#!/bin/sh\nexec {shlex.join(command)}\n"
        return self._run(words, script).strip().split(";")[0]

    def release(self, task: TaskStatus, note: TaskNote) -> None:
        """Release some nodes of a running task (`scontrol update NodeList`).

        Slurm ends job steps on the others. Without accounting, Slurm 22.05 lets each job do this once.
        """
        named = f"NodeList={','.join(sorted(note.gpus))}"
        self._run(["scontrol", "update", f"JobId={task.name}", named, f"Comment={note.write()}"])

    def stop(self, task: TaskStatus, *, kill: bool = False) -> None:
        """Send SIGTERM to a task's command, or end it; one that waits in Slurm's queue is cancelled either way."""
        how = [] if kill or task.state == "pending" else ["--signal=TERM", "--full"]
        try:
            self._run(["scancel", *how, task.name])
        except ActionRefusedError as error:
            if not any(each in str(error) for each in GONE):
                raise

    def set_nice(self, job: str, value: int) -> None:
        """Set the `nice` of a job; values below the present one are for operators and root alone.

        Raises:
            ActionRefusedError: Slurm refuses, or does not answer; the value may be set or not.
        """
        self._run(["scontrol", "update", f"JobId={job}", f"Nice={value}"])

    def _read(self, read: Callable[[], Sequence[Listed]]) -> Sequence[Listed]:
        try:
            return read()
        except ProtocolError as error:
            raise ActionRefusedError(str(error)) from None

    def _run(self, command: Sequence[str], given: str = "") -> str:
        try:
            done = subprocess.run(
                command, env=self._environment, input=given.encode(), capture_output=True, timeout=self._patience
            )
        except FileNotFoundError:
            raise ActionRefusedError(f"{command[0]}: not found; install Slurm's client commands") from None
        except subprocess.TimeoutExpired:
            raise ActionRefusedError(f"{command[0]}: no answer within {self._patience:g} s") from None
        except OSError as error:
            raise ActionRefusedError(f"{command[0]}: cannot be run ({error.strerror})") from None
        printed, errors = (each.decode(errors="replace") for each in (done.stdout, done.stderr))  # users choose names
        if done.returncode:
            ended = SILENT if done.returncode > 0 else f"ended by signal {-done.returncode}"
            raise ActionRefusedError(f"{command[0]}: {as_line(' '.join(errors.split())[:300]) or ended}")
        return printed
