"""A Kubernetes cluster on this machine: etcd, a real API server, its controllers, nodes that are objects, an agent."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from deployment.adapter import ActionRefusedError
from deployment.kubernetes.api import KubernetesApi
from deployment.kubernetes.building import program, why_not_built
from deployment.kubernetes.pods import GPU
from deployment.processes import end_process, free_ports
from envs.evaluation.files import write_whole
from envs.types import MurmurationError, Seconds

PATIENCE: Seconds = 120.0  # for the API server to answer
ENDING = ("agent", "scheduler", "controllers", "api", "etcd")  # in the order in which they are ended
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: test
clusters: [{{name: test, cluster: {{server: "https://127.0.0.1:{port}", certificate-authority: "{authority}"}}}}]
users: [{{name: admin, user: {{token: "{token}"}}}}]
contexts: [{{name: test, context: {{cluster: test, user: admin}}}}]
"""
NO_NODE_CONTROLLERS = "*,-nodelifecycle,-nodeipam,-cloud-node-lifecycle,-ttl"  # nobody renews the nodes' leases


@dataclass(frozen=True)
class KubernetesTestbed:
    """A test cluster, which `start_kubernetes` starts.

    Attributes:
        folder: of all its files.
        api_port: of the API server.
        etcd_port: of etcd, and the next one of its peers.
        peer_port: of etcd's peers.
    """

    folder: Path
    api_port: int
    etcd_port: int
    peer_port: int

    @property
    def kubeconfig(self) -> Path:
        """The file that names the cluster."""
        return self.folder / "kubeconfig"

    def start_daemon(self, name: str) -> None:
        """Start one of `ENDING`."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                self._command(name), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
            )  # fmt: skip
        write_whole(self.folder / f"{name}.pid", str(process.pid))

    def _command(self, name: str) -> list[str]:
        etcd, config = f"http://127.0.0.1:{self.etcd_port}", f"--kubeconfig={self.kubeconfig}"
        if name == "etcd":
            peer = f"http://127.0.0.1:{self.peer_port}"
            named = ["--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
            urls = ["--listen-client-urls", etcd, "--advertise-client-urls", etcd, "--listen-peer-urls", peer]
            return ["etcd", "--data-dir", "etcd", *urls, *named]
        if name == "agent":
            return [sys.executable, "-m", "deployment.kubernetes.agent", str(self.kubeconfig)]
        if name == "scheduler":
            return [str(program("kube-scheduler")), config, "--port=0", "--secure-port=0", "--leader-elect=false"]
        if name == "controllers":
            alone = ["--port=0", "--secure-port=0", "--leader-elect=false", f"--controllers={NO_NODE_CONTROLLERS}"]
            return [str(program("kube-controller-manager")), config, *alone]
        keys = ["--service-account-signing-key-file=sa.key", "--service-account-key-file=sa.key"]
        return [
            str(program("kube-apiserver")), f"--etcd-servers={etcd}", f"--secure-port={self.api_port}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--cert-dir=certs",
            "--token-auth-file=tokens.csv", "--service-account-issuer=https://test", *keys,
            "--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        ]  # fmt: skip

    def end_daemon(self, name: str, *, crash: bool = False) -> bool:
        """End one of `ENDING` by its process id; a crash saves nothing before. Return whether it ran."""
        return end_process(self.folder / f"{name}.pid", signal.SIGKILL if crash else signal.SIGTERM)

    def wait_for_api(self) -> KubernetesApi:
        """Wait until the API server is ready; return it.

        Raises:
            MurmurationError: it is not within `PATIENCE`.
        """
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if (self.folder / "certs" / "apiserver.crt").exists():
                api = KubernetesApi(self.kubeconfig)
                try:
                    api.request("GET", "/api/v1/namespaces/default")
                    return api
                except ActionRefusedError:
                    pass
            time.sleep(0.2)
        raise MurmurationError(f"{self.folder}: the API server does not answer within {PATIENCE:g} s; see api.log")


def start_kubernetes(folder: Path, num_nodes: int = 8, num_gpus: int = 8, gpu_type: str = "V100") -> KubernetesTestbed:
    """Start a cluster on this machine, with the nodes n0, n1, ...

    Args:
        folder: a new or empty folder for all of its files.
        num_nodes: nodes, which are objects alone.
        num_gpus: of each node.
        gpu_type: the label of the nodes.

    Raises:
        MurmurationError: programs are missing, the folder has a cluster, or the API server does not start.
    """
    if why := why_not_built():
        raise MurmurationError(why)
    folder = folder.resolve()
    if (folder / "ports").exists():
        raise MurmurationError(f"{folder}: has a test cluster; end it first: make kube-down")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    ports, token = free_ports(3), secrets.token_hex(16)
    cluster = KubernetesTestbed(folder, *ports)
    write_whole(folder / "ports", " ".join(map(str, ports)))
    write_whole(folder / "tokens.csv", f"{token},admin,1,system:masters\n")
    authority = folder / "certs" / "apiserver.crt"  # the API server makes it, and signs it itself
    write_whole(cluster.kubeconfig, KUBECONFIG.format(port=ports[0], authority=authority, token=token))
    subprocess.run(["openssl", "genrsa", "-out", "sa.key", "2048"], cwd=folder, check=True, capture_output=True)
    try:
        cluster.start_daemon("etcd")
        cluster.start_daemon("api")
        api = cluster.wait_for_api()
        for node in range(num_nodes):
            add_node(api, f"n{node}", num_gpus, gpu_type)
        for name in ("controllers", "scheduler", "agent"):
            cluster.start_daemon(name)
    except BaseException:
        stop_kubernetes(folder)
        raise
    return cluster


def add_node(api: KubernetesApi, name: str, num_gpus: int, gpu_type: str) -> None:
    """Make a node that is ready."""
    size = {GPU: str(num_gpus), "pods": "110", "cpu": "64", "memory": "256Gi"}
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "an object alone"}]
    meta = {"name": name, "labels": {"nvidia.com/gpu.product": gpu_type, "kubernetes.io/hostname": name}}
    api.request("POST", "/api/v1/nodes", {"metadata": meta})
    told = {"status": {"capacity": size, "allocatable": size, "conditions": ready}}
    api.request("PATCH", f"/api/v1/nodes/{name}/status", told)


def find_kubernetes(folder: Path) -> KubernetesTestbed:
    """Return the test cluster of a folder.

    Raises:
        MurmurationError: there is none.
    """
    file = folder.resolve() / "ports"
    if not file.exists():
        raise MurmurationError(f"{folder}: has no test cluster; start one: make kube-up")
    api, etcd, peer = map(int, file.read_text(encoding="utf-8").split())
    return KubernetesTestbed(file.parent, api, etcd, peer)


def stop_kubernetes(folder: Path) -> int:
    """End all daemons of a test cluster by their process ids, with the jobs, and remove its folder.

    Returns:
        The number of daemons that were ended.
    """
    if not (folder / "ports").exists():
        return 0
    cluster = find_kubernetes(folder)
    ended = sum(cluster.end_daemon(name) for name in ENDING)
    shutil.rmtree(cluster.folder, ignore_errors=True)
    return ended
