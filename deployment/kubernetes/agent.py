"""Run the commands of bound pods on a test cluster whose nodes are only objects, as a kubelet would.

Each command is a process of this machine. It gets SIGTERM when its pod is to end, and SIGKILL after the grace time.
Its progress is what it reports itself, as a job on a node would.

python -m deployment.kubernetes.agent <kubeconfig>
"""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deployment.adapter import ActionRefusedError
from deployment.kubernetes.api import KubernetesApi, ResourceWatch
from deployment.kubernetes.pods import OVER, field_text
from deployment.reading import Entry, ProtocolError
from envs.types import Seconds

LOOK: Seconds = 0.02  # between two looks at the processes
FOREVER = ["sleep", "infinity"]  # the command of a pod that names none


@dataclass(slots=True)
class PodProcess:
    """The process of a pod, and when it is killed, on the monotonic clock; 0 while it may run."""

    process: "subprocess.Popen[bytes]"
    killed_at: float = 0.0


class NodeAgent:
    """Runs the pods of all nodes of a test cluster.

    Args:
        api: of the cluster.
    """

    def __init__(self, api: KubernetesApi) -> None:
        self._api, self._changed = api, threading.Event()
        self._pods = ResourceWatch(api, "/api/v1/pods", changed=self._changed.set)
        self._processes: dict[str, PodProcess] = {}
        self._told: dict[str, str] = {}  # the last phase of each pod that this agent has reported

    def run(self) -> None:
        """Look after the pods until this process is ended; then end theirs."""
        try:
            while True:
                self._changed.wait(LOOK)
                self._changed.clear()
                with suppress(ActionRefusedError):  # the server is away: the processes go on
                    self.look()
        finally:
            for each in self._processes.values():
                _signal(each, signal.SIGKILL)

    def look(self) -> None:
        """Look at all pods once.

        Raises:
            ActionRefusedError: the server does not answer.
        """
        pods = {field_text(pod, "metadata", "uid"): pod for pod in self._pods.items()}
        for uid in [uid for uid in self._processes if uid not in pods]:  # deleted without grace, or with its node
            _signal(self._processes.pop(uid), signal.SIGKILL)
        self._told = {uid: phase for uid, phase in self._told.items() if uid in pods}
        for uid, pod in pods.items():
            if field_text(pod, "spec", "nodeName"):
                with suppress(ProtocolError):  # a pod that nobody can read stays as it is
                    self._look_at(uid, pod)

    def _look_at(self, uid: str, pod: Entry) -> None:
        phase, running = self._told.get(uid) or field_text(pod, "status", "phase"), self._processes.get(uid)
        ending = pod.field("metadata").optional("deletionTimestamp") is not None
        if running is None:
            if ending:
                self._remove(pod)
            elif phase == "Running":
                self._report(uid, pod, "Failed")  # of an agent that was ended
            elif phase not in OVER:
                self._processes[uid] = PodProcess(_start(pod))
                self._report(uid, pod, "Running")
            return
        if ending and not running.killed_at:
            grace = pod.field("metadata").optional("deletionGracePeriodSeconds")
            running.killed_at = time.monotonic() + (grace.number() if grace is not None else 30.0)
            _signal(running, signal.SIGTERM)
        if running.killed_at and time.monotonic() > running.killed_at:
            _signal(running, signal.SIGKILL)
        status = running.process.poll()
        if status is not None:
            if ending:
                self._remove(pod)
            else:
                self._report(uid, pod, "Failed" if status else "Succeeded")
            del self._processes[uid]

    def _report(self, uid: str, pod: Entry, phase: str) -> None:
        self._api.request("PATCH", f"{_path(pod)}/status", {"status": {"phase": phase}})
        self._told[uid] = phase

    def _remove(self, pod: Entry) -> None:
        body = {"preconditions": {"uid": field_text(pod, "metadata", "uid")}, "gracePeriodSeconds": 0}
        with suppress(ActionRefusedError):  # it has gone meanwhile
            self._api.request("DELETE", _path(pod), body)


def _path(pod: Entry) -> str:
    space, name = (field_text(pod, "metadata", field) for field in ("namespace", "name"))
    return f"/api/v1/namespaces/{space}/pods/{name}"


def _start(pod: Entry) -> "subprocess.Popen[bytes]":
    container = next(pod.field("spec").field("containers").items())
    words = [each.text(10_000) for part in ("command", "args") if (found := container.optional(part)) is not None
             for each in found.items()]  # fmt: skip
    folder = field_text(container, "workingDir") or "/tmp"
    with Path(os.devnull).open("ab") as nothing:
        try:
            return subprocess.Popen(
                words or FOREVER, cwd=folder, stdin=subprocess.DEVNULL, stdout=nothing, stderr=nothing,
                start_new_session=True,
            )  # fmt: skip
        except OSError:  # no such command or folder: it fails, as a container would
            return subprocess.Popen(["false"], start_new_session=True)


def _signal(running: PodProcess, how: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(running.process.pid, how)


def main() -> None:
    """Run the agent of the command line until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    NodeAgent(KubernetesApi(Path(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
