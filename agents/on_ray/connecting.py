"""Ray, started on this machine or joined, with each refusal in one line. Importing this loads neither Ray nor torch."""

import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from envs.types import MurmurationError

LOCAL = "local"  # the address that starts Ray on all cores of this machine, for this process
CONNECT_SECONDS = 30.0
DIED = (
    "error: Ray's own process on this machine (raylet) has died, and what this run had on Ray is lost; run again, a "
    "training with  resume=<its folder>"
)


def connect(address: str, setting: str, **options: Any) -> None:
    """Start Ray on this machine, or join a cluster; this process ends in one line if Ray's process here dies.

    A Ray that is started here accepts connections from this machine only and sends no usage statistics. SIGTERM keeps
    its handler.

    Args:
        address: `local`, `auto`, or host and port of a cluster.
        setting: what chose the address, for the error.
        options: further ones of `ray.init` where Ray is started here.

    Raises:
        ImportError: Ray is not installed.
        MurmurationError: Ray cannot be started here, or no cluster answers.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it is 1 in Ray
    import ray

    own = {"include_dashboard": False, **options} if address == LOCAL else {}  # a cluster has its own settings
    try:
        try_to_connect(address)
        with keeping_termination(), loopback_only(address == LOCAL):
            context = ray.init(address=address, log_to_driver=False, logging_level="ERROR", **own)
    except Exception as error:  # some of Ray's, such as that of a start that takes too long, are bare
        reason = " ".join(str(error).split())[:200]
        if address == LOCAL:
            found, remedy = "Ray could not be started on this machine", "run again when it is less busy"
        else:
            found, remedy = "no Ray cluster answers there", "start one with  ray start --head  and give its address"
            remedy += f", such as auto or 10.0.0.1:6379; {LOCAL} starts one on this machine"
        raise MurmurationError(f"{setting}: {found} ({reason}); {remedy}") from error
    if places := getattr(context, "address_info", None):  # a client of ray:// has no raylet here
        watch_raylet(places)


def try_to_connect(address: str) -> None:
    """Connect to the host and port of an address, if it has both: Ray itself would try again for many minutes.

    Raises:
        OSError: nothing listens there.
        OverflowError: there is no such port.
    """
    if found := re.fullmatch(r"(?:ray://)?\[?([^\[\]/]+)\]?:(\d+)", address):
        socket.create_connection((found[1], int(found[2])), CONNECT_SECONDS).close()


@contextmanager
def loopback_only(wanted: bool) -> Iterator[None]:
    """Bind the servers of a Ray that is started in this block to the loopback address.

    Ray replaces `_node_ip_address="127.0.0.1"` by the machine's address, except where it supports no clusters, as on
    macOS. This constant says so.
    """
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = before and not wanted
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def keeping_termination() -> Iterator[None]:
    """Keep a handler of SIGTERM that this process has set: Ray's own ends the process without a word."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(before) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def watch_raylet(places: Any) -> None:
    """End this process in one line when the raylet dies: Ray would end it without one, whatever the code catches.

    Args:
        places: the `address_info` of a connection: the raylet's socket, to which a connection ends when it dies.
    """
    held = socket.socket(socket.AF_UNIX)
    held.connect(places["raylet_socket_name"])
    threading.Thread(target=end_with_raylet, args=(held, places["node_id"]), daemon=True).start()


def end_with_raylet(held: socket.socket, node: str) -> None:
    """Wait until a connection ends, and end this process unless it has left this Ray before."""
    import ray

    with held, suppress(OSError):
        held.recv(1)
    if ray.is_initialized() and ray.get_runtime_context().get_node_id() == node:
        sys.stderr.write(f"{DIED}\n")
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(1)
