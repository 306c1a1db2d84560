"""Kubernetes: gangs are bound as a whole, watches are taken up again, and what cannot be read is named and left out."""

import queue
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from deployment.adapter import ActionRefusedError, ClusterTakenError, TaskNote
from deployment.kubernetes.adapter import KubernetesAdapter
from deployment.kubernetes.agent import NodeAgent
from deployment.kubernetes.api import ApiRefusedError, ResourceWatch
from deployment.kubernetes.pods import quantity
from deployment.reading import Entry, ProtocolError
from tests.unit.deployment.test_jobs import wait_for

NOTE = TaskNote("murmuration.1f", 3, 2, {"a": 4, "b": 2})


def node(name, gpus="8", ready="True", **spec):
    size = {"cpu": "64", "memory": "527942Mi", "nvidia.com/gpu": gpus, "pods": "110"}
    told = [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}]
    meta = {"name": name, "uid": f"node-{name}", "labels": {"nvidia.com/gpu.product": "A100"}}
    return {"metadata": meta, "spec": spec, "status": {"capacity": size, "allocatable": size, "conditions": told}}


class FakeApi:
    """Keeps nodes, pods and the Lease as an API server does, in the form of its answers; tells watches each change."""

    def __init__(self, *nodes):
        self.objects = {"/api/v1/nodes": {each["metadata"]["name"]: each for each in nodes}, "/api/v1/pods": {}}
        self.leases: dict[str, Any] = {}
        self.watches: list[Any] = []
        self.asked: Counter[str] = Counter()
        self.version = 0
        self.refused: dict[str, int] = {}  # status by the end of a path

    def tell(self, what, found, path="/api/v1/pods"):
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)
        for where, events in self.watches:
            if where == path:
                events.put({"type": what, "object": found})

    def stream(self, path, query):
        events: queue.Queue[Any] = queue.Queue()
        self.watches.append((path, events))
        while (event := events.get()) is not None:
            yield Entry(event, f"watch {path}")

    def request(self, method, path, body=None, *, query=None):
        for end, status in self.refused.items():
            if path.endswith(end) and method != "GET":
                raise ApiRefusedError(f"{method} {path}: {status}", status)
        self.asked[f"{method} {path.rpartition('/')[2]}"] += 1
        return Entry(self._answer(method, path, body, query or {}), f"{method} {path}")

    def _answer(self, method, path, body, query):
        pods, name = self.objects["/api/v1/pods"], path.rpartition("/")[2]
        if path in self.objects:
            return {"metadata": {"resourceVersion": "0"}, "items": list(self.objects[path].values())}
        if "/leases" in path:
            return self._lease(method, name, body)
        if path == "/apis/policy":
            return {"preferredVersion": {"groupVersion": "policy/v1beta1"}}
        if method == "POST" and name == "pods":
            body = {**body, "status": {"phase": "Pending"}}
            body["metadata"] |= {"uid": f"uid-{len(self.asked)}-{body['metadata']['name']}", "namespace": "default"}
            pods[body["metadata"]["name"]] = body
            self.tell("ADDED", body)
            return body
        pod = pods.get(path.split("/pods/")[1].split("/")[0])
        if pod is None:
            raise ApiRefusedError(f"{method} {path}: 404", 404)
        if name == "binding":
            pod["spec"]["nodeName"] = body["target"]["name"]
        elif name == "eviction":
            assert body["apiVersion"] == "policy/v1beta1"
            pod["metadata"] |= {"deletionTimestamp": "2024-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
        elif name == "status":
            pod["status"] |= body["status"]
        elif method == "DELETE":  # a server reads the query only where there is no body
            assert (query if body is None else body)["gracePeriodSeconds"] == 0
            del pods[pod["metadata"]["name"]]
        self.tell("DELETED" if method == "DELETE" else "MODIFIED", pod)
        return pod

    def _lease(self, method, name, body):
        if method == "POST":
            if self.leases:
                raise ApiRefusedError("409", 409)
            self.leases[body["metadata"]["name"]] = body
        elif name not in self.leases:
            raise ApiRefusedError("404", 404)
        return self.leases.pop(name) if method == "DELETE" else next(iter(self.leases.values()))

    def pod(self, name, gpus, where="", scheduler="default-scheduler", **more):
        container = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": gpus}}, **more}
        spec = {"schedulerName": scheduler, "containers": [container]} | ({"nodeName": where} if where else {})
        self.request("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": name}, "spec": spec})

    def where(self):
        return {name: pod["spec"].get("nodeName", "") for name, pod in self.objects["/api/v1/pods"].items()}


