"""A Slurm cluster on this machine for tests: fake GPUs, loopback only, all files in one folder, ended by process id."""

import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deployment.processes import end_process, free_ports, send_signal
from deployment.slurm.accounting import DAEMONS as OF_ACCOUNTING
from deployment.slurm.accounting import (
    Accounts,
    accounting_settings,
    declare_accounts,
    start_accounting,
    why_no_accounting,
)
from envs.evaluation.files import write_whole
from envs.types import MurmurationError, Seconds, as_line

DAEMONS = ("munged", "slurmctld", "slurmd")
COMMANDS = ("sbatch", "scancel", "scontrol", "sinfo", "squeue")
PACKAGES = "slurmctld slurmd munge slurm-client"
REST_SOCKET = "rest.socket"
PATIENCE: Seconds = 60.0  # real time for the daemons to start

CONFIG = """ClusterName=murmuration
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={control}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
{accounting}
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=10000,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
ReturnToService=2
SlurmdTimeout=20
KillWait=2
InactiveLimit=0
MinJobAge=3600
SlurmdParameters=config_overrides
{nodes}
"""
MAIN = "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO"
NO_ACCOUNTING = "AccountingStorageType=accounting_storage/none"


@dataclass(frozen=True)
class SlurmTestbed:
    """A test cluster, which `start_testbed` starts.

    Attributes:
        folder: of all its files.
        num_nodes: nodes n0, n1, ...
        num_gpus: of each node.
        gpu_types: of the nodes, in equal groups, each with a partition of its name; without any, GPUs have no type.
    """

    folder: Path
    num_nodes: int
    num_gpus: int
    gpu_types: tuple[str, ...] = ()

    @property
    def config(self) -> Path:
        """The file that `SLURM_CONF` must name."""
        return self.folder / "slurm.conf"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of Slurm's commands for this cluster."""
        return {**os.environ, "SLURM_CONF": str(self.config)}

    def start_control(self) -> None:
        """Start slurmctld and wait until it answers; its jobs and nodes are those of its last state."""
        _run(["slurmctld"], self.environment, self.folder)
        self._wait(["scontrol", "ping"], "is UP", "slurmctld")

    def start_node(self, node: int) -> None:
        """Start the slurmd of a node."""
        _run(["slurmd", "-N", f"n{node}"], self.environment, self.folder)

    @property
    def rest(self) -> str:
        """Address of its REST daemon; empty where slurmrestd is not installed."""
        return f"unix:{self.folder / REST_SOCKET}" if (self.folder / REST_SOCKET).exists() else ""

    def start_rest(self) -> None:
        """Start slurmrestd where it is installed, and wait until its socket is there."""
        path = self.environment.get("PATH", "") + os.pathsep + "/usr/sbin"
        program, place = shutil.which("slurmrestd", path=path), self.folder / REST_SOCKET
        if program is None:
            return
        given = {**self.environment, "PATH": path, "SLURMRESTD_SECURITY": "disable_user_check"}  # it may be root
        offered = subprocess.run([program, "-s", "list"], env=given, capture_output=True, text=True)
        plugins = sorted(set(re.findall(r"openapi/v[\d.]+", offered.stdout + offered.stderr)))  # others need slurmdbd
        command = [program, "-a", "rest_auth/local", "-s", ",".join(plugins), f"unix:{place}"]
        file = self.folder / "slurmrestd.pid"
        _run(["sh", "-c", 'setsid "$@" & echo $! > "$0"', str(file), *command], given, self.folder)
        until = time.monotonic() + PATIENCE
        while not place.exists():
            if time.monotonic() > until:
                raise MurmurationError(f"{self.folder}: slurmrestd does not start; see sh.out there")
            time.sleep(0.05)

    def end_daemon(self, name: str, *, crash: bool = False) -> None:
        """End one daemon by its process id, `slurmctld` or a node such as `n3`; a crash saves nothing before."""
        end_process(self.folder / f"{name}.pid", signal.SIGKILL if crash else signal.SIGTERM)

    def wait_for_nodes(self) -> None:
        """Wait until all nodes are idle or in use."""
        up = " ".join(["up"] * self.num_nodes)
        self._wait(["sinfo", "-h", "-N", "-o", "%N=%t"], up, "slurmd")

    def _wait(self, command: Sequence[str], wanted: str, daemon: str) -> None:
        until = time.monotonic() + PATIENCE
        printed = ""
        while time.monotonic() < until:
            done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
            printed = done.stdout
            named = dict.fromkeys(printed.split())  # a node has a line for each of its partitions
            states = [word.rpartition("=")[2].rstrip("*~#") for word in named]
            if wanted in printed or wanted == " ".join("up" for each in states if each in ("idle", "mix", "alloc")):
                return
            time.sleep(0.1)
        raise MurmurationError(
            f"{self.folder}: {daemon} does not answer within {PATIENCE:g} s ({' '.join(printed.split())!r}); "
            f"its log is in this folder; make slurm-down ends all daemons"
        )


