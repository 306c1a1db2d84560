"""Slurm through its REST daemon, slurmrestd."""

import http.client
import ipaddress
import json
import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

from deployment.adapter import ActionRefusedError, NodeStatus, TaskStatus
from deployment.slurm.adapter import GONE, SlurmAdapter
from deployment.slurm.parsing import read_nodes, read_tasks
from envs.types import MurmurationError, Seconds, as_line

VERSIONS = re.compile(r"/slurm/v(\d{1,9})\.(\d{1,9})\.(\d{1,9})/jobs")
MOST_BYTES = 256 * 2**20  # of an answer


class SlurmRestAdapter(SlurmAdapter):
    """Looks at nodes and jobs and stops tasks through slurmrestd, without a process for each; starts them by sbatch.

    slurmrestd of Slurm 22.05 refuses a job that names its nodes (`Disabled key: "required_nodes"`), and a bridge names
    them for each job.

    Args:
        address: `unix:<file>`, `https://<host>:<port>` or `http://<host>:<port>`. The certificate of https is verified;
            `SSL_CERT_FILE` in the environment of this process names the certificates of an authority of your own.
        environment: of sbatch; None for that of this process. `SLURM_JWT` in it is the token that slurmrestd asks for
            where it does not know users by their socket, and `SLURM_USER_NAME` the user whose token it is.
        patience: seconds after which a request counts as refused.
        options: further options of sbatch.

    Raises:
        MurmurationError: the address has another form, or there is a token, which would go over plain http to another
            machine.
        ActionRefusedError: nobody answers there, or with no version of the interface that is known.
    """

    def __init__(
        self,
        address: str,
        environment: Mapping[str, str] | None = None,
        patience: Seconds = 20.0,
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(environment, patience, options)
        self.address, self._parts = address, _split(address)
        if self._parts.scheme == "http" and "SLURM_JWT" in self._environment and not _is_here(self._parts.hostname):
            raise MurmurationError(
                f"rest={as_line(address)}: the token SLURM_JWT is not sent over plain http to another machine; use "
                "https://<host>:<port>, or unset SLURM_JWT"
            )
        self._verified = ssl.create_default_context() if self._parts.scheme == "https" else None
        found = VERSIONS.findall(self._request("GET", "/openapi/v3").replace("\\/", "/"))
        if not found:
            raise ActionRefusedError(f"{address}: offers no /slurm/v0.0.x/jobs; is it slurmrestd?")
        self._path = "/slurm/v{}.{}.{}".format(*max(tuple(map(int, each)) for each in found))

    def nodes(self) -> Sequence[NodeStatus]:
        """Return the nodes with GPUs, by name."""
        return self._read(lambda: read_nodes(self._request("GET", f"{self._path}/nodes"), self.address))

    def tasks(self) -> Sequence[TaskStatus]:
        """Return the tasks that a bridge has started and that wait, run or are about to end."""
        return self._read(lambda: read_tasks(self.queue(), self.user, self.address))

    def queue(self) -> str:
        """Return the jobs of everybody, in the form of `squeue --json`.

        Raises:
            ActionRefusedError: slurmrestd does not answer.
        """
        return self._request("GET", f"{self._path}/jobs")

    def stop(self, task: TaskStatus, *, kill: bool = False) -> None:
        """Send SIGTERM to a task's command, or end it; one that waits in Slurm's queue is cancelled either way."""
        how = "" if kill or task.state == "pending" else "?signal=TERM"
        try:
            self._request("DELETE", f"{self._path}/job/{task.name}{how}")
        except ActionRefusedError as error:
            if not any(each in str(error) for each in GONE):
                raise

    def _connection(self) -> http.client.HTTPConnection:
        name, port = str(self._parts.hostname), self._parts.port
        if self._verified is not None:
            return http.client.HTTPSConnection(name, port, timeout=self._patience, context=self._verified)
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(name, port, timeout=self._patience)
        return _UnixConnection(self._parts.path, self._patience)

    def _request(self, method: str, path: str) -> str:
        connection = self._connection()
        names = {"SLURM_USER_NAME": "X-SLURM-USER-NAME", "SLURM_JWT": "X-SLURM-USER-TOKEN"}
        headers = {names[name]: self._environment[name] for name in names if name in self._environment}
        try:
            connection.request(method, path, headers={"Accept": "application/json", **headers})
            with connection.getresponse() as answer:
                content = answer.read(MOST_BYTES).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            raise ActionRefusedError(f"{self.address}: no answer ({as_line(str(error))})") from None
        finally:
            connection.close()
        if answer.status != http.HTTPStatus.OK:
            raise ActionRefusedError(f"{self.address}: {answer.status} {as_line(_reason(content))}")
        return content


def _split(address: str) -> SplitResult:
    """Return the parts of an address.

    Raises:
        MurmurationError: it has another form.
    """
    with suppress(ValueError):  # a port that is no number, a bracket that is not closed
        parts = urlsplit(address)
        if parts.scheme == "unix" and parts.path:
            return parts
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and "@" not in parts.netloc:
            return parts
    raise MurmurationError(
        f"rest={as_line(address)}: must be unix:<file>, https://<host>:<port> or http://<host>:<port>"
    )


def _is_here(name: str | None) -> bool:
    """Return whether an address is that of this machine."""
    try:
        return ipaddress.ip_address(name or "").is_loopback
    except ValueError:
        return name == "localhost"


def find_adapter(rest: str, environment: Mapping[str, str] | None = None) -> SlurmAdapter:
    """Return the adapter to slurmrestd at an address; that of the command line tools where it is empty.

    Args:
        rest: as for `SlurmRestAdapter`.
        environment: of the commands; None for that of this process.

    Raises:
        MurmurationError: as for `SlurmRestAdapter`.
    """
    return SlurmRestAdapter(rest, environment) if rest else SlurmAdapter(environment)


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a socket file."""

    def __init__(self, path: str, patience: Seconds) -> None:
        super().__init__("localhost", timeout=patience)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _reason(content: str) -> str:
    """Return the first error that an answer names, or its beginning."""
    try:
        first = json.loads(content)["errors"][0]
        return str(first.get("description") or first["error"])[:300]
    except (ValueError, LookupError, TypeError, AttributeError):
        return " ".join(content.split())[:300]