def states(adapter):
    return {task.name: task.state for task in adapter.tasks()}


def test_nodes_are_read_and_one_that_cannot_be_is_named_and_left_out():
    api: Any = FakeApi(node("b", unschedulable=True), node("a"), node("c", ready="Unknown"), node("d", "many"))
    adapter = KubernetesAdapter(api)
    assert [(each.name, each.num_gpus, each.up) for each in adapter.nodes()] == [
        ("a", 8, True),
        ("b", 8, False),
        ("c", 8, False),
    ]
    assert adapter.nodes()[0].memory == pytest.approx(527942 * 2**20 / 1e9)
    (line,) = adapter.faults
    assert "nvidia.com/gpu is 'many'; it must be a quantity" in line


def test_a_gang_waits_until_all_its_pods_fit_and_then_all_are_bound(tmp_path):
    api: Any = FakeApi(node("a"), node("b"))
    adapter = KubernetesAdapter(api)
    api.pod("foreign", "7", "b")
    wait_for(lambda: adapter._pods.items())
    name = adapter.start(NOTE, ["train"], tmp_path)
    wait_for(lambda: states(adapter) == {name: "pending"})
    assert api.where() == {"foreign": "b", f"{name}-0": "", f"{name}-1": ""}
    assert api.asked["POST binding"] == 0
    api.request("DELETE", "/api/v1/namespaces/default/pods/foreign", query={"gracePeriodSeconds": 0})
    wait_for(lambda: adapter.tasks() and api.where() == {f"{name}-0": "a", f"{name}-1": "b"})
    assert api.asked["POST binding"] == 2
    for number in range(2):
        path = f"/api/v1/namespaces/default/pods/{name}-{number}/status"
        api.request("PATCH", path, {"status": {"phase": "Running"}})
    wait_for(lambda: states(adapter) == {name: "running"})


def test_two_gangs_never_get_the_same_gpus_before_the_watch_has_told_of_the_first(tmp_path):
    api: Any = FakeApi(node("a"))
    adapter = KubernetesAdapter(api)
    adapter.tasks()
    for pods in [events for path, events in api.watches if path.endswith("pods")]:
        pods.put(None)  # nothing is told any more
    api.tell = lambda *_: None
    first, second = (TaskNote("murmuration.1f", job, 1, {"a": 5}) for job in (0, 1))
    adapter.start(first, ["train"], tmp_path)
    adapter.start(second, ["train"], tmp_path)
    assert sorted(api.where().values()) == ["", "a"]


@pytest.mark.parametrize("status", [403, 500])
def test_a_gang_of_which_one_pod_is_refused_leaves_none(tmp_path, status):
    api: Any = FakeApi(node("a"), node("b"))
    adapter = KubernetesAdapter(api)
    api.refused["-1/binding"] = status
    with pytest.raises(ActionRefusedError, match=rf"murmuration-1f-3-2-1/binding: {status}"):
        adapter.start(NOTE, ["train"], tmp_path)
    assert api.where() == {}


def test_a_pod_of_somebody_else_or_of_another_scheduler_is_never_bound():
    api: Any = FakeApi(node("a"))
    adapter = KubernetesAdapter(api)
    api.pod("theirs", "1", scheduler="default-scheduler")
    api.pod("no_note", "1", scheduler="murmuration")
    api.pod("odd", "a lot", "a")
    wait_for(lambda: len(adapter._pods.items()) == 3)
    assert adapter.tasks() == []
    assert api.asked["POST binding"] == 0


