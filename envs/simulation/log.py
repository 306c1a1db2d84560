"""The event log of a run: its events and placements in order of occurrence."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from envs.types import ExecutionPlan, Placement


class EventKind(IntEnum):
    """Kinds of event, in their order within one instant: GPUs become free, jobs arrive, decisions take effect."""

    FINISH = 0  # the job processed its last sample
    DOWN = 1  # a node failed
    INTERRUPT = 2  # a node failed under the job; it waits again, at its last checkpoint
    UP = 3  # a node came back
    ARRIVE = 4  # the job entered the queue: when it was submitted, or later if it waited for a time or other jobs
    STOP = 5  # a decision took the job off its GPUs; it waits again
    START = 6  # a decision gave a waiting job GPUs
    RESIZE = 7  # a decision changed a running job's GPUs, plan, batch size, cores or memory
    LIMIT = 8  # the job reached its time limit and left; within an instant, in the place of FINISH
    NEVER = 9  # a dependency can no longer be met: the job left without having run; in the place of ARRIVE


EVENT = np.dtype(
    [
        ("time", np.float64),  # seconds
        ("kind", np.int64),  # EventKind
        ("job", np.int64),  # -1 for DOWN and UP
        ("first_share", np.int64),  # rows [first_share, first_share + num_shares) of `shares`: the placement after it
        ("num_shares", np.int64),
        ("plan", np.int64),  # index into the log's plans; -1 if the placement named none
        ("batch_size", np.int64),  # 0 if the placement named none
        ("beside", np.int64),  # the job whose GPUs it shares from now on; -1 for none
    ]
)
SHARE = np.dtype([("node", np.int64), ("gpus", np.int64), ("cpus", np.float64), ("memory", np.float64)])


@dataclass(frozen=True)
class EventLog:
    """All events of one run as two tables: `events` (dtype `EVENT`) and the placements `shares` (dtype `SHARE`).

    The row number of an event is its sequence number. START and RESIZE have the placement after them; DOWN and UP have
    one share with the node and its GPUs; other events have none. Cores and memory are 0 where the scenario does not
    divide them. Where a placement names none, they are what the world gave the job at that instant; the world divides
    them anew, without an event, whenever the jobs of a node change. Two jobs share GPUs from the event that names the
    other one until one of them holds other GPUs or none; the other one then keeps them, without an event.
    """

    events: npt.NDArray[np.void]
    shares: npt.NDArray[np.void]
    plans: tuple[ExecutionPlan, ...] = ()

    def __len__(self) -> int:
        return len(self.events)

    def __eq__(self, other: object) -> bool:
        """Return whether events and placements are equal to the bit."""
        if not isinstance(other, EventLog):
            return NotImplemented
        same_tables = np.array_equal(self.events, other.events) and np.array_equal(self.shares, other.shares)
        return same_tables and self.plans == other.plans

    __hash__ = None  # type: ignore[assignment]  # not hashable: holds arrays

    def placement(self, event: int) -> Placement:
        """Placement of the job after a START or RESIZE event."""
        row = self.events[event]
        shares = self.shares[row["first_share"] : row["first_share"] + row["num_shares"]]
        nodes = shares["node"].tolist()

        def by_node(column: str) -> dict[int, Any]:
            return dict(zip(nodes, shares[column].tolist(), strict=True))

        shared = bool(shares["cpus"].any())
        return Placement(
            by_node("gpus"),
            cpus=by_node("cpus") if shared else None,
            memory=by_node("memory") if shared else None,
            plan=self.plans[row["plan"]] if row["plan"] >= 0 else None,
            batch_size=int(row["batch_size"]) or None,
            beside=int(row["beside"]) if row["beside"] >= 0 else None,
        )
