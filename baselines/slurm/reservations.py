"""Reservations: spans of time in which nodes are kept free, as for maintenance (`scontrol show reservation`)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from baselines.slurm.settings import Reservation
from baselines.slurm.site_conf import expand_node_names
from envs.types import BoolArray, MurmurationError, Seconds


def make_reservation(name: str, row: Mapping[str, Any]) -> Reservation:
    """Return a reservation of the configuration: `nodes` by number, `start` and `end` in seconds.

    Raises:
        MurmurationError: a key is missing or unknown, or a value is wrong.
    """
    place = f"scheduler.reservations.{name}"
    if set(row) != {"nodes", "start", "end"}:
        raise MurmurationError(f"{place}: has {', '.join(map(str, row)) or 'nothing'}; give nodes, start and end")
    nodes, start, end = row["nodes"], row["start"], row["end"]
    if not all(isinstance(node, int) and node >= 0 for node in nodes) or not nodes:
        raise MurmurationError(f"{place}.nodes is {nodes!r}; give numbers of nodes, from 0 on")
    if not (all(isinstance(each, int | float) for each in (start, end)) and start < end):
        raise MurmurationError(f"{place}: start is {start!r} and end {end!r}; give seconds, the earlier one first")
    return Reservation(name, tuple(nodes), float(start), float(end))


def read_reservations(path: Path, names: Sequence[str], zero: datetime) -> dict[str, dict[str, Any]]:
    """Return what `scontrol --oneliner show reservation` prints as `schedulers.slurm.reservations` takes it.

    Nodes without GPUs are left out, and reservations that have no others.

    Args:
        path: the file.
        names: of the cluster's nodes, in its order.
        zero: the time of the clock that is time 0.

    Raises:
        MurmurationError: the file cannot be read, or a line has no name, nodes, or times.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise MurmurationError(
            f"{path}: cannot be read ({error.strerror or error}); give what scontrol prints"
        ) from error
    number = {name: node for node, name in enumerate(names)}
    found = {}
    for place, line in ((f"{path}:{row}", line) for row, line in enumerate(lines, start=1) if line.strip()):
        values = dict(word.split("=", 1) for word in line.split() if "=" in word)
        try:
            times = [(datetime.fromisoformat(values[key]) - zero).total_seconds() for key in ("StartTime", "EndTime")]
            name, listed = values["ReservationName"], values["Nodes"]
        except (KeyError, ValueError, TypeError) as error:
            raise MurmurationError(
                f"{place}: {error} is missing or no date; a line has ReservationName, StartTime, EndTime and Nodes; "
                f"make the file with  scontrol --oneliner show reservation"
            ) from error
        if nodes := [number[each] for each in expand_node_names(place, listed) if each in number]:
            found[name] = {"nodes": nodes, "start": times[0], "end": times[1]}
    return found


class Calendar:
    """The reservations of a cluster, as a scheduler asks for them.

    Args:
        reservations: in any order.
        num_nodes: of the cluster.

    Raises:
        MurmurationError: one names a node that the cluster does not have.
    """

    def __init__(self, reservations: Sequence[Reservation], num_nodes: int) -> None:
        for each in reservations:
            if max(each.nodes) >= num_nodes:
                raise MurmurationError(
                    f"scheduler.reservations.{each.name}: there is no node {max(each.nodes)}; "
                    f"the cluster has {num_nodes}, from 0 on"
                )
        self.reservations, self._num_nodes = tuple(reservations), num_nodes

    def closed(self, start: Seconds, end: Seconds, after: Seconds = 0.0) -> BoolArray:
        """bool[num_nodes]: nodes with a reservation from `after` on that a job from `start` until `end` would meet."""
        found = np.zeros(self._num_nodes, np.bool_)
        for each in self.reservations:
            if each.start >= after and each.overlaps(start, end):
                found[list(each.nodes)] = True
        return found

    def next_end(self, now: Seconds) -> Seconds:
        """Return when a reservation ends next; infinity if none does."""
        return min((each.end for each in self.reservations if each.end > now), default=np.inf)
