"""Lists of Kubernetes, Volcano and Kueue, by the fields of their published APIs."""

import json
import random
from typing import Any

import numpy as np
import pytest
import yaml

from envs.types import TraceError
from envs.workloads import TraceSource
from envs.workloads.readers import KubernetesTrace

A100 = "NVIDIA-A100-SXM4-80GB"


def at(minute):
    return f"2024-03-04T{8 + minute // 60:02}:{minute % 60:02}:00Z"


def pod_spec(gpus=1, resource="nvidia.com/gpu", **more):
    return {"containers": [{"name": "main", "resources": {"limits": {"cpu": "4", resource: str(gpus)}}}], **more}


def meta(name, minute=0, owner="", **more):
    owners = {"ownerReferences": [{"uid": owner, "kind": "Job", "name": "owner"}]} if owner else {}
    return {"name": name, "namespace": "vision", "uid": f"u-{name}", "creationTimestamp": at(minute), **owners, **more}


def job(name="a", minute=0, start=10, end=70, gpus=4, parallelism=2, **more):
    spec = {"parallelism": parallelism, "completions": parallelism, "template": {"spec": pod_spec(gpus, **more)}}
    status = {"startTime": at(start)} | ({"completionTime": at(end)} if end else {})
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta(name, minute), "spec": spec, "status": status}


def pod(name, minute=0, start=12, end=68, gpus=4, owner="", **more):
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(start)}] if start else []
    ended = [{"state": {"terminated": {"finishedAt": at(end)}}}] if end else []
    status = {"phase": "Succeeded" if end else "Running", "conditions": conditions, "containerStatuses": ended}
    metadata = meta(name, minute, owner, **more)
    spec = pod_spec(gpus, nodeName=f"node-{name}", priority=7, priorityClassName="high")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def workload(name="w", minute=0, owner="", evicted=False, **more):
    held = [("QuotaReserved", 20), ("Admitted", 21), ("Finished", 90)]
    conditions = [{"type": each, "status": "True", "lastTransitionTime": at(then)} for each, then in held]
    conditions += [{"type": "Evicted", "status": "False", "lastTransitionTime": at(19)}] if evicted else []
    assigned = [{"name": "main", "count": 3, "flavors": {"cpu": "any", "nvidia.com/gpu": "a100"}}]
    spec = {"queueName": "team", "priority": 5, "priorityClassName": "high", "maximumExecutionTimeSeconds": 7200}
    spec["podSets"] = [{"name": "main", "count": 4, "minCount": 2, "template": {"spec": pod_spec(8)}}]
    status = {"conditions": conditions, "admission": {"clusterQueue": "all", "podSetAssignments": assigned}, **more}
    version = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload"}
    return {**version, "metadata": meta(name, minute, owner), "spec": spec, "status": status}


def volcano(name="v", retries=0, phase="Completed"):
    tasks = [{"name": "worker", "replicas": 2, "template": {"spec": pod_spec(2)}}]
    tasks += [{"name": "ps", "template": {"spec": {"containers": [{"name": "x"}]}}}]
    state = {"phase": phase, "lastTransitionTime": at(45)}
    conditions = [
        {"status": "Pending", "lastTransitionTime": at(1)},
        {"status": "Running", "lastTransitionTime": at(5)},
    ]
    status = {"state": state, "conditions": conditions, "retryCount": retries}
    spec = {"queue": "research", "tasks": tasks, "minAvailable": 3, "priorityClassName": "low"}
    version = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    return {**version, "metadata": meta(name), "spec": spec, "status": status}


def group(name="g", version="scheduling.x-k8s.io/v1alpha1", owner=""):
    spec = {"minMember": 2, "minResources": {"nvidia.com/gpu": "16"}, "queue": "gang"}
    return {"apiVersion": version, "kind": "PodGroup", "metadata": meta(name, owner=owner), "spec": spec, "status": {}}


