"""Local sockets on which messages travel as lines."""

import os
import socket
import stat
import time
from contextlib import suppress
from pathlib import Path

from deployment.reading import ProtocolError
from envs.types import Seconds

LONGEST_LINE = 64 * 2**20  # bytes
PIECE = 2**16  # bytes that are read at a time
LOOPBACK = ("127.0.0.1", "localhost")


def listen(address: str) -> socket.socket:
    """Return a socket that listens at an address; see `open_connection`. Nobody but this user may use a socket file.

    Raises:
        ProtocolError: the address is not local, or is in use.
    """
    family, place = _parse(address)
    if isinstance(place, str) and Path(place).exists() and stat.S_ISSOCK(os.stat(place).st_mode):
        if _answers(family, place):
            raise ProtocolError(f"{address}: somebody listens there already; choose another file or end it")
        os.unlink(place)
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        if isinstance(place, str):
            before = os.umask(0o177)
            try:
                found.bind(place)
            finally:
                os.umask(before)
        else:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(place)
        found.listen(8)
    except OSError as error:
        found.close()
        raise ProtocolError(f"{address}: cannot listen there ({error.strerror}); choose another address") from None
    return found


def _answers(family: socket.AddressFamily, place: str) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        return trial.connect_ex(place) == 0


def _parse(address: str) -> tuple[socket.AddressFamily, str | tuple[str, int]]:
    if address.startswith("unix:"):
        path = address.removeprefix("unix:")
        if not path or len(path.encode()) > 100:
            raise ProtocolError(
                f"address={address}: the path of a socket file has 1 to 100 bytes; choose a shorter one"
            )
        return socket.AF_UNIX, path
    name, _, port = address.rpartition(":")
    if name not in LOOPBACK or not (port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise ProtocolError(
            f"address={address}: must be unix:<file> or 127.0.0.1:<port>; a program that reaches it steers the "
            "cluster, so it listens on this machine only"
        )
    return socket.AF_INET, ("127.0.0.1", int(port))


class Connection:
    """Lines to and from one other process.

    Args:
        connected: a connected socket; `close` closes it.
        patience: seconds in which a whole line must come or go; None without a limit.
    """

    def __init__(self, connected: socket.socket, patience: Seconds | None = None) -> None:
        self._socket, self._patience = connected, patience
        self._received = bytearray()

    def send(self, line: bytes) -> None:
        """Send a line.

        Raises:
            ProtocolError: the other side is gone, or does not take it in time.
        """
        try:
            self._socket.settimeout(self._patience)
            self._socket.sendall(line)
        except OSError as error:
            raise ProtocolError(f"the connection broke ({error.strerror or error}); start it again") from None

    def receive(self) -> bytes:
        """Return the next line; empty if the other side has closed the connection.

        Raises:
            ProtocolError: it is too long, unfinished, or does not come in time.
        """
        until = None if self._patience is None else time.monotonic() + self._patience
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if searched > LONGEST_LINE:
                break
            piece = self._read(until)
            if not piece and self._received:
                raise ProtocolError(
                    "the last line has no end: the connection was closed within a message; send it again"
                )
            if not piece:
                return b""
            self._received += piece
        if end < 0 or end >= LONGEST_LINE:
            raise ProtocolError(f"a line has more than {LONGEST_LINE} bytes; send smaller messages")
        line = bytes(self._received[: end + 1])
        del self._received[: end + 1]
        return line

    def _read(self, until: Seconds | None) -> bytes:
        """Return the next bytes, which a sender of single bytes does not put off beyond `until`."""
        try:
            self._socket.settimeout(None if until is None else max(until - time.monotonic(), 1e-3))
            return self._socket.recv(PIECE)
        except TimeoutError:
            raise ProtocolError(
                f"no whole line within {self._patience:g} s: the other side is stuck, or has nothing to say for longer "
                "than the patience here; connect again"
            ) from None
        except OSError as error:
            raise ProtocolError(f"the connection broke ({error.strerror or error}); start it again") from None

    def break_off(self) -> None:
        """End a wait of another thread for the other side."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def open_connection(address: str, patience: Seconds | None = None) -> Connection:
    """Connect to `unix:<file>` or `127.0.0.1:<port>`.

    Raises:
        ProtocolError: the address is not local, or nobody listens there.
    """
    family, place = _parse(address)
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.connect(place)
    except OSError as error:
        found.close()
        raise ProtocolError(
            f"{address}: nobody listens there ({error.strerror}); start  scripts/serve.py address={address}"
        ) from None
    return Connection(found, patience)