def missing_programs() -> list[str]:
    """Return the programs of Slurm and munge that are not installed."""
    path = os.environ.get("PATH", "") + os.pathsep + "/usr/sbin"
    return [name for name in (*DAEMONS, *COMMANDS) if shutil.which(name, path=path) is None]


def why_no_testbed() -> str:
    """Return one line that says why this machine cannot run a test cluster; empty if it can."""
    if missing := missing_programs():
        return f"no test cluster: {', '.join(missing)} not found; install them: apt-get install -y {PACKAGES}"
    if os.geteuid() != 0:
        return "no test cluster: its daemons need root; use a container or sudo"
    return ""


def start_testbed(
    folder: Path,
    num_nodes: int = 8,
    num_gpus: int = 8,
    gpu_types: Sequence[str] = (),
    accounts: Accounts | None = None,
    settings: str = "",
) -> SlurmTestbed:
    """Start a Slurm cluster on this machine.

    Args:
        folder: a new or empty folder for all of its files.
        num_nodes: nodes, each a slurmd on its own port of the loopback interface.
        num_gpus: fake GPUs of each node.
        gpu_types: of the nodes, in equal groups, each with a partition of its name beside `main`, which has all nodes.
        accounts: starts slurmdbd too, with these accounts, users and QoS; None for a cluster without accounting.
        settings: further lines of slurm.conf, which replace those of their names; partitions replace all others.

    Raises:
        MurmurationError: programs are missing, the folder has a cluster, or a daemon does not start.
    """
    if why := why_no_testbed() or (accounts is not None and why_no_accounting()):
        raise MurmurationError(why)
    folder = folder.resolve()
    if (folder / "slurm.conf").exists():
        raise MurmurationError(f"{folder}: has a test cluster; end it first: make slurm-down")
    for part in ("state", *(f"spool/n{i}" for i in range(num_nodes))):
        (folder / part).mkdir(parents=True, exist_ok=True)
    cluster = SlurmTestbed(folder, num_nodes, num_gpus, tuple(gpu_types))
    control, database, storage, *ports = free_ports(3 + num_nodes)
    _write_settings(cluster, control, ports, None if accounts is None else database, settings)
    key = folder / "munge.key"
    write_whole(key, secrets.token_hex(64))
    for private in (key, folder, folder / "state"):
        private.chmod(private.stat().st_mode & 0o700)
    try:
        files = {name: str(folder / f"munge.{name}") for name in ("socket", "log", "pid", "seed")}
        _run(
            ["munged", "--force", f"--socket={files['socket']}", f"--key-file={key}"]
            + [f"--{name}-file={files[name]}" for name in ("log", "pid", "seed")],
            cluster.environment,
            folder,
        )
        if accounts is not None:
            start_accounting(folder, (database, storage), lambda words: _run(words, cluster.environment, folder))
        cluster.start_control()
        if accounts is not None:
            declare_accounts(accounts, cluster.environment)  # limits on GPUs need what slurmctld counts
        for node in range(num_nodes):
            cluster.start_node(node)
        cluster.wait_for_nodes()
        cluster.start_rest()
        if accounts is not None and accounts.users:
            folder.chmod(0o711)  # jobs of other users must reach their scripts; secrets have modes of their own
    except BaseException:
        stop_testbed(folder)
        raise
    return cluster


