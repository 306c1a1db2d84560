"""Lists of Kubernetes, Volcano and Kueue as jobs: what `kubectl get -o json` or `-o yaml` prints."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import yaml

from envs.types import FloatArray, TraceError, as_line
from envs.workloads.readers.clock import midnight_before
from envs.workloads.readers.files import CHARACTERS_PER_VALUE, most_characters, read_text
from envs.workloads.readers.kubernetes_items import (
    RANK,
    Facts,
    WrongFieldError,
    asks_otherwise,
    gpus_of,
    inner,
    read_item,
    text,
)
from envs.workloads.readers.past import recorded_runs
from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import MAX_GPUS, TraceTable

COMMAND = "kubectl get workloads,jobs,pods --all-namespaces --output=json > jobs.json"
SERVICES = ("ReplicaSet", "DaemonSet", "StatefulSet", "Node")  # owners whose pods are no parts of one job
MOST_NESTED = 100  # levels
GPU_LABELS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "karpenter.k8s.aws/instance-gpu-name")
POOL_LABELS = ("cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool")
TIMES = {"created": "metadata.creationTimestamp", "start": "time of start", "end": "time of end"}


@dataclass(frozen=True)
class KubernetesTrace:
    """Jobs, Pods and PodGroups of Kubernetes, Jobs and PodGroups of Volcano, Workloads of Kueue, as JSON or YAML.

    Items that are about one job, by `ownerReferences` or the label of a PodGroup, are one: a Workload says what it asks
    for, or else a Job, a PodGroup, a Pod. It is submitted when the first of them was created, and starts when its first
    Pod was scheduled, or a Workload was admitted, a Job began, a Volcano Job ran. Pods whose owner is not in the list
    are a job of as many GPUs as they held at once. Items that have not ended, or ask for no GPUs, are left out and
    counted. Namespaces are tenants, and classes of priority are QoS. `nodeSelector` says on which GPU type a job may
    run, with `gpu_types`, and in which pool; a Workload is in the pool of its ResourceFlavor. A pod is on one node.
    Slices of MIG are asked for as `nvidia.com/mig-1g.10gb`. t = 0 is the midnight before the first item, in UTC.

    Args:
        gpu_types: the value of a label of `gpu_labels`, such as NVIDIA-A100-SXM4-80GB -> ours; if it is not empty, jobs
            that name others are bad. If it is empty, all durations are taken as measured on `gpu_type`.
        gpu_labels: labels of nodes that name GPU types.
        pool_labels: labels of nodes that name pools.
    """

    gpu_types: Mapping[str, str] = field(default_factory=dict)
    gpu_labels: Sequence[str] = GPU_LABELS
    pool_labels: Sequence[str] = POOL_LABELS
    gpu_type: str = "V100"
    gpus_per_node: int = 8
    name: ClassVar[str] = "kubernetes"
    location: ClassVar[str] = "traces/kubernetes/jobs.json"
    source: ClassVar[str] = f"your own cluster: {COMMAND}"

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """Return the jobs and the report; row numbers are those of items, from 1. See `TraceReader.read`."""
        found, rows, table = _table(path, read_items(path), strict)
        unread: Counter[str] = Counter()
        asked: dict[str, list[Any]] = defaultdict(list)
        for row, facts in enumerate(found):
            values: dict[str, Any] = {}
            if facts is not None and row in rows:
                try:
                    values = self._ask(facts, rows[row], unread)
                except WrongFieldError as error:
                    _refuse(table, row, error)
            for name, default in ASKED.items():
                asked[name].append(values.get(name, default))
        columns: dict[str, npt.NDArray[Any]] = {
            name: np.array(values, dtype=object if ASKED[name] == "" else np.float64) for name, values in asked.items()
        }
        num_gpus = columns["num_gpus"]
        if (columns["min_gpus"] == num_gpus).all():
            del columns["min_gpus"]
        table.skip(num_gpus == 0, "no GPUs requested")
        table.columns["GPUs"] = np.array([f"{count:g}" for count in num_gpus], dtype=object)
        table.reject(num_gpus > MAX_GPUS, "GPUs", f"must be at most {MAX_GPUS}")
        for name, why in (("start", "never started"), ("end", "not ended, or without a recorded end")):
            table.skip(table.text(TIMES[name]) == "", why)
        submit, start, end = (table.times(name, "ISO8601", "UTC") for name in TIMES.values())
        table.reject(end < start, TIMES["end"], "must not be before the start")
        table.skip(end == start, "zero duration")
        columns |= self._types(table, columns)
        columns |= {"submit_time": submit, "duration": end - start}
        columns |= _stated(table)
        again = table.text("again") != ""
        before = table.numbers("ran_before")
        columns |= recorded_runs(table, submit, start, end, end - start + before)
        columns["start_after"][again] = np.nan
        columns["waited"][again & (before == 0)] = np.nan  # for how long it ran before is unknown
        notes = [f"{count:,} jobs ask for {what}, which is not read" for what, count in unread.most_common(5)]
        first = submit[table.sound].min(initial=np.inf)
        return table.finish(columns, notes=list(map(as_line, notes)), origin=midnight_before(first))

    def _ask(self, facts: Facts, members: Sequence[Facts], unread: Counter[str]) -> dict[str, Any]:
        """Return the columns of `ASKED` for one job, and count what it asks for that is not read."""
        sets = facts.sets or [(1, pod) for each in members for _, pod in each.sets]
        counts = [(count, gpus_of(pod), pod) for count, pod in sets]
        held = Counter(facts.gpus)
        for count, gpus, _ in counts if not held else ():
            held.update({profile: count * each for profile, each in gpus.items()})
        if len(profiles := [profile for profile, each in held.items() if each]) > 1:
            said = ", ".join(profile or "whole ones" for profile in profiles)
            raise WrongFieldError("GPUs", said, "must be whole ones, or slices of one MIG profile")
        with_gpus = [(count, pod) for count, gpus, pod in counts if sum(gpus.values())] or [(0, {})]
        num_pods, total = sum(count for count, _ in with_gpus), sum(held.values())
        if facts.resource == "Pod" and len(members) > 1:
            num_pods, total = _most_at_once(members)
        wanted = inner(with_gpus[0][1], "nodeSelector")
        for what in {asks_otherwise(pod) for _, _, pod in counts} - {""}:
            unread[what] += 1
        known = (*self.gpu_labels, *self.pool_labels)
        unread.update(f"nodeSelector {label}" for label in wanted if label not in known)
        return {
            "num_gpus": total,
            "min_gpus": facts.minimum if 0 < facts.minimum < total else total,
            "mig_profile": profiles[0] if profiles else "",
            "max_nodes": num_pods if num_pods < total else 0,
            "label": next((text(wanted, label) for label in self.gpu_labels if label in wanted), ""),
            "pool": facts.pool or next((text(wanted, label) for label in self.pool_labels if label in wanted), ""),
        }

    def _types(self, table: TraceTable, columns: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        labels = columns.pop("label")
        if not self.gpu_types:
            if named := sorted(set(labels[table.sound]) - {""}):
                said = ", ".join(named[:8])
                table.notes.append(f"GPU types {said} all count as {self.gpu_type}; reader.gpu_types tells them apart")
            return {}
        table.columns["nodeSelector"] = labels
        known = ("", *map(str, self.gpu_types))
        table.reject(
            ~np.isin(labels, known), "nodeSelector", f"must be one of {', '.join(known[1:])} (reader.gpu_types)"
        )
        ours = {str(theirs): mine for theirs, mine in self.gpu_types.items()}
        ran_on, types = (np.full(len(labels), each, dtype=object) for each in ("", self.gpu_type))
        for row, label in enumerate(labels):
            if label in ours:
                ran_on[row] = types[row] = ours[label]
        return {"gpu_type": types, "ran_on": ran_on}


ASKED: dict[str, Any] = {"num_gpus": 0, "min_gpus": 0, "max_nodes": 0, "mig_profile": "", "label": "", "pool": ""}
"""Columns of what a job asks for, with the values of rows that are no job."""


def read_items(path: Path, command: str = COMMAND) -> list[Any]:
    """Return the items of all lists, and single items, of a file of JSON or YAML; values are texts in YAML.

    Args:
        path: the file.
        command: makes such a file, for messages.

    Raises:
        TraceError: it cannot be read, is neither, or has no items.
    """
    content = read_text(path)
    most = most_characters() // CHARACTERS_PER_VALUE
    if sum(map(content.count, ",[{\n")) > 2 * most:
        raise TraceError(f"{path}: has more than {most:,} values; cut it into parts")
    try:
        found = _documents(path, content)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())[:160]
        raise TraceError(f"{path}: is neither JSON nor YAML ({reason}); make the file with  {command}") from error
    entries: list[Any] = []
    for document in found:
        listed = document.get("items") if isinstance(document, dict) and "items" in document else document
        entries += listed if isinstance(listed, list) else [] if listed in (None, "", "null") else [listed]
    if not any(isinstance(entry, dict) for entry in entries):
        raise TraceError(f"{path}: has no list of items; make the file with  {command}")
    return entries


def _documents(path: Path, content: str) -> list[Any]:
    if content.lstrip()[:1] in ("{", "["):
        return [json.loads(content)]
    loader, depth = getattr(yaml, "CBaseLoader", yaml.BaseLoader), 0  # of texts alone: no dates, no truth values
    for event in yaml.parse(content, Loader=loader):
        starts = isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent)
        depth += starts - isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent)
        if depth > MOST_NESTED:
            raise ValueError(f"nested by more than {MOST_NESTED} levels")
    return list(yaml.load_all(content, Loader=loader))


def _table(
    path: Path, entries: Sequence[Any], strict: bool
) -> tuple[list[Facts | None], dict[int, list[Facts]], TraceTable]:
    """Return what items say, the members of each job by the row of its leading item, and the table."""
    found: list[Facts | None] = []
    wrong: dict[int, WrongFieldError] = {}
    others: Counter[str] = Counter()
    for row, entry in enumerate(entries):
        facts = None
        try:
            if not isinstance(entry, dict):
                raise WrongFieldError("item", str(entry)[:40], "must be an object")
            facts = read_item(entry)
            if facts is None:
                others[text(entry, "kind")[:40] or "none"] += 1
        except WrongFieldError as error:
            wrong[row] = error
        found.append(facts)
    jobs = _join(found)
    table = TraceTable("kubernetes", path, _columns(found, jobs), range(1, len(found) + 1), strict=strict)
    table.files = np.array([_label(facts) for facts in found], dtype=object)
    for row, found_wrong in wrong.items():
        _refuse(table, row, found_wrong)
    said = ", ".join(f"{name} {count:,}" for name, count in others.most_common(5))
    table.skip(np.array([facts is None for facts in found]), as_line(f"other kinds: {said}"))
    table.skip(np.array([row not in jobs for row in range(len(found))]), "parts of a job that the file has")
    return found, jobs, table


def _label(facts: Facts | None) -> str:
    return f"{facts.resource} {facts.namespace}/{facts.name}"[:120] if facts else ""


def _refuse(table: TraceTable, row: int, error: WrongFieldError) -> None:
    """Mark one item as malformed, with the path of its field."""
    name, value, reason = error.args
    shown = table.columns.setdefault(name, np.full(len(table), "", dtype=object))
    if name not in TIMES.values():
        shown[row] = value
    table.reject(np.arange(len(table)) == row, name, reason)


def _join(found: Sequence[Facts | None]) -> dict[int, list[Facts]]:
    """Return the items that are about one job, by the row of the one that says most about it."""
    by_uid = {facts.uid: facts for facts in found if facts is not None and facts.uid}
    groups = {
        (facts.namespace, facts.name): facts for facts in found if facts is not None and facts.resource == "PodGroup"
    }
    rows: dict[str | int, list[int]] = defaultdict(list)
    for row, facts in enumerate(found):
        if facts is None:
            continue
        root: Facts = facts
        for _ in range(8):  # owners of owners
            above = next((by_uid[uid] for uid, _, _ in root.owners if uid in by_uid), None)
            above = above or groups.get((root.namespace, root.group))
            if above is None or above is root:
                break
            root = above
        absent = [uid for uid, resource, _ in root.owners if uid and resource not in SERVICES]
        rows[absent[0] if absent and root.resource == "Pod" else id(root)].append(row)
    jobs: dict[int, list[Facts]] = {}
    for members in rows.values():
        ranks = {row: RANK[facts.resource] for row in members if (facts := found[row]) is not None}
        leader = max(ranks, key=lambda row: (ranks[row], -row))
        jobs[leader] = [facts for row in members if (facts := found[row]) is not None]
    return jobs


def _columns(found: Sequence[Facts | None], jobs: Mapping[int, Sequence[Facts]]) -> dict[str, list[str]]:
    """Return what jobs state as columns of text; other rows are empty."""
    columns: dict[str, list[str]] = defaultdict(list)
    for row, facts in enumerate(found):
        mine = facts or Facts("")
        members = jobs.get(row, [mine])
        pods = [each for each in members if each.resource == "Pod"]
        starts = [each.start for each in pods if each.start] or [mine.start]
        ends = [each.end for each in pods] if not mine.end or mine.resource == "Pod" else [mine.end]
        columns[TIMES["created"]].append(min((each.created for each in members if each.created), default=""))
        columns[TIMES["start"]].append(min(starts))
        columns[TIMES["end"]].append(max(ends) if ends and all(ends) else "")
        owner = next((name for _, _, name in mine.owners), "") if len(pods) > 1 and mine.resource == "Pod" else ""
        columns["id"].append(f"{mine.namespace}/{owner or mine.name}")
        columns["nodes"].append(",".join(dict.fromkeys(each.node for each in pods if each.node)))
        columns["again"].append("1" if mine.again else "")
        columns["ran_before"].append(str(mine.ran_before))
        columns["attempts"].append(str(0 if len(members) > 1 and mine.resource == "Pod" else mine.attempts))
        for name in ("namespace", "shared_name", "queue", "priority", "priority_class", "limit"):
            own = getattr(mine, name) or next((value for each in members if (value := getattr(each, name))), "")
            columns[name].append(own)
    return columns


def _stated(table: TraceTable) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of what jobs state, besides what they ask for."""
    numbers: dict[str, FloatArray] = {
        "priority": table.numbers("priority", low=-1e12, high=1e12, empty=0.0),
        "time_limit": table.numbers("limit", empty=0.0),
        "attempts": table.numbers("attempts"),
    }
    names = {"tenant": "namespace", "name": "shared_name", "qos": "priority_class", "queue": "queue", "nodes": "nodes"}
    return {**numbers, "id": table.text("id"), **{name: table.text(column) for name, column in names.items()}}


def _most_at_once(pods: Iterable[Facts]) -> tuple[int, int]:
    """Return the most pods, and GPUs, that a job held at one time: failed pods are replaced by others."""
    changes: list[tuple[str, int, int]] = []
    for each in pods:
        gpus = sum(sum(gpus_of(pod).values()) for _, pod in each.sets)
        if gpus and each.start:
            changes += [(each.start, 1, gpus), *([(each.end, -1, -gpus)] if each.end else [])]
    running = held = most_pods = most_gpus = 0
    for _, pod, gpus in sorted(changes):
        running, held = running + pod, held + gpus
        most_pods, most_gpus = max(most_pods, running), max(most_gpus, held)
    return most_pods, most_gpus
