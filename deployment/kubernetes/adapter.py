"""Kubernetes as a `ClusterAdapter`: watches on nodes and pods, gangs that are bound as a whole, evictions, a Lease.

A task is one pod for each node of a gang, all with the same note in an annotation and `schedulerName: murmuration`. Its
pods are made first, without a node. They are bound together once the GPUs of all of them are free, by whichever bridge
looks then, since the note says where they belong: nothing is remembered here.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deployment.adapter import (
    CLAIM_MARK,
    MARK,
    ActionRefusedError,
    ClusterTakenError,
    NodeStatus,
    TaskNote,
    TaskState,
    TaskStatus,
    read_note,
)
from deployment.kubernetes.api import CONFLICT, MISSING, ApiRefusedError, KubernetesApi, ResourceWatch
from deployment.kubernetes.pods import GPU, field_text, gpus_in_use, quantity
from deployment.reading import Entry, ProtocolError
from envs.types import Seconds, as_line

TYPE = "nvidia.com/gpu.product"  # the label that NVIDIA's feature discovery sets
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
UNTOLD: Seconds = 10.0  # after which a pod that was bound and is not told is taken to have gone
PHASES: dict[str, TaskState] = {"Pending": "pending", "Running": "running"}


class KubernetesAdapter:
    """Starts and stops pods.

    Args:
        api: of the cluster.
        namespace: of the pods and of the Lease by which a bridge claims the cluster.
        image: of the container in which a job's command runs.
        grace: seconds from SIGTERM to SIGKILL.
    """

    def __init__(
        self, api: KubernetesApi, namespace: str = "default", image: str = MARK, grace: Seconds = 30.0
    ) -> None:
        self._api, self._image, self._grace = api, image, grace
        self._pods_path, self._leases = f"/api/v1/namespaces/{namespace}/pods", LEASES.format(namespace)
        self._nodes, self._pods = ResourceWatch(api, "/api/v1/nodes"), ResourceWatch(api, "/api/v1/pods")
        self._binding, self._bound = threading.Lock(), dict[str, tuple[Entry, float]]()  # what no watch has told yet
        self._eviction = ""  # the version of the Eviction API that the server has
        self.faults: dict[str, None] = {}  # a line for each object that could not be read

    @property
    def user(self) -> str:
        """The same for all bridges: Kubernetes does not tell who has made a pod."""
        return MARK

    def claim(self, owner: str) -> None:
        """Claim the cluster by a Lease, of which there is one; it stays where a bridge is killed."""
        lease = {"metadata": {"name": CLAIM_MARK}, "spec": {"holderIdentity": owner}}
        try:
            self._api.request("POST", self._leases, lease)
        except ApiRefusedError as error:
            if error.status != CONFLICT:
                raise
            if (held := self._holder()) != owner:
                raise ClusterTakenError(
                    f"the bridge {as_line(held)} has claimed the cluster by the Lease {CLAIM_MARK}; go on with it by "
                    f"continued=<its folder>, or, if it is gone for good, kubectl delete lease {CLAIM_MARK}"
                ) from None

    def leave(self, owner: str) -> None:
        """Delete the Lease by which a bridge has claimed the cluster."""
        if self._holder() == owner:
            self._api.request("DELETE", f"{self._leases}/{CLAIM_MARK}")

    def _holder(self) -> str:
        try:
            return field_text(self._api.request("GET", f"{self._leases}/{CLAIM_MARK}"), "spec", "holderIdentity")
        except ApiRefusedError as error:
            if error.status != MISSING:
                raise
            return ""
        except ProtocolError as error:
            raise ActionRefusedError(str(error)) from None

    def nodes(self) -> Sequence[NodeStatus]:
        """Return the nodes with GPUs, by name; one that cannot be read is left out, and named in `faults`."""
        found = []
        for node in self._nodes.items():
            try:
                found += read_node(node)
            except ProtocolError as error:
                self.faults[str(error)] = None
        return sorted(found, key=lambda each: each.name)

    def tasks(self) -> Sequence[TaskStatus]:
        """Bind the gangs that wait and now fit; return all tasks.

        One whose pods differ is pending, and ended if a pod of it has ended or is about to.
        """
        tasks = self._group(self._pods.items())
        for _, members in tasks.values():
            if not any(_is_ending(pod) for pod in members) and any(not _node(pod) for pod in members):
                self._bind(members)
        return [TaskStatus(name, note, _state(note, members)) for name, (note, members) in sorted(tasks.items())]

    def _group(self, pods: Sequence[Entry]) -> dict[str, tuple[TaskNote, list[Entry]]]:
        members: dict[str, list[Entry]] = defaultdict(list)
        notes: dict[str, TaskNote] = {}
        for pod in pods:
            try:
                if field_text(pod, "spec", "schedulerName") != MARK:
                    continue
                note = read_note(field_text(pod, "metadata", "annotations", MARK), self.user)
            except ProtocolError as error:
                self.faults[str(error)] = None
                continue
            if note is not None:
                notes[task_name(note)] = note
                members[task_name(note)].append(pod)
        return {name: (notes[name], members[name]) for name in notes}

    def _bind(self, members: Sequence[Entry]) -> None:
        """Bind all pods of a gang if the GPUs of each are free; where the server refuses one, delete all."""
        note = read_note(field_text(members[0], "metadata", "annotations", MARK), self.user)
        if note is None or len(members) < len(note.gpus):
            return
        waiting = [_name(pod) for pod in members if not _node(pod)]
        targets = {name: list(note.gpus)[int(name.rpartition("-")[2])] for name in waiting}
        size = {node.name: node.num_gpus for node in self.nodes() if node.up}
        with self._binding:
            held = self._held()
            if any(size.get(node, 0) - held[node] < note.gpus[node] for node in targets.values()):
                return
            try:
                for name, node in targets.items():
                    self._bind_pod(name, node)
            except ActionRefusedError:
                for pod in members:
                    self._delete(_name(pod), 0)
                raise
            for name, node in targets.items():
                self._bound[name] = _holding(node, note.gpus[node]), time.monotonic()

    def _held(self) -> Counter[str]:
        """GPUs that pods of anybody hold, also those that were bound since the last word of the watch."""
        pods, now = self._pods.items(), time.monotonic()
        told = {_name(pod) for pod in pods if _node(pod)}
        self._bound = {
            name: (pod, since)
            for name, (pod, since) in self._bound.items()
            if name not in told and now - since < UNTOLD
        }
        held, faults = gpus_in_use([*pods, *(pod for pod, _ in self._bound.values())])
        self.faults |= dict.fromkeys(faults)
        return held

    def _bind_pod(self, name: str, node: str) -> None:
        body = {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
        try:
            self._api.request("POST", f"{self._pods_path}/{name}/binding", body)
        except ApiRefusedError as error:
            if error.status != CONFLICT:  # it is bound, which the watch has not told yet
                raise

    def start(self, note: TaskNote, command: Sequence[str], folder: Path) -> str:
        """Make the pods of a task, and bind them if their GPUs are free; else a later look binds them."""
        made = []
        try:
            for number in range(len(note.gpus)):
                pod = self._pod(note, number, command, folder)
                made.append(self._api.request("POST", self._pods_path, pod))
        except ActionRefusedError:
            for each in made:
                self._delete(_name(each), 0)
            raise
        self._bind(made)
        return task_name(note)

    def _pod(self, note: TaskNote, number: int, command: Sequence[str], folder: Path) -> dict[str, Any]:
        gpus = {GPU: str(list(note.gpus.values())[number])}
        container = {"name": "job", "image": self._image, "command": list(command), "workingDir": str(folder)}
        return {
            "metadata": {
                "name": f"{task_name(note)}-{number}",
                "labels": {"app": MARK},
                "annotations": {MARK: note.write()},
            },
            "spec": {
                "schedulerName": MARK,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": max(int(self._grace), 1),
                "containers": [container | {"resources": {"limits": gpus, "requests": gpus}}],
            },
        }

    def release(self, task: TaskStatus, note: TaskNote) -> None:
        """Refuse: no task says that it can release nodes."""
        raise ActionRefusedError(f"task {task.name}: its pods are stopped together; start it anew on fewer nodes")

    def stop(self, task: TaskStatus, *, kill: bool = False) -> None:
        """Evict the pods of a task, which sends SIGTERM, and SIGKILL after the grace time; or delete them at once."""
        _, members = self._group(self._pods.items()).get(task.name, (None, []))
        for pod in members:
            if kill or not _node(pod):
                self._delete(_name(pod), 0)
            elif not _is_ending(pod):
                self._evict(_name(pod))

    def _evict(self, name: str) -> None:
        if not self._eviction:
            listed = self._api.request("GET", "/apis/policy")
            self._eviction = field_text(listed, "preferredVersion", "groupVersion") or "policy/v1"
        body = {"apiVersion": self._eviction, "kind": "Eviction", "metadata": {"name": name}}
        try:
            self._api.request("POST", f"{self._pods_path}/{name}/eviction", body)
        except ApiRefusedError as error:
            if error.status != MISSING:
                raise

    def _delete(self, name: str, grace: int) -> None:
        try:
            self._api.request("DELETE", f"{self._pods_path}/{name}", query={"gracePeriodSeconds": grace})
        except ApiRefusedError as error:
            if error.status != MISSING:
                raise


def read_node(node: Entry) -> list[NodeStatus]:
    """Return a node, as a list of one; an empty one where it has no GPUs.

    Raises:
        ProtocolError: it is no node, or a quantity does not parse.
    """
    status, meta = node.field("status"), node.field("metadata")
    size = status.optional("allocatable") or status.optional("capacity")
    gpus = size.optional(GPU) if size is not None else None
    if size is None or gpus is None or quantity(gpus) == 0:
        return []
    told = {each.field("type").text(): each.field("status").text() for each in status.field("conditions").items()}
    closed = node.field("spec").optional("unschedulable")
    up = told.get("Ready") == "True" and not (closed is not None and closed.switch())
    return [
        NodeStatus(
            meta.field("name").text(),
            field_text(meta, "labels", TYPE) or "gpu",
            int(quantity(gpus)),
            quantity(size.field("cpu")),
            quantity(size.field("memory")) / 1e9,
            up,
        )
    ]


def task_name(note: TaskNote) -> str:
    """Return the name of a task, which is that of its pods without their numbers."""
    return f"{MARK}-{note.owner.rpartition('.')[2]}-{note.job}-{note.segment}"


def _name(pod: Entry) -> str:
    return field_text(pod, "metadata", "name")


def _node(pod: Entry) -> str:
    return field_text(pod, "spec", "nodeName")


def _is_ending(pod: Entry) -> bool:
    return bool(field_text(pod, "metadata", "deletionTimestamp")) or _phase(pod) == "ended"


def _phase(pod: Entry) -> TaskState:
    return PHASES.get(field_text(pod, "status", "phase"), "ended")


def _state(note: TaskNote, members: Sequence[Entry]) -> TaskState:
    phases = Counter(_phase(pod) for pod in members)
    if any(_is_ending(pod) for pod in members):
        return "ended"
    return "running" if phases["running"] == len(note.gpus) else "pending"


def _holding(node: str, gpus: int) -> Entry:
    """Return a pod that stands for one that was bound just now, which the watch has not told yet."""
    container = {"resources": {"requests": {GPU: str(gpus)}}}
    return Entry({"spec": {"nodeName": node, "containers": [container]}, "status": {}}, "bound just now")