LABELLED = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}
ANNOTATED = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
CASES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "a Job": ([job()], {"num_gpus": 8, "duration": 3600, "start_after": 600, "max_nodes": 2, "id": "vision/a"}),
    "a Job and its Pods": (
        [job(), pod("p", 10, 12, 60, owner="u-a"), pod("q", 10, 13, owner="u-a")],
        {"num_gpus": 8, "start_after": 720, "end_after": 4200, "nodes": "node-p,node-q", "priority": 7, "qos": "high"},
    ),
    "a Pod": ([pod("p")], {"num_gpus": 4, "start_after": 720, "duration": 3360, "max_nodes": 1, "attempts": 1}),
    "Pods of an owner that is absent; one replaces another": (
        [pod("p", 0, 5, 20, owner="x"), pod("q", 0, 6, 40, owner="x"), pod("r", 21, 22, 50, owner="x")],
        {"num_gpus": 8, "max_nodes": 2, "start_after": 300, "end_after": 3000, "id": "vision/owner", "attempts": 0},
    ),
    "a Workload": (
        [workload()],
        {"num_gpus": 24, "min_gpus": 16, "start_after": 1260, "duration": 4140, "queue": "team", "pool": "a100"}
        | {"time_limit": 7200, "priority": 5, "qos": "high", "tenant": "vision", "attempts": 1, "waited": 1260},
    ),
    "a Workload and its Job and Pod": (
        [workload(owner="u-a"), job(), pod("p", 22, 23, owner="u-a")],
        {"num_gpus": 24, "start_after": 1380, "end_after": 5400, "queue": "team", "nodes": "node-p"},
    ),
    "an evicted Workload": (
        [workload(evicted=True, accumulatedPastExexcutionTimeSeconds=300, requeueState={"count": 2})],
        {"start_after": np.nan, "end_after": 5400, "waited": 960, "attempts": 3},
    ),
    "a Volcano Job": (
        [volcano(), group(version="scheduling.volcano.sh/v1beta1", owner="u-v")],
        {"num_gpus": 4, "start_after": 300, "duration": 2400, "queue": "research", "qos": "low", "max_nodes": 2},
    ),
    "a Volcano Job that was tried again": ([volcano(retries=1)], {"start_after": np.nan, "waited": np.nan}),
    "a PodGroup with the label": (
        [group(), *(pod(name, 1, 9, 30, 8, **LABELLED) for name in "pq")],
        {"num_gpus": 16, "start_after": 540, "end_after": 1800, "max_nodes": 2, "queue": "gang", "id": "vision/g"},
    ),
    "a PodGroup with the annotation": (
        [group(version="scheduling.volcano.sh/v1beta1"), pod("p", 1, 9, 30, 16, **ANNOTATED)],
        {"num_gpus": 16, "duration": 1260, "max_nodes": 1},
    ),
    "slices": (
        [job(gpus=3, parallelism=1, resource="nvidia.com/mig-1g.10gb")],
        {"num_gpus": 3, "mig_profile": "1g.10gb"},
    ),
    "a type": ([job(nodeSelector={"nvidia.com/gpu.product": A100})], {"ran_on": "A100", "gpu_type": "A100"}),
    "a pool": ([job(nodeSelector={"eks.amazonaws.com/nodegroup": "big"})], {"pool": "big", "ran_on": ""}),
}


def read(write, items, *, form="json", strict=True):
    content = {"apiVersion": "v1", "kind": "List", "items": items}
    text = json.dumps(content) if form == "json" else yaml.safe_dump(content)
    return KubernetesTrace(gpu_types={A100: "A100"}).read(write(f"jobs.{form}", text), strict=strict)


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("name", CASES)
def test_items_become_one_job(write, name, form):
    items, expected = CASES[name]
    frame, report = read(write, items, form=form)
    assert len(frame) == 1
    assert {column: frame[column].iloc[0] for column in expected} == pytest.approx(expected, nan_ok=True)
    assert report.rows == len(items)
    assert report.skipped == ({"parts of a job that the file has": len(items) - 1} if len(items) > 1 else {})


def test_what_is_left_out_is_counted_and_said(write):
    items = [
        job("ok", affinity={"nodeAffinity": {"x": {}}}, nodeSelector={"disk": "ssd"}),
        job("none", gpus=0),
        job("runs", end=0),
        pod("waits", start=0, end=0),
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta("d")},
    ]
    frame, report = read(write, items)
    assert frame["id"].tolist() == ["vision/ok"]
    ended = "not ended, or without a recorded end"
    assert report.skipped == {"other kinds: Deployment 1": 1, "no GPUs requested": 1, "never started": 1, ended: 1}
    said = {f"1 jobs ask for {what}, which is not read" for what in ("nodeAffinity", "nodeSelector disk")}
    assert said <= set(report.notes)


