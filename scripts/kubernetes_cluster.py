"""Start and end a Kubernetes test cluster on this machine: a real API server, nodes that are objects, loopback only.

python scripts/kubernetes_cluster.py up                    # make kube-up; builds Kubernetes the first time
python scripts/kubernetes_cluster.py down                  # make kube-down
python scripts/kubernetes_cluster.py up --nodes 3 --gpus 4 --folder /tmp/my_cluster
"""

import argparse
from pathlib import Path

import launch  # noqa: F401  the project's packages are found

# isort: split
from deployment.kubernetes.building import build_programs, cache_folder, why_no_build, why_not_built
from deployment.kubernetes.testbed import start_kubernetes, stop_kubernetes
from murmuration.config.errors import one_line_errors


def main() -> None:
    """Start or end the cluster of a folder; say so where this machine cannot run one."""
    parser = argparse.ArgumentParser(description="Start and end a Kubernetes test cluster on this machine.")
    parser.add_argument("action", choices=["up", "down"], help="up builds Kubernetes where it is not built yet")
    parser.add_argument("--folder", type=Path, default=Path("runs/kubernetes_cluster"), help="of all its files")
    parser.add_argument("--nodes", type=int, default=8, help="number of nodes; default: 8")
    parser.add_argument("--gpus", type=int, default=8, help="GPUs of each node; default: 8")
    arguments = parser.parse_args()
    with one_line_errors():
        if arguments.action == "down":
            print(f"{stop_kubernetes(arguments.folder)} daemons ended")
        elif why := why_no_build():
            print(why)
        else:
            if why := why_not_built():
                print(f"{why}, 1.4 GB of memory and 2 GB in {cache_folder()}; it begins now", flush=True)
            build_programs()
            found = start_kubernetes(arguments.folder, arguments.nodes, arguments.gpus)
            print(f"{arguments.nodes} nodes of {arguments.gpus} GPUs are up: kubeconfig={found.kubeconfig}")


if __name__ == "__main__":
    main()
