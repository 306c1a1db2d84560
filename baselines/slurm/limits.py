"""Limits of QoS and associations on GPUs and jobs at once (man sacctmgr: GrpTRES, MaxTRESPerUser, MaxJobs, ...)."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envs.types import JobSpec, MurmurationError

_GPUS = re.compile(r"(?:^|,)gres/gpu=(-?\d{1,9})(?=,|$)", re.ASCII)
_OTHER = ("GrpTRESMins", "GrpTRESRunMins", "GrpWall", "MaxTRES", "MaxTRESPerNode", "MaxTRESMins", "MaxWall", "MinTRES")


@dataclass(frozen=True, slots=True)
class Ceiling:
    """At most so many GPUs and jobs at once; infinite for no limit."""

    gpus: float = math.inf
    jobs: float = math.inf

    def __bool__(self) -> bool:
        return math.isfinite(self.gpus) or math.isfinite(self.jobs)


NO_CEILING = Ceiling()


def read_ceiling(place: str, row: Mapping[str, Any], gpus: Sequence[str], jobs: Sequence[str]) -> Ceiling:
    """Read a limit from the columns of sacctmgr.

    Args:
        place: file and line, for messages.
        row: cells by column.
        gpus: names of the column that has `gres/gpu=8` among others; the first one that the row has counts.
        jobs: names of the column that has a number of jobs.

    Raises:
        MurmurationError: a number of jobs is none.
    """
    found = _GPUS.search(_cell(row, gpus))
    number = _cell(row, jobs)
    if number not in ("", "-1") and not number.isdecimal():
        raise MurmurationError(f"{place}: {jobs[0]} is {number[:40]!r}; it must be a whole number, or nothing")
    most = float(found[1]) if found else math.inf
    return Ceiling(most if most >= 0 else math.inf, float(number) if number.isdecimal() else math.inf)


def _cell(row: Mapping[str, Any], names: Sequence[str]) -> str:
    value = next((row[name] for name in names if name in row), "")
    return "" if value is None else str(value).strip()


def not_modelled(row: Mapping[str, Any]) -> list[str]:
    """Return the names of limits of a row that are not modelled, such as those on one job, or on cores."""
    found = [name for name in _OTHER if _cell(row, [name])]
    for name in ("GrpTRES", "MaxTRESPU", "MaxTRESPA"):
        if left := [each for each in _cell(row, [name]).split(",") if each and not _GPUS.search(each)]:
            found.append(f"{name}={left[0].partition('=')[0]}")
    return found


class LimitTable:
    """The limits that hold for each job, by number; several jobs share one, such as those of a user in a QoS.

    A job that alone asks for more GPUs than a limit allows runs when no other job counts there.

    Args:
        qos: by name, what jobs of a QoS may hold: all of them, those of one user, those of one account.
        accounts: what an account and all below it may hold, by account.
        users: what a user may hold in an account, by account and user.
        parents: the account above each account.

    Attributes:
        ceilings: by number.
    """

    def __init__(
        self,
        qos: Mapping[str, tuple[Ceiling, Ceiling, Ceiling]],
        accounts: Mapping[str, Ceiling],
        users: Mapping[tuple[str, str], Ceiling],
        parents: Mapping[str, str],
    ) -> None:
        self._qos, self._accounts, self._users, self._parents = qos, accounts, users, parents
        self._numbers: dict[tuple[str, ...], int] = {}
        self.ceilings: list[Ceiling] = []

    def of(self, job: JobSpec) -> tuple[int, ...]:
        """Return the numbers of the limits that hold for a job."""
        name, account, user = job.qos.lower(), job.tenant, job.user
        every, one_user, one_account = self._qos.get(name, (NO_CEILING,) * 3)
        keys: list[tuple[tuple[str, ...], Ceiling]] = [
            (("qos", name), every),
            (("user of qos", name, user), one_user),
            (("account of qos", name, account), one_account),
            (("user", account, user), self._users.get((account, user), NO_CEILING)),
        ]
        seen: set[str] = set()
        while account and account not in seen:
            seen.add(account)
            keys.append((("account", account), self._accounts.get(account, NO_CEILING)))
            account = self._parents.get(account, "")
        return tuple(self._number(key, ceiling) for key, ceiling in keys if ceiling)

    def _number(self, key: tuple[str, ...], ceiling: Ceiling) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.ceilings)
            self.ceilings.append(ceiling)
        return self._numbers[key]

    def allow(self, limits: Sequence[int], gpus: int, held: Mapping[int, tuple[int, int]]) -> bool:
        """Return whether a job may start.

        Args:
            limits: the numbers of its limits.
            gpus: that it asks for.
            held: GPUs and jobs that count at present, by number; none if left out.
        """
        for number in limits:
            used, running = held.get(number, (0, 0))
            ceiling = self.ceilings[number]
            if used + gpus > max(ceiling.gpus, gpus) or running + 1 > max(ceiling.jobs, 1.0):
                return False
        return True