def _write_settings(
    cluster: SlurmTestbed, control: int, ports: Sequence[int], database: int | None, settings: str
) -> None:
    """Write slurm.conf and gres.conf of a new cluster, and the files of its fake GPUs."""
    folder, num_gpus = cluster.folder, cluster.num_gpus
    for gpu in range(num_gpus):
        (folder / f"gpu{gpu}").touch()  # Slurm counts device files of GPUs and does not look what they are
    size = -(-cluster.num_nodes // max(len(cluster.gpu_types), 1))  # nodes of a type; of the last one perhaps fewer
    nodes, devices, groups = [], [], dict[str, list[str]]()
    for node, port in enumerate(ports):
        name = cluster.gpu_types[node // size] if cluster.gpu_types else ""
        groups.setdefault(name, []).append(f"n{node}")
        nodes.append(
            f"NodeName=n{node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=64 RealMemory=20000 "
            f"Gres=gpu:{f'{name}:' if name else ''}{num_gpus} State=UNKNOWN"
        )
        typed = f" Type={name}" if name else ""
        devices.append(f"NodeName=n{node} Name=gpu{typed} File={folder}/gpu[0-{num_gpus - 1}]\n")
    partitions = [MAIN] + [
        f"PartitionName={name} Nodes={','.join(names)} MaxTime=INFINITE State=UP"
        for name, names in groups.items()
        if name
    ]
    used = NO_ACCOUNTING if database is None else accounting_settings(folder, database, cluster.gpu_types)
    own = [settings] if "PartitionName=" in settings else [*partitions, settings]
    text = CONFIG.format(control=control, folder=folder, accounting=used, nodes="\n".join(nodes))
    names = {line.partition("=")[0] for line in settings.splitlines()}
    kept = [line for line in text.splitlines() if line.partition("=")[0] not in names]
    write_whole(cluster.config, "\n".join([*kept, *own, ""]))
    write_whole(folder / "gres.conf", "".join(devices))


def find_testbed(folder: Path) -> SlurmTestbed:
    """Return the running test cluster of a folder.

    Raises:
        MurmurationError: there is none.
    """
    config = folder.resolve() / "slurm.conf"
    if not config.exists():
        raise MurmurationError(f"{folder}: has no test cluster; start one: make slurm-up")
    lines = [line for line in config.read_text(encoding="utf-8").splitlines() if line.startswith("NodeName=")]
    resources = [line.split("Gres=gpu:")[1].split()[0].split(":") for line in lines]
    types = dict.fromkeys(name for *names, _ in resources for name in names)
    return SlurmTestbed(config.parent, len(lines), int(resources[0][-1]), tuple(types))


def stop_testbed(folder: Path) -> int:
    """End all daemons of a test cluster by their process ids, with their jobs, and remove its folder.

    Returns:
        The number of processes that were ended.
    """
    folder = folder.resolve()
    if not (folder / "slurm.conf").exists():
        return 0
    cluster = find_testbed(folder)
    files = [
        folder / "slurmrestd.pid",
        folder / "slurmctld.pid",
        *(folder / f"n{i}.pid" for i in range(cluster.num_nodes)),
        *(folder / f"{name}.pid" for name in OF_ACCOUNTING),  # after slurmctld, which still tells them how jobs ended
    ]
    jobs = job_processes(folder)
    ended = sum(end_process(file, signal.SIGTERM) for file in (*files, folder / "munge.pid"))
    for pid in jobs:
        send_signal(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)
    return ended


def job_processes(folder: Path) -> list[int]:
    """Return the process ids of jobs on the test cluster of a folder, and of the slurmstepd that watches each.

    All have an environment that names its configuration. A slurmstepd whose slurmctld is gone would wait for ever.
    """
    wanted = f"SLURM_CONF={folder / 'slurm.conf'}".encode()
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = environ.read_bytes().split(b"\0")
        except OSError:
            continue
        of_job = any(each.startswith(b"SLURM_JOB_ID=") for each in variables)
        if wanted in variables and (of_job or _command(environ.parent) == "slurmstepd"):
            found.append(int(environ.parent.name))
    return found


def _command(process: Path) -> str:
    try:
        return (process / "comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _run(command: Sequence[str], environment: dict[str, str], folder: Path) -> None:
    path = environment.get("PATH", "") + os.pathsep + "/usr/sbin"
    with (folder / f"{command[0]}.out").open("ab") as out:  # a daemon keeps it open: a pipe would never end
        given = {**environment, "PATH": path}
        done = subprocess.run(command, env=given, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    if done.returncode:
        printed = (folder / f"{command[0]}.out").read_text(encoding="utf-8", errors="replace")
        raise MurmurationError(  # the folder is removed, so that its logs are no help
            f"{command[0]} ended with status {done.returncode}: {as_line(' '.join(printed.split())[-300:])}"
        )
