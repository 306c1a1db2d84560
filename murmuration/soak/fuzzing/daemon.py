"""A stand-in for slurmrestd that sends any bytes."""

import socket
import threading
from contextlib import suppress
from pathlib import Path


class Daemon:
    """Answers each request on a socket file with the same bytes, whatever they are.

    Args:
        path: of the socket file.

    Attributes:
        address: as `rest=` takes it.
        first: sent to whoever asks which versions there are.
        then: sent to everybody else.
    """

    def __init__(self, path: Path) -> None:
        self.address, self.first, self.then = f"unix:{path}", b"", b""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()

    def __enter__(self) -> "Daemon":
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            with connection, suppress(OSError):
                request = connection.recv(65_536)
                connection.sendall(self.first if b"openapi" in request else self.then)
