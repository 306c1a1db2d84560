"""The skeleton of an adapter to Kubernetes, against answers of the form that its API documents."""

import json

import pytest

from deployment.adapter import ActionRefusedError, ClusterTakenError, NodeStatus, TaskNote, TaskStatus
from deployment.kubernetes import KubernetesAdapter

NOTE = TaskNote("murmuration.1f", 3, 2, {"a": 4, "b": 2})


def node(name, **spec):
    capacity = {"cpu": "64", "memory": "527942Mi", "nvidia.com/gpu": "8", "pods": "110"}
    ready = {"type": "Ready", "status": "False" if name == "c" else "True"}
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}
    status = {"capacity": capacity, "conditions": [{"type": "MemoryPressure", "status": "False"}, ready]}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def pod(phase, note=NOTE):
    annotations = {"murmuration": note.write()} if note else {}
    return {"metadata": {"name": "x", "annotations": annotations}, "spec": {}, "status": {"phase": phase}}


class Answers:
    """kubectl that answers from a table and keeps what it was asked."""

    def __init__(self, items=None):
        self.items, self.asked = items or {}, []

    def __call__(self, words, given):
        self.asked.append((words, given))
        return json.dumps({"items": self.items.get(words[1], [])}) if words[0] == "get" else ""


def test_nodes_are_read():
    plain = node("cpu_only")
    del plain["status"]["capacity"]["nvidia.com/gpu"]
    answers = Answers({"nodes": [node("b", unschedulable=True), node("a"), node("c"), plain]})
    expected = [NodeStatus(name, "NVIDIA-A100-SXM4-40GB", 8, 64.0, 527942 * 2**20 / 1e9, name == "a") for name in "abc"]
    assert KubernetesAdapter("image", kubectl=answers).nodes() == expected


@pytest.mark.parametrize(
    ("phases", "state"),
    [(("Running", "Running"), "running"), (("Running", "Pending"), "pending"), (("Running", "Failed"), "ended")],
)
def test_the_pods_of_a_gang_are_one_task(phases, state):
    answers = Answers({"pods": [*map(pod, phases), pod("Running", None)]})
    assert KubernetesAdapter("image", kubectl=answers).tasks() == [TaskStatus("murmuration-1f-3-2", NOTE, state)]


def test_a_task_is_started_on_its_nodes_and_stopped_with_grace_or_at_once(tmp_path):
    answers = Answers()
    adapter = KubernetesAdapter("image", 12.0, answers)
    assert adapter.start(NOTE, ["train"], tmp_path) == "murmuration-1f-3-2"
    pods = json.loads(answers.asked[0][1])["items"]
    limits = [each["spec"]["containers"][0]["resources"]["limits"] for each in pods]
    assert [(each["spec"]["nodeName"], limit) for each, limit in zip(pods, limits, strict=True)] == [
        ("a", {"nvidia.com/gpu": 4}),
        ("b", {"nvidia.com/gpu": 2}),
    ]
    assert {each["spec"]["terminationGracePeriodSeconds"] for each in pods} == {12}
    task = TaskStatus("murmuration-1f-3-2", NOTE, "running")
    adapter.stop(task)
    adapter.stop(task, kill=True)
    assert "--force" not in answers.asked[1][0]
    assert "--force" in answers.asked[2][0]


@pytest.mark.parametrize("capacity", [{"nvidia.com/gpu": "many"}, {"nvidia.com/gpu": 8}, {"nvidia.com/gpu": "8"}])
def test_a_damaged_answer_is_refused(capacity):
    damaged = node("a")
    damaged["status"]["capacity"] = capacity
    with pytest.raises(ActionRefusedError, match="kubectl get nodes.items"):
        KubernetesAdapter("image", kubectl=Answers({"nodes": [damaged]})).nodes()


def test_a_second_bridge_is_refused():
    held: dict[str, str] = {}

    def kubectl(words, given):
        if words[0] == "create":
            if held:
                raise ActionRefusedError("AlreadyExists")
            held["owner"] = words[-1].partition("=")[2].partition("=")[2]
        elif words[0] == "delete":
            held.clear()
        return json.dumps({"data": held}) if words[0] == "get" and held else ""

    adapter = KubernetesAdapter("image", kubectl=kubectl)
    adapter.claim("me.1")
    adapter.claim("me.1")  # the same bridge, continued
    with pytest.raises(ClusterTakenError, match=r"the bridge me\.1 has claimed"):
        adapter.claim("me.2")
    adapter.leave("me.2")
    assert held
    adapter.leave("me.1")
    adapter.claim("me.2")
