"""What happened, in the order in which it happened."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from envs.types import NodeId, Placement


class EventKind(IntEnum):
    """Kinds of event. Within one instant they occur in this order: GPUs are freed, jobs come, then decisions act."""

    FINISH = 0  # the job processed its last sample
    ARRIVE = 1  # the job was submitted
    STOP = 2  # a decision took the job off its GPUs; it waits again
    START = 3  # a decision gave a waiting job GPUs
    RESIZE = 4  # a decision changed a running job's GPUs, in number or in place


EVENT = np.dtype(
    [
        ("time", np.float64),  # seconds
        ("kind", np.int64),  # EventKind
        ("job", np.int64),
        ("first_share", np.int64),  # rows [first_share, first_share + num_shares) of `shares`: the placement after it
        ("num_shares", np.int64),
    ]
)
SHARE = np.dtype([("node", np.int64), ("gpus", np.int64)])


@dataclass(frozen=True)
class EventLog:
    """All events of one run as two tables: `events` (dtype `EVENT`) and the placements `shares` (dtype `SHARE`).

    The row number of an event is its sequence number. FINISH, ARRIVE and STOP have no shares.
    """

    events: npt.NDArray[np.void]
    shares: npt.NDArray[np.void]

    def __len__(self) -> int:
        return len(self.events)

    def __eq__(self, other: object) -> bool:
        """Same events with the same placements, to the bit."""
        if not isinstance(other, EventLog):
            return NotImplemented
        return np.array_equal(self.events, other.events) and np.array_equal(self.shares, other.shares)

    __hash__ = None  # type: ignore[assignment]  # holds arrays

    def placement(self, event: int) -> Placement:
        """Where the job of a START or RESIZE event runs after it."""
        row = self.events[event]
        shares = self.shares[row["first_share"] : row["first_share"] + row["num_shares"]]
        gpus: dict[NodeId, int] = {int(share["node"]): int(share["gpus"]) for share in shares}
        return Placement(gpus)
