"""Queues as Kueue's own objects have them: ClusterQueue, Cohort, LocalQueue, Configuration, in YAML or JSON.

Fields are those of the published APIs kueue.x-k8s.io/v1beta1 and v1beta2, and config.kueue.x-k8s.io for Configuration.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baselines.kueue.queue_tree import QueueSettings, QueueTree
from baselines.kueue.scheduler import Kueue
from envs.scheduling import Scheduler
from envs.types import MurmurationError, did_you_mean
from envs.workloads.readers.kubernetes import read_items
from envs.workloads.readers.kubernetes_items import KubeObject, WrongFieldError, inner, items, text

QUEUES_COMMAND = "kubectl get clusterqueues,cohorts,localqueues --all-namespaces --output=yaml > queues.yaml"
COHORT = "cohort "  # before the names of cohorts, which may be those of ClusterQueues
_GPU = re.compile(r"[a-z0-9.\-]+/(?:gpu|mig-.*)", re.ASCII)
_QUANTITY = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)(m|k|)", re.ASCII)
_STRATEGIES = {"LessThanOrEqualToFinalShare": "final", "LessThanInitialShare": "initial"}
_WITHIN = {"Never": "never", "LowerPriority": "lower_priority", "LowerOrNewerEqualPriority": "lower_or_newer"}
_RECLAIM = {"Never": "never", "LowerPriority": "lower_priority", "Any": "any"}
_LIMITS = {"nominal": "nominalQuota", "borrowing_limit": "borrowingLimit", "lending_limit": "lendingLimit"}


@dataclass(frozen=True)
class QueueObjects:
    """The queues of a file of Kueue's objects.

    Attributes:
        queues: of all ClusterQueues and cohorts.
        local: ClusterQueues by namespace/name, name and namespace of the LocalQueues that lead to them.
        fair_sharing: whether the file enables it; None if it does not say.
        strategies: of preemption with fair sharing; empty if it does not say.
    """

    queues: tuple[QueueSettings, ...]
    local: Mapping[str, tuple[str, ...]]
    fair_sharing: bool | None = None
    strategies: tuple[str, ...] = ()


def behind_kueue(inner: Scheduler, file: str = "", fair_sharing: bool | None = None, overcommit: bool = False) -> Kueue:
    """Return a scheduler behind the queues of a file of Kueue's objects.

    Args:
        inner: places jobs.
        file: its path; "" for a queue for each tenant, with equal parts of the cluster.
        fair_sharing: see `Kueue`; None for what the file's Configuration says, and true without a file.
        overcommit: see `Kueue`.

    Raises:
        MurmurationError: see `read_queues`.
    """
    found = read_queues(Path(file)) if file else QueueObjects((), {}, True)
    fair = bool(found.fair_sharing) if fair_sharing is None else fair_sharing
    strategies = found.strategies or tuple(_STRATEGIES.values())
    return Kueue(inner, found.queues, fair, strategies, found.local, overcommit)


def read_queues(path: Path) -> QueueObjects:
    """Read ClusterQueues, Cohorts, LocalQueues and Kueue's Configuration; other objects are ignored.

    GPUs of all flavors of a queue are counted together.

    Raises:
        MurmurationError: the file cannot be read, or a queue is contradictory, forms a cycle, or can never pass a job.
    """
    rows: list[dict[str, Any]] = []
    leads: list[tuple[str, str, str]] = []
    fair: bool | None = None
    strategies: tuple[str, ...] = ()
    for entry in read_items(path, QUEUES_COMMAND):
        name = "item"
        try:
            if not isinstance(entry, dict):
                raise WrongFieldError("item", str(entry)[:40], "must be an object")
            form, name = text(entry, "kind"), f"{text(entry, 'kind')} {text(entry, 'metadata', 'name')}".strip()
            if form in ("ClusterQueue", "Cohort"):
                rows.append(_queue(entry, form))
            elif form == "LocalQueue":
                place = text(entry, "metadata", "namespace"), text(entry, "metadata", "name")
                leads.append((*place, text(entry, "spec", "clusterQueue")))
            elif form == "Configuration" and inner(entry, "fairSharing"):
                fair = text(entry, "fairSharing", "enable").lower() in ("true", "") or bool(fair)
                listed = inner(entry, "fairSharing").get("preemptionStrategies") or []
                strategies = tuple(_known(each, _STRATEGIES, "fairSharing.preemptionStrategies") for each in listed)
        except WrongFieldError as error:
            field, value, reason = error.args
            raise MurmurationError(f"{path}: {name}: {field} is {value!r}; it {reason}") from error
    if not any(not row["name"].startswith(COHORT) for row in rows):
        raise MurmurationError(f"{path}: has no ClusterQueue; make the file with  {QUEUES_COMMAND}")
    try:
        queues = _with_cohorts(rows)
        _check_passable(queues)
    except MurmurationError as error:
        raise MurmurationError(f"{path}: {error}") from error
    return QueueObjects(queues, _local(path, leads, [row["name"] for row in rows]), fair, strategies)


def _queue(entry: KubeObject, form: str) -> dict[str, Any]:
    """Return the settings of a ClusterQueue or Cohort by the fields of `QueueSettings`."""
    spec, name = inner(entry, "spec"), text(entry, "metadata", "name")
    parent = next((found for key in ("cohort", "cohortName", "parentName", "parent") if (found := text(spec, key))), "")
    row: dict[str, Any] = {"name": name, "parent": COHORT + parent if parent else ""}
    for resource in _gpu_quotas(spec):
        for key, field in _LIMITS.items():
            if field in resource and text(resource, field):
                row[key] = row.get(key, 0.0) + _number(resource, field)
        if (lent := text(resource, "lendingLimit")) and _number(resource, "lendingLimit") > row.get("nominal", 0.0):
            raise WrongFieldError("lendingLimit", lent, f"must be at most nominalQuota ({row.get('nominal', 0):g})")
    if text(spec, "fairSharing", "weight"):
        row["weight"] = _number(inner(spec, "fairSharing"), "weight")
    if form == "Cohort":
        return row | {"name": COHORT + name}
    order = text(spec, "queueingStrategy") or "BestEffortFIFO"
    row["strict"] = _known(order, {"StrictFIFO": True, "BestEffortFIFO": False}, "spec.queueingStrategy")
    rules = inner(spec, "preemption")
    row["within_queue"] = _known(text(rules, "withinClusterQueue") or "Never", _WITHIN, "withinClusterQueue")
    row["reclaim"] = _known(text(rules, "reclaimWithinCohort") or "Never", _RECLAIM, "reclaimWithinCohort")
    if (borrow := text(rules, "borrowWithinCohort", "policy")) not in ("", "Never"):
        raise WrongFieldError("borrowWithinCohort.policy", borrow, "must be Never: another one is not modelled")
    if (stop := text(spec, "stopPolicy")) not in ("", "None"):
        raise WrongFieldError("stopPolicy", stop, "must be None, or no job can ever pass")
    return row


def _gpu_quotas(spec: KubeObject) -> Iterator[KubeObject]:
    """Yield the quotas of GPUs of all flavors."""
    for group in items(spec, "resourceGroups"):
        for flavor in items(group, "flavors"):
            yield from (each for each in items(flavor, "resources") if _GPU.fullmatch(text(each, "name")))


def _number(entry: KubeObject, key: str) -> float:
    """Return a quantity of Kubernetes, such as 8 or 500m; not negative."""
    found = _QUANTITY.fullmatch(text(entry, key))
    if found is None or float(found[1]) < 0:
        raise WrongFieldError(key, text(entry, key)[:40], "must be a number, 0 or more")
    return float(found[1]) * {"m": 1e-3, "k": 1e3, "": 1.0}[found[2]]


def _known(value: Any, table: Mapping[str, Any], field: str) -> Any:
    if value not in table:
        raise WrongFieldError(field, str(value)[:40], f"must be one of {', '.join(table)}")
    return table[value]


def _with_cohorts(rows: Iterable[dict[str, Any]]) -> tuple[QueueSettings, ...]:
    """Return all queues; cohorts that are only named have no settings of their own."""
    queues = [QueueSettings(**row) for row in rows]
    names = {queue.name for queue in queues}
    named = dict.fromkeys(queue.parent for queue in queues if queue.parent and queue.parent not in names)
    return (*queues, *map(QueueSettings, named))


def _check_passable(queues: Iterable[QueueSettings]) -> None:
    """Check that each ClusterQueue can pass a job of one GPU, if no other one uses any."""
    tree = QueueTree(queues)
    for name in tree.leaves:
        if not name.startswith(COHORT) and tree.most(name) < 1:
            raise MurmurationError(
                f"queue {name}: can have {tree.most(name):g} GPUs at most, so no job can ever pass; give it a "
                "nominalQuota of GPUs, or a cohort from which it may borrow"
            )


def _local(path: Path, leads: Iterable[tuple[str, str, str]], known: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the ClusterQueues by namespace/name, name and namespace."""
    found: dict[str, dict[str, None]] = {}
    for namespace, name, queue in leads:
        if queue not in known:
            raise MurmurationError(
                f"{path}: LocalQueue {namespace}/{name}: clusterQueue {queue or '(none)'} is not in the file"
                f"{did_you_mean(queue, known)}"
            )
        for key in (f"{namespace}/{name}", name, namespace):
            found.setdefault(key, {})[queue] = None
    return {key: tuple(queues) for key, queues in found.items()}