@pytest.mark.parametrize(
    ("change", "field", "rule"),
    [
        ({"spec": []}, "spec", "must be an object"),
        ({"spec": {"parallelism": -1}}, "spec.parallelism", "must be a whole number"),
        ({"spec": {"template": {"spec": {"containers": {}}}}}, "containers", "must be a list of objects"),
        ({"spec": {"template": {"spec": pod_spec("1.5")}}}, "containers[0].resources.limits.nvidia.com/gpu", "must be"),
        ({"spec": {"template": {"spec": pod_spec("99999999")}}}, "GPUs", "must be at most 65536"),
        (
            {"spec": {"template": {"spec": pod_spec(nodeSelector={"nvidia.com/gpu.product": "GTX"})}}},
            "nodeSelector",
            A100,
        ),
        ({"metadata": meta("a") | {"creationTimestamp": "now"}}, "metadata.creationTimestamp", "must be a time"),
        ({"status": {"startTime": at(9), "completionTime": at(8)}}, "time of end", "must not be before the start"),
        ({"metadata": {"name": []}}, "metadata.name", "must be a text or a number"),
    ],
)
def test_a_wrong_field_is_named_with_its_item(write, change, field, rule):
    frame, report = read(write, [job("ok"), job() | change], strict=False)
    assert frame["id"].tolist() == ["vision/ok"]
    (bad,) = report.examples
    assert (bad.row, bad.field) == (2, field)
    assert rule in bad.reason
    with pytest.raises(TraceError, match=r"jobs\.json: .*row 2: .*; it must .*; correct the row, or skip bad rows"):
        read(write, [job("ok"), job() | change])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is neither JSON nor YAML"),
        ("a: [", "is neither JSON nor YAML"),
        ("a: " + "[" * 200 + "]" * 200, "nested by more than 100 levels"),
        ("[" * 5000, "is neither JSON nor YAML"),
        ("hello", "has no list of items; make the file with  kubectl get"),
        ('{"items": []}', "has no list of items"),
    ],
)
def test_other_files_are_refused_in_one_line(write, text, message):
    with pytest.raises(TraceError, match=message) as error:
        KubernetesTrace().read(write("jobs.json", text))
    assert "\n" not in str(error.value)


def test_a_list_plays_as_a_workload(write, cluster, ideal):
    items = [job("a", gpus=1), pod("p"), volcano()]
    path = write("jobs.yaml", "---\n".join(yaml.safe_dump({"items": [each]}) for each in items))
    source = TraceSource(cluster, ideal, KubernetesTrace(), path=str(path), elastic=1.0, constraints="trace")
    assert len(source.workload) == 3
    assert source.workload.recorded is not None
    assert source.workload.recorded.queue.tolist() == ["", "", "research"]


VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**70,
    1.5,
    float("nan"),
    "",
    "x" * 300,
    "\ud800",
    "\0",
    [],
    {},
    [None],
    [[]],
    {"": []},
    "9" * 50,
)


def mutate(rng, node):
    """Replace, drop or move one value somewhere in a list."""
    inner = list(node.items() if isinstance(node, dict) else enumerate(node))
    key, value = rng.choice(inner)
    if isinstance(value, dict | list) and value and rng.random() < 0.85:
        mutate(rng, value)
    elif rng.random() < 0.2:
        del node[key]
    else:
        node[key] = rng.choice(VALUES)


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_changed_files_end_in_jobs_or_in_one_line(write, form):
    """300 lists, each changed in up to four places; what was not changed is read all the same."""
    for seed in range(150):
        rng = random.Random(seed)
        items = json.loads(json.dumps([each for name in CASES for each in CASES[name][0][:1]]))
        for _ in range(rng.randint(1, 4)):
            mutate(rng, items)
        text = json.dumps(items) if form == "json" else yaml.safe_dump(items, allow_unicode=False)
        cut = rng.randrange(len(text)) if rng.random() < 0.1 else len(text)
        path = write("jobs", text[:cut])
        refused = ""
        try:
            frame, report = KubernetesTrace().read(path)
        except TraceError as error:
            refused = str(error)
        assert "\n" not in refused
        if refused:
            continue
        assert report.rows == report.kept + sum(report.bad.values()) + sum(report.skipped.values())
        assert (frame["duration"] > 0).all()
