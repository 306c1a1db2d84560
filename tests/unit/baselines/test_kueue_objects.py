"""Kueue's objects as queues: what is read, and one line for each mistake."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from baselines import Fifo
from baselines.kueue import QueueSettings, behind_kueue
from baselines.kueue.objects import read_queues
from envs.types import MurmurationError


def cluster_queue(name: str, quota: Any = 8, cohort: str = "", spec: dict[str, Any] | None = None, **limits: Any):
    """A ClusterQueue with one flavor of GPUs; None for no resources."""
    flavors = [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": quota, **limits}]}]
    groups = [] if quota is None else [{"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}]
    own = {"resourceGroups": groups, **({"cohort": cohort} if cohort else {}), **(spec or {})}
    return {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": own}


def cohort(name: str, parent: str = ""):
    return {"kind": "Cohort", "metadata": {"name": name}, "spec": {"parentName": parent}}


def local(namespace: str, name: str, queue: str):
    return {
        "kind": "LocalQueue",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"clusterQueue": queue},
    }


def read(folder: Path, *entries: dict[str, Any]):
    path = folder / "queues.yaml"
    path.write_text(yaml.safe_dump_all(entries))
    return read_queues(path)


def test_objects_are_read(tmp_path):
    """Two flavors add up; defaults are Kueue's: nothing is preempted; a cohort that is only named has no quota."""
    rules = {"withinClusterQueue": "LowerOrNewerEqualPriority", "reclaimWithinCohort": "LowerPriority"}
    spec = {"queueingStrategy": "StrictFIFO", "preemption": rules, "fairSharing": {"weight": "500m"}}
    two = cluster_queue("a", 8, "all", spec, borrowingLimit=4, lendingLimit="2")
    two["spec"]["resourceGroups"][0]["flavors"] *= 2
    cpu = {"name": "cpu", "nominalQuota": 100}
    two["spec"]["resourceGroups"][0]["flavors"][0]["resources"].append(cpu)
    fair = {"enable": True, "preemptionStrategies": ["LessThanInitialShare"]}
    found = read(
        tmp_path,
        two,
        cluster_queue("b", "16", "all"),
        local("team", "x", "a"),
        local("other", "x", "b"),
        local("other", "y", "b"),
        {"kind": "Configuration", "fairSharing": fair},
        {"kind": "Node"},
    )
    assert found.queues == (
        QueueSettings("a", "cohort all", 16, 8, 4, 0.5, True, "lower_or_newer", "lower_priority"),
        QueueSettings("b", "cohort all", 16, within_queue="never", reclaim="never"),
        QueueSettings("cohort all"),
    )
    assert (found.fair_sharing, found.strategies) == (True, ("initial",))
    behind = behind_kueue(Fifo(), str(tmp_path / "queues.yaml"))
    assert [behind.queue_of(name) for name in ("b", "team", "team/x", "other", "y")] == ["b", "a", "a", "b", "b"]
    with pytest.raises(MurmurationError, match="tenant x: has LocalQueues of several queues \\(a, b\\)"):
        behind.queue_of("x")
    assert behind.describe() == ["behind Kueue: 2 queues of 32 GPUs, fair sharing (initial)"]


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([cluster_queue("a", cohort="x"), cohort("x", "y"), cohort("y", "x")], "queue a: .* is a cycle"),
        ([cluster_queue("a", -1)], "ClusterQueue a: nominalQuota is '-1'; it must be a number, 0 or more"),
        ([cluster_queue("a", 8, "all", lendingLimit=9)], "lendingLimit is '9'; it must be at most nominalQuota"),
        ([cluster_queue("a", borrowingLimit=1)], "queue a: borrowing_limit needs a parent"),
        ([cluster_queue("a", None)], "queue a: can have 0 GPUs at most, so no job can ever pass"),
        ([cluster_queue("a", 0, "all"), cluster_queue("b", 0, "all")], "queue a: can have 0 GPUs"),
        ([cluster_queue("a", spec={"stopPolicy": "Hold"})], "stopPolicy is 'Hold'; it must be None"),
        ([cluster_queue("a", spec={"queueingStrategy": "LIFO"})], "queueingStrategy is 'LIFO'"),
        ([cluster_queue("a"), cluster_queue("a")], "queue a is there twice"),
        (
            [cluster_queue("a"), local("n", "l", "aa")],
            "LocalQueue n/l: clusterQueue aa is not in the file; did you",
        ),
        ([cohort("x")], "has no ClusterQueue"),
        (
            [{"kind": "ClusterQueue", "metadata": {"name": "a"}, "spec": []}],
            "spec is .* must be an object",
        ),
    ],
)
def test_mistakes_are_one_line(tmp_path, entries, words):
    with pytest.raises(MurmurationError, match=words) as caught:
        read(tmp_path, *entries)
    assert str(caught.value).startswith(str(tmp_path / "queues.yaml"))
    assert "\n" not in str(caught.value)
