"""The programs of a Kubernetes control plane, built once from Debian's source package with Debian's Go.

Debian has no package of them, and the releases of Kubernetes are not on every network; its source package is wherever
Debian's packages are. The build takes about 10 minutes of CPU time, 1.4 GB of memory and 2 GB of disk.
"""

import os
import shutil
import subprocess
from pathlib import Path

from envs.types import MurmurationError, as_line

PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
GO = Path("/usr/lib/go-1.19")
PACKAGES = "golang-1.19-go etcd-server rsync openssl dpkg-dev"
VERSION = "1.20.2"
BUILD = f"""set -eu
sed 's/^Types: deb$/Types: deb-src/; s/^deb /deb-src /' /etc/apt/sources.list.d/debian.sources > debian.sources
apt-get update -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$PWD" -o Dir::State::lists="$PWD/lists"
apt-get source -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$PWD" -o Dir::State::lists="$PWD/lists" \
    --download-only kubernetes
tar xf kubernetes_*.orig.tar.gz
mkdir -p gp/src/k8s.io home lists/partial
ln -sfn "$PWD/kubernetes-{VERSION}" gp/src/k8s.io/kubernetes
cd gp/src/k8s.io/kubernetes
make WHAT="{" ".join(f"cmd/{name}" for name in PROGRAMS)}"
"""


def cache_folder() -> Path:
    """Return the folder where the programs are built, outside of the project's: `MURMURATION_KUBERNETES` names it."""
    own = os.environ.get("MURMURATION_KUBERNETES")
    return Path(own) if own else Path.home() / ".cache" / "murmuration-kubernetes"


def program(name: str) -> Path:
    """Return where a program is, or will be."""
    return cache_folder() / f"kubernetes-{VERSION}" / "_output" / "local" / "go" / "bin" / name


def why_no_build() -> str:
    """Return one line that says why this machine cannot build the programs; empty if it can."""
    missing = [name for name in ("rsync", "openssl", "etcd", "apt-get", "make") if shutil.which(name) is None]
    missing += [] if (GO / "bin" / "go").exists() else ["go 1.19"]
    return f"no Kubernetes: {', '.join(missing)} not found; apt-get install -y {PACKAGES}" if missing else ""


def why_not_built() -> str:
    """Return one line that says why a test cluster cannot be started now; empty if it can."""
    if why := why_no_build():
        return why
    built = all(program(name).exists() for name in PROGRAMS)
    return "" if built else "no Kubernetes: not built; make kube-up builds it in about 10 minutes of CPU time"


def build_programs() -> None:
    """Build the programs where they are missing.

    Raises:
        MurmurationError: packages are missing, or the build fails; its log is in the folder.
    """
    if not why_not_built():
        return
    if why := why_no_build():
        raise MurmurationError(why)
    folder = cache_folder()
    (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "GOROOT": str(GO),
        "GOPATH": str(folder / "gp"),
        "GOCACHE": str(folder / "gocache"),
        "HOME": str(folder / "home"),
        "PATH": f"{GO / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
        "CGO_ENABLED": "0",
        "GO111MODULE": "off",
        "GOPROXY": "off",
        "KUBE_GIT_VERSION": f"v{VERSION}",
        "KUBE_GIT_TREE_STATE": "clean",
        "KUBE_GIT_COMMIT": "debian",
        "KUBE_GIT_MAJOR": VERSION.split(".")[0],
        "KUBE_GIT_MINOR": VERSION.split(".")[1],
    }
    log = folder / "build.log"
    with log.open("ab") as out:
        done = subprocess.run(["bash", "-c", BUILD], cwd=folder, env=environment, stdout=out, stderr=out)
    if done.returncode or why_not_built():
        raise MurmurationError(f"the build of Kubernetes ended with status {done.returncode}; see {as_line(str(log))}")
