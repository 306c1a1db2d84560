"""Kubernetes as a `ClusterAdapter`, through kubectl: a skeleton that has never met a real cluster.

Its tests use answers of the form that the API documents. A task is one pod for each node of a gang, all with the same
note in an annotation. What it lacks: waiting for a gang as a whole, a volume for the jobs' folders, and node selectors
for anything else than the name.
"""

import json
import subprocess
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from deployment.adapter import (
    CLAIM_MARK,
    MARK,
    ActionRefusedError,
    ClusterTakenError,
    NodeStatus,
    TaskNote,
    TaskStatus,
    read_note,
)
from deployment.reading import Entry, ProtocolError, parse_json
from envs.types import Seconds, as_line

GPU = "nvidia.com/gpu"
TYPE = "nvidia.com/gpu.product"  # the label that NVIDIA's feature discovery sets
UNITS = {"": 1.0, "m": 1e-3, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "k": 1e3, "M": 1e6, "G": 1e9}
PHASES: dict[str, Literal["pending", "running", "ended"]] = {"Pending": "pending", "Running": "running"}


class KubernetesAdapter:
    """Starts and stops pods.

    Args:
        image: of the container in which a job's command runs.
        grace: seconds from SIGTERM to SIGKILL.
        kubectl: runs kubectl with these arguments and this input, and returns what it prints; for tests.
        user: of the bridge. Kubernetes does not tell who has made a pod: all who may make some in this namespace are
            trusted.
    """

    def __init__(
        self,
        image: str,
        grace: Seconds = 30.0,
        kubectl: Callable[[Sequence[str], str], str] | None = None,
        user: str = MARK,
    ) -> None:
        self._image, self._grace, self.user = image, grace, user
        self._kubectl = kubectl or run_kubectl

    def claim(self, owner: str) -> None:
        """Claim the cluster by a config map, of which there is one."""
        try:
            self._kubectl(["create", "configmap", CLAIM_MARK, f"--from-literal=owner={owner}"], "")
        except ActionRefusedError:
            held = self._holder()
            if held is None:
                raise
            if held != owner:
                raise ClusterTakenError(
                    f"the bridge {as_line(held)} has claimed the cluster by the config map {CLAIM_MARK}; go on with it "
                    f"by continued=<its folder>, or, if it is gone for good, kubectl delete configmap {CLAIM_MARK}"
                ) from None

    def leave(self, owner: str) -> None:
        """Delete the config map by which a bridge has claimed the cluster."""
        if self._holder() == owner:
            self._kubectl(["delete", "configmap", CLAIM_MARK, "--ignore-not-found"], "")

    def _holder(self) -> str | None:
        printed = self._kubectl(["get", "configmap", CLAIM_MARK, "--output=json", "--ignore-not-found"], "")
        try:
            data = parse_json(printed, "kubectl get configmap").field("data") if printed.strip() else None
            return None if data is None else data.field("owner").text()
        except ProtocolError as error:
            raise ActionRefusedError(str(error)) from None

    def nodes(self) -> Sequence[NodeStatus]:
        """Return the nodes with GPUs, by name."""
        try:
            return self._read_nodes()
        except ProtocolError as error:
            raise ActionRefusedError(str(error)) from None

    def _read_nodes(self) -> Sequence[NodeStatus]:
        found = []
        for node in self._items("nodes"):
            status, meta = node.field("status"), node.field("metadata")
            capacity, labels = status.field("capacity"), meta.optional("labels")
            if GPU not in capacity.value:
                continue
            conditions = {
                each.field("type").text(): each.field("status").text() for each in status.field("conditions").items()
            }
            closed = node.field("spec").optional("unschedulable")
            gpu_type = labels.optional(TYPE) if labels is not None else None
            found.append(
                NodeStatus(
                    meta.field("name").text(),
                    "gpu" if gpu_type is None else gpu_type.text(),
                    int(quantity(capacity.field(GPU))),
                    quantity(capacity.field("cpu")),
                    quantity(capacity.field("memory")) / 1e9,
                    conditions.get("Ready") == "True" and not (closed is not None and closed.switch()),
                )
            )
        return sorted(found, key=lambda each: each.name)

    def tasks(self) -> Sequence[TaskStatus]:
        """Return the tasks that bridges have started; one whose pods differ is pending, and ended if one has ended."""
        try:
            return self._read_tasks()
        except ProtocolError as error:
            raise ActionRefusedError(str(error)) from None

    def _read_tasks(self) -> Sequence[TaskStatus]:
        states: dict[str, set[Literal["pending", "running", "ended"]]] = defaultdict(set)
        notes: dict[str, TaskNote] = {}
        for pod in self._items("pods", f"--selector=app={MARK}"):
            annotations = pod.field("metadata").optional("annotations")
            written = annotations.optional(MARK) if annotations is not None else None
            note = read_note(written.text(100_000), self.user) if written is not None else None
            if note is None:
                continue
            name = task_name(note)
            notes[name] = note
            states[name].add(PHASES.get(pod.field("status").field("phase").text(), "ended"))
        return [
            TaskStatus(name, note, next(state for state in ("ended", "pending", "running") if state in states[name]))
            for name, note in sorted(notes.items())
        ]

    def start(self, note: TaskNote, command: Sequence[str], folder: Path) -> str:
        """Create the pods of a task."""
        pods = [self._pod(note, node, gpus, command, folder) for node, gpus in note.gpus.items()]
        self._kubectl(["create", "--filename=-"], json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
        return task_name(note)

    def _pod(self, note: TaskNote, node: str, gpus: int, command: Sequence[str], folder: Path) -> dict[str, Any]:
        container = {
            "name": "job",
            "image": self._image,
            "command": list(command),
            "workingDir": str(folder),
            "resources": {"limits": {GPU: gpus}},
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{task_name(note)}-{list(note.gpus).index(node)}",
                "labels": {"app": MARK, "task": task_name(note)},
                "annotations": {MARK: note.write()},
            },
            "spec": {
                "nodeName": node,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": int(self._grace),
                "containers": [container],
            },
        }

    def release(self, task: TaskStatus, note: TaskNote) -> None:
        """Refuse: no task says that it can release nodes."""
        raise ActionRefusedError(f"task {task.name}: its pods are stopped together; start it anew on fewer nodes")

    def stop(self, task: TaskStatus, *, kill: bool = False) -> None:
        """Delete the pods of a task: Kubernetes sends SIGTERM, and SIGKILL after the grace time or at once."""
        words = ["delete", "pods", f"--selector=task={task.name}", "--wait=false", "--ignore-not-found"]
        self._kubectl([*words, "--grace-period=0", "--force"] if kill else words, "")

    def _items(self, what: str, *options: str) -> list[Entry]:
        printed = self._kubectl(["get", what, "--output=json", *options], "")
        return list(parse_json(printed, f"kubectl get {what}").field("items").items())


