"""The items of a Kubernetes list: the request of a job, and when it was created, started and ended.

Fields are those of the published APIs: Jobs (batch/v1) and Pods (v1) of Kubernetes, Jobs (batch.volcano.sh/v1alpha1)
and PodGroups (scheduling.volcano.sh/v1beta1) of Volcano, PodGroups (scheduling.x-k8s.io/v1alpha1) of the scheduler
plugins, and Workloads (kueue.x-k8s.io/v1beta1, v1beta2) of Kueue.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_COUNT = 9  # digits of a whole number
_GPU = re.compile(r"[a-z0-9.\-]+/(?:gpu|mig-(?P<profile>[1-7]g\.[0-9]{1,3}gb))", re.ASCII)
QUEUE_LABELS = ("kueue.x-k8s.io/queue-name", "volcano.sh/queue-name", "scheduling.volcano.sh/queue-name")
NAME_LABELS = ("app.kubernetes.io/name", "app")  # what items of one sort share
GROUP_LABELS = ("scheduling.x-k8s.io/pod-group", "scheduling.k8s.io/group-name")  # the PodGroup of a Pod
KubeObject = Mapping[str, Any]


class WrongFieldError(Exception):
    """A field of another form: its path, its value, and what it must be."""


@dataclass
class Facts:
    """One item of a list; texts are as in the file, and empty where it does not say.

    Attributes:
        sets: number and specification of its pods, by set.
        minimum: GPUs with which it may start; 0 for all.
        gpus: GPUs, where no pods are specified.
        again: whether it was started before, so that `start` is not its first.
        ran_before: seconds for which it ran then.
    """

    resource: str  # Pod, Job, ..., as `RANK` has them
    namespace: str = ""
    name: str = ""
    shared_name: str = ""
    uid: str = ""
    owners: list[tuple[str, str, str]] = field(default_factory=list)  # uid, resource, name
    group: str = ""  # name of its PodGroup
    created: str = ""
    start: str = ""
    end: str = ""
    queue: str = ""
    priority: str = ""
    priority_class: str = ""
    limit: str = ""
    node: str = ""
    pool: str = ""
    attempts: int = 0
    again: bool = False
    ran_before: int = 0
    sets: list[tuple[int, KubeObject]] = field(default_factory=list)
    minimum: int = 0
    gpus: Counter[str] = field(default_factory=Counter)


def inner(entry: KubeObject, *keys: str) -> KubeObject:
    """Return an object within an entry; empty if there is none.

    Raises:
        WrongFieldError: something else is there.
    """
    for at, key in enumerate(keys):
        found = entry.get(key)
        if found in (None, "", "null", "~"):
            return {}
        if not isinstance(found, dict):
            raise WrongFieldError(".".join(keys[: at + 1]), str(found)[:40], "must be an object")
        entry = found
    return entry


def items(entry: KubeObject, *keys: str) -> list[KubeObject]:
    """Return a list of objects within an entry; empty if there is none.

    Raises:
        WrongFieldError: something else is there.
    """
    found = inner(entry, *keys[:-1]).get(keys[-1])
    if found in (None, "", "null", "~"):
        return []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise WrongFieldError(".".join(keys), str(found)[:40], "must be a list of objects")
    return found


def text(entry: KubeObject, *keys: str) -> str:
    """Return a text or a number within an entry as text; "" if there is none.

    Raises:
        WrongFieldError: an object or a list is there.
    """
    found = inner(entry, *keys[:-1]).get(keys[-1])
    if isinstance(found, dict | list):
        raise WrongFieldError(".".join(keys), str(found)[:40], "must be a text or a number")
    return "" if found in (None, "null", "~") else str(found).encode("utf-8", "replace").decode().replace("\0", "")


def whole(entry: KubeObject, *keys: str, default: int = 0) -> int:
    """Return a whole number within an entry.

    Raises:
        WrongFieldError: something else is there.
    """
    found = text(entry, *keys) or str(default)
    if not re.fullmatch(r"[0-9]{1,9}", found, re.ASCII):
        raise WrongFieldError(".".join(keys), found[:40], "must be a whole number")
    return int(found)


def read_item(entry: KubeObject) -> Facts | None:
    """Return what an item says; None if it is no job.

    Raises:
        WrongFieldError: a field has another form.
    """
    group, resource = text(entry, "apiVersion").rpartition("/")[0], text(entry, "kind")
    if (group, resource) not in RESOURCES:
        return None
    facts = Facts(resource if group != "batch.volcano.sh" else "Volcano Job")
    facts.name, facts.namespace = text(entry, "metadata", "name"), text(entry, "metadata", "namespace")
    facts.uid, facts.created = text(entry, "metadata", "uid"), text(entry, "metadata", "creationTimestamp")
    marks = {**inner(entry, "metadata", "annotations"), **inner(entry, "metadata", "labels")}
    facts.queue = _first(marks, QUEUE_LABELS)
    facts.group = _first(marks, GROUP_LABELS) if resource == "Pod" else ""
    owners = items(entry, "metadata", "ownerReferences")
    facts.owners = [(text(each, "uid"), text(each, "kind"), text(each, "name")) for each in owners]
    regular = next((name for _, owner, name in facts.owners if owner == "CronJob"), "")
    stem = text(entry, "metadata", "generateName").rstrip("-")
    facts.shared_name = _first(marks, NAME_LABELS) or regular or stem or facts.name
    RESOURCES[group, resource](entry, facts)
    return facts


def _first(marks: KubeObject, names: Sequence[str]) -> str:
    return next((found for name in names if (found := text(marks, name))), "")


def _since(entry: KubeObject, *types: str) -> str:
    """Return since when the first of some conditions holds that does."""
    held = {text(each, "type"): text(each, "lastTransitionTime") for each in _true(entry)}
    return next((held[name] for name in types if name in held), "")


def _true(entry: KubeObject) -> Iterator[KubeObject]:
    return (each for each in items(entry, "status", "conditions") if text(each, "status").lower() == "true")


def _job(entry: KubeObject, facts: Facts) -> None:
    parallel = whole(entry, "spec", "parallelism", default=1)
    count = min(parallel, whole(entry, "spec", "completions", default=parallel))
    pod = inner(entry, "spec", "template", "spec")
    facts.sets = [(count, pod)]
    facts.start = text(entry, "status", "startTime")
    facts.end = text(entry, "status", "completionTime") or _since(entry, "Complete", "Failed")
    facts.limit = text(entry, "spec", "activeDeadlineSeconds")
    facts.priority_class = text(pod, "priorityClassName")


def _pod(entry: KubeObject, facts: Facts) -> None:
    spec = inner(entry, "spec")
    facts.sets, facts.attempts = [(1, spec)], 1
    facts.start = _since(entry, "PodScheduled")
    if text(entry, "status", "phase") in ("Succeeded", "Failed"):
        states = [inner(each, "state", "terminated") for each in items(entry, "status", "containerStatuses")]
        facts.end = max((text(each, "finishedAt") for each in states), default="")
    facts.limit, facts.node = text(spec, "activeDeadlineSeconds"), text(spec, "nodeName")
    facts.priority, facts.priority_class = text(spec, "priority"), text(spec, "priorityClassName")


def _volcano(entry: KubeObject, facts: Facts) -> None:
    tasks = items(entry, "spec", "tasks")
    facts.sets = [(whole(task, "replicas", default=1), inner(task, "template", "spec")) for task in tasks]
    facts.queue = text(entry, "spec", "queue") or facts.queue
    facts.priority_class = text(entry, "spec", "priorityClassName")
    phases = {text(each, "status"): text(each, "lastTransitionTime") for each in items(entry, "status", "conditions")}
    facts.start = phases.get("Running", "")
    if text(entry, "status", "state", "phase") in ("Completed", "Failed", "Aborted", "Terminated"):
        facts.end = text(entry, "status", "state", "lastTransitionTime")
    retries = whole(entry, "status", "retryCount")
    facts.again, facts.attempts = retries > 0, retries + 1


def _workload(entry: KubeObject, facts: Facts) -> None:
    assigned = {text(each, "name"): each for each in items(entry, "status", "admission", "podSetAssignments")}
    for each in items(entry, "spec", "podSets"):
        pod, mine = inner(each, "template", "spec"), assigned.get(text(each, "name"), {})
        asked = whole(each, "count", default=1)
        count = whole(mine, "count", default=asked)
        facts.sets.append((count, pod))
        gpus = sum(gpus_of(pod).values())
        facts.minimum += gpus * min(whole(each, "minCount", default=count), count)
        flavors = inner(mine, "flavors")
        facts.pool = facts.pool or next((text(flavors, name) for name in flavors if _GPU.fullmatch(name)), "")
    facts.queue, facts.priority = text(entry, "spec", "queueName"), text(entry, "spec", "priority")
    facts.priority_class = text(entry, "spec", "priorityClassName") or text(entry, "spec", "priorityClassRef", "name")
    facts.limit = text(entry, "spec", "maximumExecutionTimeSeconds")
    facts.start, facts.end = _since(entry, "Admitted", "QuotaReserved"), _since(entry, "Finished")
    facts.again = any(text(each, "type") == "Evicted" for each in items(entry, "status", "conditions"))
    facts.attempts = whole(entry, "status", "requeueState", "count") + 1
    if facts.again and facts.attempts == 1:
        facts.attempts = 0  # it was evicted, and Kueue does not say how often
    for name in ("accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds"):  # v1beta1 misspells it
        facts.ran_before += whole(entry, "status", name)


def _group(entry: KubeObject, facts: Facts) -> None:
    facts.gpus = _counted(inner(entry, "spec", "minResources"), "spec.minResources")
    facts.queue = text(entry, "spec", "queue") or facts.queue
    facts.priority_class = text(entry, "spec", "priorityClassName")
    facts.start = _since(entry, "Scheduled")


RESOURCES: dict[tuple[str, str], Callable[[KubeObject, Facts], None]] = {
    ("", "Pod"): _pod,
    ("scheduling.x-k8s.io", "PodGroup"): _group,
    ("scheduling.volcano.sh", "PodGroup"): _group,
    ("batch", "Job"): _job,
    ("batch.volcano.sh", "Job"): _volcano,
    ("kueue.x-k8s.io", "Workload"): _workload,
}
"""The kinds of item that are read; of several about one job, a later kind states its request in more detail."""
RANK = {"Pod": 0, "PodGroup": 1, "Job": 2, "Volcano Job": 3, "Workload": 4}


def gpus_of(pod: KubeObject) -> Counter[str]:
    """Return the GPUs of a pod by MIG profile, "" for whole ones: of its containers, or of the largest initial one.

    Raises:
        WrongFieldError: a field has another form.
    """
    total: Counter[str] = Counter()
    for name in ("containers", "initContainers"):
        for at, each in enumerate(items(pod, name)):
            resources = inner(each, "resources")
            asked = inner(resources, "limits") or inner(resources, "requests")
            own = _counted(asked, f"{name}[{at}].resources.limits")
            total = total + own if name == "containers" else total | own
    return total


def _counted(resources: KubeObject, place: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for name in resources:
        if match := _GPU.fullmatch(name.removeprefix("requests.").removeprefix("limits.")):
            try:
                found[match["profile"] or ""] += whole(resources, name)
            except WrongFieldError as error:
                raise WrongFieldError(f"{place}.{error.args[0]}", *error.args[1:]) from None
    return found


def asks_otherwise(pod: KubeObject) -> str:
    """Return what a pod asks of its GPUs and nodes that is not read, by one word; "" if there is nothing."""
    if items(pod, "resourceClaims"):
        return "resourceClaims"
    for each in items(pod, "containers"):
        for name in inner(each, "resources", "limits"):
            if "gpu" in name and not _GPU.fullmatch(name):
                return str(name)
    return "nodeAffinity" if inner(pod, "affinity", "nodeAffinity") else ""
