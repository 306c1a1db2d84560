"""A scheduler's way through all that it can reach: attributes, containers, arrays, and what owns their memory."""

import enum
import inspect
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from envs.scheduling import ClusterView
from envs.simulation import SimulationView, State, ThroughputTable
from envs.types import Configuration

ENGINE_SIDE = "_engine_side"  # see `envs.simulation.seen.view.ViewSource`
OPAQUE = (str, bytes, int, float, complex, bool, type(None), ModuleType, type, np.dtype, np.generic, enum.Enum)
NOT_FOLLOWED = (
    "__class__",
    "__globals__",
    "__builtins__",
    "__weakref__",
    "__array_interface__",
    "__array_struct__",
    "ctypes",
    "cffi",
)


def answers(view: ClusterView) -> list[Any]:
    """What the methods of a view return."""
    jobs = np.arange(len(view.num_gpus))
    configuration = Configuration(view.cluster.gpu_types[0], 1)
    found: list[Any] = [view.attained_service(jobs), view.remaining_work(jobs), view.remaining_time(jobs)]
    found += [view.job(job) for job in jobs.tolist()] + [view.placement(job) for job in view.running.tolist()]
    found += [view.throughputs(job) for job in jobs.tolist()]
    found += [view.throughput(job, configuration) for job in jobs.tolist()]
    allocations = [view.allocation(), view.allocation(keep_running=True)]
    return [*found, *allocations, *(allocation.jobs() for allocation in allocations)]


def reachable(roots: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield every object that is reachable, with its path, except through the engine's side of a view."""
    waiting = [(f"root {place}", root) for place, root in enumerate(roots)]
    seen: dict[int, Any] = {}  # holds the objects, so that no number is used again
    while waiting:
        path, found = waiting.pop()
        if id(found) in seen:
            continue
        seen[id(found)] = found
        yield path, found
        waiting += [(f"{path}{name}", part) for name, part in _parts(found)]


def _parts(found: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(found, OPAQUE):
        return
    if isinstance(found, np.ndarray):
        yield ".base", found.base
        return
    if isinstance(found, memoryview):
        yield ".obj", found.obj
        return
    if isinstance(found, (MethodType, BuiltinFunctionType)):
        yield ".__self__", found.__self__
        return
    if isinstance(found, FunctionType):
        for cell in found.__closure__ or ():
            yield ".__closure__", cell.cell_contents
        return
    if isinstance(found, Mapping):
        for key in found:
            yield f"[{key}]", found[key]
    elif isinstance(found, (list, tuple, set, frozenset)):
        for place, item in enumerate(found):
            yield f"[{place}]", item
    for name in {*dir(found), *getattr(found, "__dict__", {})} - {ENGINE_SIDE, *NOT_FOLLOWED}:
        if name.startswith("__") or inspect.isroutine(inspect.getattr_static(type(found), name, None)):
            continue
        try:
            yield f".{name}", getattr(found, name)
        except Exception:
            continue


def arrays_of(state: State, table: ThroughputTable) -> dict[str, np.ndarray[Any, Any]]:
    """The engine's own arrays by name."""
    found = {f"state.{name}": getattr(state, name) for name in state.__dataclass_fields__}
    tables = {f"table.{name}": getattr(table, name) for name in ("throughputs", "levels", "traffic")}
    return found | tables


def from_view(view: SimulationView) -> list[Any]:
    """Everything that a scheduler can begin with."""
    return [view, *answers(view)]