def task_name(note: TaskNote) -> str:
    """Return the name of a task, which is that of its pods without their numbers."""
    return f"{MARK}-{note.owner.rpartition('.')[2]}-{note.job}-{note.segment}"


def quantity(entry: Entry) -> float:
    """Return a quantity such as "8", "64250m" or "527942Mi" as a number.

    Raises:
        ProtocolError: it is none.
    """
    text = entry.text(40)
    digits = text.rstrip("kKMGTim")
    try:
        return float(digits) * UNITS[text[len(digits) :]]
    except (ValueError, KeyError):
        raise entry.refuse("a quantity such as 8, 64250m or 527942Mi") from None


def run_kubectl(words: Sequence[str], given: str) -> str:
    """Run kubectl and return what it prints.

    Raises:
        ActionRefusedError: it is missing, fails, or does not answer within 20 seconds.
    """
    try:
        done = subprocess.run(["kubectl", *words], input=given, capture_output=True, text=True, timeout=20.0)
    except FileNotFoundError:
        raise ActionRefusedError("kubectl: not found; install it and choose a cluster") from None
    except subprocess.TimeoutExpired:
        raise ActionRefusedError("kubectl: no answer within 20 s") from None
    if done.returncode:
        raise ActionRefusedError(f"kubectl: {as_line(' '.join(done.stderr.split())[:300])}")
    return done.stdout
