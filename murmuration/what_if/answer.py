"""The answer: what was recorded, what the incumbent does, and what each alternative would change."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from envs.evaluation.statistics import Estimate
from envs.types import BoolArray, FloatArray, IntArray, Seconds
from envs.types.units import DAY, HOUR
from murmuration.what_if.hours import Grid, grid_over, in_queue, in_use, time_text
from murmuration.what_if.played import Fates
from murmuration.what_if.replay import Replay
from murmuration.what_if.trust import ReplayTrust, compare_with_record
from murmuration.what_if.waits import MINUTE, by_group, figures_of, groups_of, paired_change, size_classes

UNITS = (("s", 1.0), ("min", MINUTE), ("h", HOUR), ("d", DAY))
MOST_STEPS = 2_000
# Groupings that have an order of their own, by what they are sorted; the others begin with the most jobs.
ORDERED: Mapping[str, Callable[[str], Any]] = {
    "size": lambda text: int(text.split()[0]),
    "hour of submission": str,
}


@dataclass(frozen=True)
class WhatIfAnswer:
    """Everything that is shown.

    Attributes:
        replay: the jobs, the world and the record.
        incumbent: what became of the jobs under the scheduler of today.
        others: what became of them under each alternative, by label.
        refused: why an alternative could not be played, by label.
        stretch: by label, by how much times of the trace are longer than those that were played; 1 if left out.
        describes: lines on the settings of the incumbent.
        unlimited: alternatives that play without limits that hold under the incumbent.
    """

    replay: Replay
    incumbent: Fates
    others: Mapping[str, Fates]
    refused: Mapping[str, str]
    stretch: Mapping[str, float]
    describes: Sequence[str] = ()
    unlimited: Sequence[str] = ()

    @cached_property
    def jobs(self) -> BoolArray:
        """bool[num_jobs]: the jobs that have waited a known time under the incumbent and each alternative."""
        played = [self.incumbent, *self.others.values()]
        known: BoolArray = np.logical_and.reduce([self.replay.measured, *(each.known for each in played)])
        return known

    @cached_property
    def trust(self) -> ReplayTrust | None:
        """How well the incumbent's replay repeats the record; None if the file has no starts."""
        if not self.replay.recorded.known.any():
            return None
        replay = self.replay
        return compare_with_record(replay.recorded, self.incumbent, replay.workload, replay.cluster, replay.measured)

    @cached_property
    def shown(self) -> dict[str, Fates]:
        """All fates by label: the record first, if there is one, then the incumbent."""
        found = {"recorded": self.replay.recorded} if self.trust else {}
        return found | {self.incumbent.label: self.incumbent} | dict(self.others)

    @cached_property
    def changes(self) -> dict[str, Estimate]:
        """Ratios of mean waits to the incumbent's, by label."""
        return {label: paired_change(each, self.incumbent, self.jobs) for label, each in self.others.items()}

    @cached_property
    def figures(self) -> dict[str, dict[str, float]]:
        """Figures of waits by label, on the same jobs; see `waits.figures_of`. GPUs in use are a share of all."""
        found = {label: figures_of(each, self.jobs) for label, each in self.shown.items()}
        for label, each in self.shown.items():
            found[label]["stops"] = float(each.stops)
        return found

    @cached_property
    def unit(self) -> tuple[str, float]:
        """Unit of waits: name, and seconds."""
        typical = max((each.get("p90", 0.0) for each in self.figures.values()), default=0.0)
        return [each for each in UNITS if typical >= each[1]][-1] if typical >= 1 else UNITS[0]

    def groupings(self) -> dict[str, list[str]]:
        """Return the group of each job in several groupings, of those that tell jobs apart."""
        workload = self.replay.workload
        past = workload.recorded
        queue = list(map(str, past.queue)) if past is not None and any(past.queue) else []
        pools = queue or groups_of(workload)
        found = {
            "partition": pools,
            "size": size_classes(workload.jobs["num_gpus"]),
            "account": [workload.tenants[each] for each in workload.jobs["tenant"].tolist()],
            "user": list(workload.users),
            "QoS": list(workload.qos),
            "hour of submission": [f"{hour:02}:00" for hour in self._hours().tolist()],
        }
        return {name: groups for name, groups in found.items() if len(set(groups)) > 1}

    def _hours(self) -> IntArray:
        """int64[num_jobs]: the hour of the day in which each job was submitted."""
        submit = self.replay.workload.jobs["submit_time"]
        hours: IntArray = ((submit - self.midnight) // HOUR % 24).astype(np.int64)
        return hours

    @property
    def midnight(self) -> Seconds:
        """When a day begins, in seconds of the trace."""
        if self.zero is None:
            return 0.0
        return -(self.zero.hour * HOUR + self.zero.minute * MINUTE + self.zero.second)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return mean waits, in `unit`, by group and label, by the name of the grouping."""
        found = {name: by_group(self.shown, groups, self.jobs) for name, groups in self.groupings().items()}
        for name, key in ORDERED.items():
            if name in found:
                order = sorted(range(len(found[name])), key=found[name]["group"].map(key).tolist().__getitem__)
                found[name] = found[name].iloc[order]
        for frame in found.values():
            frame[list(self.shown)] /= self.unit[1]
        return found

    @cached_property
    def grid(self) -> Grid:
        """Steps over the whole span in which jobs were there, of an hour or more."""
        enter = self.replay.recorded.enter
        last = max(float(np.nanmax(each.end)) for each in self._drawn.values())
        first = float(np.nanmin(enter))
        step = HOUR if last - first >= DAY else max((last - first) / 200, 1.0)
        return grid_over(first // step * step, last, step * max(1, -(-(last - first) // (step * MOST_STEPS))))

    @property
    def _drawn(self) -> dict[str, Fates]:
        """The fates whose times are those of the trace."""
        return {label: each for label, each in self.shown.items() if self.stretch.get(label, 1.0) == 1.0}

    def series(self) -> dict[str, dict[str, FloatArray]]:
        """Return GPUs in use, and GPUs that waiting jobs ask for, over `grid`, by label."""
        return {
            label: {"use": in_use(self.grid, each), "queue": in_queue(self.grid, each)}
            for label, each in self._drawn.items()
        }

    @property
    def zero(self) -> datetime | None:
        """Date and time of t = 0; None if the trace has none."""
        past = self.replay.workload.recorded
        return past.zero if past is not None else None

    def when(self, seconds: Seconds) -> str:
        """Return a time of the trace as a date, or as a day and an hour."""
        return time_text(self.zero, seconds)

    def job_table(self) -> pd.DataFrame:
        """Return a row for each job and label, with times in seconds of the trace."""
        workload = self.replay.workload
        common: dict[str, Any] = {
            "job": list(workload.ids) or list(map(str, range(len(workload)))),
            **{name: groups for name, groups in self.groupings().items() if name not in ("size", "hour of submission")},
            "gpus": workload.jobs["num_gpus"],
            "submit_s": workload.jobs["submit_time"].round(3),
        }
        if self.zero is not None:
            stamps = pd.Timestamp(self.zero) + pd.to_timedelta(workload.jobs["submit_time"], unit="s")
            common["submit"] = stamps.strftime("%Y-%m-%dT%H:%M:%S")
        base = pd.DataFrame(common)
        parts = []
        for label, each in self.shown.items():
            own = base.assign(played=label)
            for name, values in (("enter_s", each.enter), ("start_s", each.start), ("end_s", each.end)):
                own[name] = values.round(1)
            own["wait_s"] = each.wait.round(1)
            parts.append(own)
        return pd.concat(parts, ignore_index=True)
