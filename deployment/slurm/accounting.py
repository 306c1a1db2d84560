"""Accounting of a Slurm test cluster: slurmdbd on a MariaDB of its own, and accounts, users and QoS by declaration."""

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import yaml

from envs.evaluation.files import write_whole
from envs.types import MurmurationError, Seconds, as_line

PROGRAMS = ("slurmdbd", "mariadbd", "mariadb-install-db", "sacctmgr", "sacct")
PACKAGES = "slurmdbd mariadb-server-core mariadb-client-core"
PATIENCE: Seconds = 60.0  # real time for the database to start
DAEMONS = ("slurmdbd", "mariadbd")  # in the order in which they end

CONTROL = """AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.socket
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES={tres}
AccountingStoreFlags=job_comment
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityWeightJobSize=1000
PriorityWeightPartition=1000
PriorityWeightQOS=10000
PriorityMaxAge=1-0
PriorityDecayHalfLife=1-0
PriorityCalcPeriod=1"""

DATABASE = """AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={storage}
StorageUser=slurm
StoragePass={password}
StorageLoc=slurm
CommunicationParameters=NoInAddrAny
"""

Run = Callable[[Sequence[str]], None]  # runs a command with the cluster's environment; raises if it fails


@dataclass(frozen=True)
class Accounts:
    """What a test cluster accounts for. Values are settings as `sacctmgr` takes them, such as `fairshare=3`.

    Attributes:
        qos: settings of each QoS, such as `{"urgent": "priority=100 maxjobsperuser=4"}`.
        accounts: settings of each account; `parent=<account>` makes it one of another.
        users: the accounts of each user of this machine, the default one first. All may choose all QoS.
    """

    qos: Mapping[str, str] = field(default_factory=dict)
    accounts: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def commands(self) -> list[list[str]]:
        """Return the commands that declare them, in their order."""
        made = [["add", "qos", name] for name in self.qos]
        made += [["modify", "qos", name, "set", *set_.split()] for name, set_ in self.qos.items() if set_]
        made += [["add", "account", name, *set_.split()] for name, set_ in self.accounts.items()]
        made += [
            ["add", "user", name, f"account={account}", f"defaultaccount={accounts[0]}"]
            for name, accounts in self.users.items()
            for account in accounts
        ]
        if self.qos:
            made.append(["modify", "account", "root", "set", f"qos=normal,{','.join(self.qos)}"])
        return [["sacctmgr", "--immediate", "--quiet", *words] for words in made]


def read_accounts(path: Path) -> Accounts:
    """Return what a YAML file declares: `qos`, `accounts` and `users`, each a table by name.

    Raises:
        MurmurationError: it cannot be read, or has another form.
    """
    try:
        declared = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise MurmurationError(f"{path}: cannot be read: {as_line(' '.join(str(error).split())[:200])}") from None
    names = [each.name for each in fields(Accounts)]
    parts = declared if isinstance(declared, dict) else {"?": None}
    for name, part in parts.items():
        of = list if name == "users" else str
        if name not in names or not isinstance(part, dict) or not all(isinstance(each, of) for each in part.values()):
            raise MurmurationError(
                f"{path}: {name!r} is not understood; it must have {', '.join(names)}, each a table by name: of a user "
                f"the list of accounts, of the others settings of sacctmgr, such as  accounts: {{vision: fairshare=3}}"
            )
    return Accounts(**parts)


def why_no_accounting() -> str:
    """Return one line that says why a test cluster has no accounting on this machine; empty if it can have it."""
    path = os.environ.get("PATH", "") + os.pathsep + "/usr/sbin"
    if missing := [name for name in PROGRAMS if shutil.which(name, path=path) is None]:
        return f"no accounting: {', '.join(missing)} not found; install them: apt-get install -y {PACKAGES}"
    return ""


def accounting_settings(folder: Path, port: int, gpu_types: Sequence[str]) -> str:
    """Return the lines of slurm.conf for a slurmdbd at a port and GPUs of some types."""
    return CONTROL.format(
        folder=folder, port=port, tres=",".join(["gres/gpu", *(f"gres/gpu:{name}" for name in gpu_types)])
    )


def start_accounting(folder: Path, ports: tuple[int, int], run: Run) -> None:
    """Start MariaDB and slurmdbd in the folder of a test cluster that is about to start, and register the cluster.

    Args:
        folder: of the cluster; munged answers there.
        ports: of slurmdbd and of MariaDB, on the loopback interface.
        run: runs a command; raises if it fails.

    Raises:
        MurmurationError: a daemon does not start.
    """
    port, storage = ports
    data, start, password = folder / "database", folder / "database.sql", secrets.token_hex(16)
    data.mkdir(mode=0o700)
    user = "'slurm'@'127.0.0.1'"
    _write_private(
        start,
        f"CREATE DATABASE IF NOT EXISTS slurm;\nCREATE USER IF NOT EXISTS {user} IDENTIFIED BY '{password}';\n"
        f"GRANT ALL ON slurm.* TO {user};\n",
    )
    _write_private(
        folder / "slurmdbd.conf", DATABASE.format(folder=folder, port=port, storage=storage, password=password)
    )
    run(["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}", "--skip-test-db"])
    database = ["mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={folder}/mariadb.socket"]
    database += ["--bind-address=127.0.0.1", f"--port={storage}", "--skip-name-resolve", f"--init-file={start}"]
    database += ["--innodb-lock-wait-timeout=900", "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0"]
    run(["sh", "-c", 'setsid "$@" & echo $! > "$0"', str(folder / "mariadbd.pid"), *database])
    _wait_for_port(storage, "mariadbd", folder / "sh.out")
    run(["slurmdbd"])
    _wait_for_port(port, "slurmdbd", folder / "slurmdbd.log")
    run(["sacctmgr", "--immediate", "--quiet", "add", "cluster", "murmuration"])


def _write_private(file: Path, text: str) -> None:
    write_whole(file, text)
    file.chmod(0o600)


def _wait_for_port(port: int, daemon: str, log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        if time.monotonic() > until:
            raise MurmurationError(f"{daemon} does not listen at port {port} within {PATIENCE:g} s; its log is {log}")
        time.sleep(0.05)


def declare_accounts(accounts: Accounts, environment: Mapping[str, str]) -> None:
    """Add accounts, users and QoS to a running cluster.

    Args:
        accounts: what it shall account for.
        environment: of Slurm's commands, which names the cluster.

    Raises:
        MurmurationError: Slurm refuses one; names the command and its reason.
    """
    for command in accounts.commands():
        done = subprocess.run(command, env=dict(environment), capture_output=True, text=True)
        if done.returncode:
            raise MurmurationError(f"{' '.join(command)}: {' '.join((done.stdout + done.stderr).split())[:300]}")