def test_a_task_is_evicted_by_what_the_api_offers_and_killed_at_once(tmp_path):
    api: Any = FakeApi(node("a"), node("b"))
    adapter = KubernetesAdapter(api)
    name = adapter.start(NOTE, ["train"], tmp_path)
    wait_for(lambda: all(api.where().values()) and len(adapter._pods.items()) == 2 and states(adapter))
    wait_for(lambda: all("nodeName" in pod.value["spec"] for pod in adapter._pods.items()))
    (task,) = adapter.tasks()
    adapter.stop(task)
    assert api.asked["POST eviction"] == 2
    wait_for(lambda: states(adapter) == {name: "ended"})
    adapter.stop(task, kill=True)
    assert api.where() == {}
    adapter.stop(task)  # one that has gone is no error


def test_a_second_bridge_is_refused_by_the_lease():
    api: Any = FakeApi(node("a"))
    adapter = KubernetesAdapter(api)
    adapter.claim("me.1")
    adapter.claim("me.1")  # the same bridge, continued
    with pytest.raises(ClusterTakenError, match=r"the bridge me\.1 has claimed the cluster by the Lease"):
        adapter.claim("me.2")
    adapter.leave("me.2")
    adapter.leave("me.1")
    adapter.claim("me.2")


def test_a_watch_lists_again_after_410_and_goes_on_where_it_was_after_a_plain_end():
    api: Any = FakeApi(node("a"))
    watch = ResourceWatch(api, "/api/v1/nodes")
    wait_for(lambda: api.watches)
    api.watches[-1][1].put(None)  # the server ends the watch after its time
    wait_for(lambda: len(api.watches) == 2)
    assert watch.num_lists == 1
    api.objects["/api/v1/nodes"]["b"] = node("b")
    api.watches[-1][1].put({"type": "ERROR", "object": {"code": 410, "metadata": {}}})
    wait_for(lambda: len(api.watches) == 3)
    assert watch.num_lists == 2
    assert {each.value["metadata"]["name"] for each in watch.items()} == {"a", "b"}
    api.tell("DELETED", api.objects["/api/v1/nodes"].pop("a"), "/api/v1/nodes")
    wait_for(lambda: len(watch.items()) == 1)


def test_an_api_that_is_away_refuses_a_look_and_comes_back():
    api: Any = FakeApi(node("a"))
    answer, away = api.request, [True]

    def request(*words, **more):
        if away[0]:
            raise ActionRefusedError("GET: no answer (refused)")
        return answer(*words, **more)

    api.request = request
    watch = ResourceWatch(api, "/api/v1/nodes", patience=0.2)
    with pytest.raises(ActionRefusedError, match="no answer"):
        watch.items()
    away[0] = False
    wait_for(lambda: watch.num_lists == 1)
    assert len(watch.items()) == 1


@pytest.mark.parametrize(
    ("command", "phase"), [(["true"], "Succeeded"), (["false"], "Failed"), (["no/such"], "Failed")]
)
def test_the_agent_runs_a_pod_to_its_end(command, phase):
    api: Any = FakeApi(node("a"))
    agent = NodeAgent(api)
    api.pod("job", "1", "a", command=command)

    def over():
        agent.look()
        return api.objects["/api/v1/pods"]["job"]["status"]["phase"] == phase

    wait_for(over)


def test_the_agent_honours_the_grace_time(tmp_path):
    api: Any = FakeApi(node("a"))
    agent, seen = NodeAgent(api), Path(tmp_path / "stopped")
    script = f"trap 'touch {seen}; exit 0' TERM; touch {tmp_path}/up; while :; do sleep 0.05; done"
    api.pod("job", "1", "a", command=["sh", "-c", script])

    def until(done):
        def looked_and_done():
            agent.look()
            return done()

        wait_for(looked_and_done)

    until((tmp_path / "up").exists)
    api.request("POST", "/api/v1/namespaces/default/pods/job/eviction", {"apiVersion": "policy/v1beta1"})
    until(lambda: not api.objects["/api/v1/pods"])
    assert seen.exists()


@pytest.mark.parametrize(("text", "number"), [("8", 8), ("64250m", 64.25), ("2Ki", 2048), ("1e3", 1000), ("3G", 3e9)])
def test_quantities_are_read(text, number):
    assert quantity(Entry(text, "x")) == pytest.approx(number)


@pytest.mark.parametrize("text", ["", "Ki", "many", "8GiB", "nan", "-1", "1e999", 8, None])
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(ProtocolError, match="^x is"):
        quantity(Entry(text, "x"))
