"""A Ray cluster on which episodes are played and agents are trained: found, joined, and left again."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from agents.on_ray.connecting import LOCAL, connect
from envs.evaluation.failure import portable
from envs.evaluation.spread import LostCallError, Spread
from murmuration.config.errors import ChoiceError, explain_missing_extra

_Result = TypeVar("_Result")
RETRIES = 5  # of a call whose worker or machine is lost


@contextmanager
def joined_cluster(address: str | None) -> Iterator[None]:
    """Join a cluster for the time of a script; nothing without an address.

    Raises:
        MurmurationError: Ray is not installed or cannot be started, or no cluster answers.
    """
    if not address:
        yield
        return
    join(address, started_here="started" if address == LOCAL else "joined")
    import ray

    try:
        yield
    finally:
        ray.shutdown()


def join(address: str, started_here: str = "joined") -> None:
    """Join a Ray cluster, and print how large it is.

    Raises:
        MurmurationError: Ray is not installed or cannot be started, or no cluster answers.
    """
    try:
        import ray

        connect(address, f"ray.address={address}")
    except ImportError as error:
        raise ChoiceError(explain_missing_extra(error) or str(error)) from error
    nodes = sum(bool(node["Alive"]) for node in ray.nodes())
    cpus = ray.cluster_resources().get("CPU", 0.0)
    print(f"{started_here} Ray: {nodes} node{'s' * (nodes != 1)}, {cpus:g} CPUs", flush=True)


def find_spread() -> Spread | None:
    """Return what plays episodes on the cluster that this process has joined; None if it has joined none."""
    ray = sys.modules.get("ray")
    return spread_over_ray if ray is not None and ray.is_initialized() else None


def spread_over_ray(
    function: Callable[..., _Result], shared: Sequence[Any], calls: Sequence[Sequence[Any]]
) -> Iterator[_Result | LostCallError]:
    """Make the calls on Ray's workers, one CPU each; see `Spread`.

    A call whose worker or node dies is made again elsewhere, up to `RETRIES` times.

    Raises:
        ChoiceError: what is shared holds something that only this process can use, such as a lock or an open file.
    """
    import ray
    from ray.exceptions import RayError

    if not calls:
        return
    remote = ray.remote(num_cpus=1, max_retries=RETRIES)(call_quietly)
    try:
        places = [ray.put(each) for each in shared]
    except TypeError as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise ChoiceError(
            f"ray.address: a scheduler cannot be sent to Ray's workers ({reason}); play without a cluster"
        ) from error
    pending = [remote.remote(list(sys.path), function, tuple(call), *places) for call in calls]
    for number in range(len(pending)):
        try:
            found: _Result | RaisedThere | LostCallError = ray.get(pending[number])
        except RayError as error:
            found = explain_loss(error)
        pending[number] = None  # results of long episodes are large
        if isinstance(found, RaisedThere):
            raise found.error
        yield found


def explain_loss(error: Exception) -> LostCallError:
    """Return in one line why a call has no result: its workers died, or what it took or gave could not be sent."""
    reason = " ".join(str(error).split())[:200]
    return LostCallError(f"no Ray worker could make this call ({type(error).__name__}: {reason})")


class RaisedThere:
    """An error that a call raised on a worker, as a value: Ray would wrap it into an error of its own."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def call_quietly(path: Sequence[str], function: Callable[..., Any], call: Sequence[Any], *shared: Any) -> Any:
    """Make one call on a worker, which first learns where this process imports from."""
    sys.path[:] = [*path, *(each for each in sys.path if each not in path)]
    try:
        return function(*shared, *call)
    except Exception as error:
        return RaisedThere(portable(error))
