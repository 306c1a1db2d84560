"""Murmuration on a real API server: bindings, its crashes, two bridges; skipped without Kubernetes or its client."""

from importlib.util import find_spec

import pytest

from deployment.adapter import ActionRefusedError, ClusterTakenError, TaskNote
from deployment.kubernetes.adapter import KubernetesAdapter
from deployment.kubernetes.api import KubernetesApi
from deployment.kubernetes.building import why_not_built
from deployment.kubernetes.testbed import start_kubernetes, stop_kubernetes
from envs.types import MurmurationError
from tests.unit.deployment.conftest import daemons_of
from tests.unit.deployment.test_jobs import wait_for

WHY_NOT = why_not_built() or ("" if find_spec("kubernetes") else "no client: pip install 'murmuration[kubernetes]'")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]
OWNER = "murmuration.1f"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kubernetes", numbered=True) / "cluster"
    try:
        yield start_kubernetes(folder, num_nodes=3, num_gpus=4)
    finally:
        ended = stop_kubernetes(folder)
    assert ended == 5
    assert daemons_of(folder) == ""


@pytest.fixture
def adapter(cluster):
    return KubernetesAdapter(KubernetesApi(cluster.kubeconfig), grace=5.0)


def state(adapter, name):
    try:
        return next((task.state for task in adapter.tasks() if task.name == name), "gone")
    except ActionRefusedError:
        return "no answer"


def wait_until(adapter, name, *wanted):
    wait_for(lambda: state(adapter, name) in wanted)


def start(adapter, folder, job, gpus, *command):
    return adapter.start(TaskNote(OWNER, job, 1, gpus), command, folder)


def test_a_gang_runs_and_ends(adapter, tmp_path):
    name = start(adapter, tmp_path, 1, {"n0": 4, "n1": 2}, "sleep", "2")
    wait_until(adapter, name, "running")
    wait_until(adapter, name, "ended")


def test_a_gang_waits_for_gpus_and_an_eviction_frees_them(adapter, tmp_path):
    first = start(adapter, tmp_path, 2, {"n0": 3}, "sleep", "1000")
    wait_until(adapter, first, "running")
    second = start(adapter, tmp_path, 3, {"n0": 2, "n1": 4}, "sleep", "1000")
    wait_for(lambda: state(adapter, second) == "pending")
    task = next(task for task in adapter.tasks() if task.name == first)
    adapter.stop(task)
    wait_until(adapter, first, "gone")
    wait_until(adapter, second, "running")
    adapter.stop(next(task for task in adapter.tasks() if task.name == second), kill=True)
    wait_until(adapter, second, "gone")


def test_a_crash_of_the_api_loses_no_task_and_starts_none_twice(cluster, adapter, tmp_path):
    job = 4
    script = f"echo begun >> {tmp_path}/begun; sleep 1000"
    name = start(adapter, tmp_path, job, {"n2": 4}, "sh", "-c", script)
    wait_until(adapter, name, "running")
    assert cluster.end_daemon("api", crash=True)
    wait_for(lambda: state(adapter, name) == "no answer")
    with pytest.raises(ActionRefusedError):
        start(adapter, tmp_path, 90 + job, {"n1": 1}, "sleep", "1000")
    cluster.start_daemon("api")
    wait_until(adapter, name, "running")
    assert (tmp_path / "begun").read_text() == "begun\n"
    adapter.stop(next(task for task in adapter.tasks() if task.name == name), kill=True)
    wait_until(adapter, name, "gone")


def test_a_node_that_is_not_ready_or_gone_is_down(cluster, adapter):
    api = KubernetesApi(cluster.kubeconfig)
    told = [{"type": "Ready", "status": "Unknown"}]
    api.request("PATCH", "/api/v1/nodes/n1/status", {"status": {"conditions": told}})
    wait_for(lambda: [node.up for node in adapter.nodes()] == [True, False, True])
    api.request("PATCH", "/api/v1/nodes/n1/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    wait_for(lambda: all(node.up for node in adapter.nodes()))


def test_two_bridges_refuse_each_other_and_a_second_cluster_in_the_folder_is_refused(cluster, adapter):
    adapter.claim("murmuration.a")
    with pytest.raises(ClusterTakenError, match="Lease"):
        KubernetesAdapter(KubernetesApi(cluster.kubeconfig)).claim("murmuration.b")
    adapter.leave("murmuration.a")
    with pytest.raises(MurmurationError, match="end it first"):
        start_kubernetes(cluster.folder)
