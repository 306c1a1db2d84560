"""Constraints of the jobs of a trace, from the columns that say where a job ran or may run."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from envs.performance import allows_type
from envs.types import ClusterSpec, Constraints, IntArray, constrain, plain_type, pools_of

if TYPE_CHECKING:
    import pandas as pd

ConstraintsSetting = Literal["trace", "none"]
LimitsSetting = Literal["trace", "drawn", "none"]
NUMBERS = {"max_nodes": int, "num_nodes": int, "gpus_per_node": int, "gpu_memory": float, "exclusive": bool}
COLUMNS = ("ran_on", "gpu_type", "pool", "features", "mig_profile", *NUMBERS)  # "ran_on" takes the place of "gpu_type"
LIFT = "workload.constraints=none lifts this"


class TraceConstraints:
    """The classes of the jobs of a trace, and notes on what they are and what could not be kept.

    A job may run only on the GPU type and in one of the pools that its row names, if the cluster has them. What allows
    every node of the cluster is left out.

    Args:
        frame: a reader's frame.
        cluster: the nodes.

    Attributes:
        classes: the distinct constraints.
        of_job: int64[num_jobs], places in `classes`.
    """

    def __init__(self, frame: "pd.DataFrame", cluster: ClusterSpec) -> None:
        self._cluster = cluster
        self._types = {plain_type(name) for name in cluster.gpu_types}
        self._spelling = {name.lower(): name for name in self._types}
        self._pools = {pool for name in cluster.gpu_types for pool in pools_of(name)}
        self._absent: dict[str, int] = {}
        columns = [name for name in COLUMNS if name in frame and not (name == "gpu_type" and "ran_on" in frame)]
        found: dict[Constraints, int] = {}
        self.of_job: IntArray = np.zeros(len(frame), np.int64)
        if not columns:
            self.classes: tuple[Constraints, ...] = (Constraints(),)
            return
        grouped = frame[columns].groupby(columns, sort=False, dropna=False)
        for rows in grouped.indices.values():
            asked = self._read(frame[columns].iloc[rows[0]].to_dict(), len(rows))
            self.of_job[rows] = found.setdefault(asked, len(found))
        self.classes = tuple(found)

    def _read(self, row: Mapping[Any, Any], count: int) -> Constraints:
        """Return the constraints of `count` equal rows."""
        gpu_type = str(row.get("ran_on", row.get("gpu_type", "")))
        gpu_type = self._spelling.get(gpu_type.lower(), gpu_type)  # Slurm writes a100, others A100
        pools = [pool for pool in re.split(r"[,+; ]+", str(row.get("pool", ""))) if pool]
        for what, names, known in (
            ("GPU type", [gpu_type] if gpu_type else [], self._types),
            ("pool", pools, self._pools),
        ):
            if names and not known.intersection(names):
                said = f"{what} {', '.join(names)}"
                self._absent[said] = self._absent.get(said, 0) + count
        asked = Constraints(
            gpu_types=(gpu_type,) if gpu_type in self._types else (),
            pools=tuple(self._pools.intersection(pools)),
            features=tuple(name for name in re.split(r"[,+;& ]+", str(row.get("features", ""))) if name),
            mig_profile=str(row.get("mig_profile", "")),
            **{name: form(row[name]) for name, form in NUMBERS.items() if name in row},
        )
        everywhere = all(allows_type(asked, name) for name in self._cluster.gpu_types)
        return asked if asked.max_nodes or asked.shapes or not everywhere else Constraints()

    def names(self, models: tuple[str, ...], codes: IntArray) -> tuple[IntArray, tuple[str, ...]]:
        """Return int64[num_jobs] and names of models with constraints, from those without.

        Args:
            models: names of models.
            codes: int64[num_jobs], places in `models`.
        """
        if not any(self.classes):
            return codes, models
        pairs, which = np.unique(np.stack((codes, self.of_job)), axis=1, return_inverse=True)
        named = [constrain(models[code], self.classes[place]) for code, place in pairs.T.tolist()]
        every = tuple(dict.fromkeys(named))
        return np.array([every.index(name) for name in named], np.int64)[which.reshape(-1)], every

    def notes(self) -> tuple[str, ...]:
        """Say which constraints there are, and which GPU types and pools the cluster lacks."""
        counts = np.bincount(self.of_job, minlength=len(self.classes)).tolist()
        said = [f"{asked}: {count:,} jobs" for asked, count in zip(self.classes, counts, strict=True) if asked]
        shown = ", ".join(said[:6]) + (f" and {len(said) - 6:,} other classes" if len(said) > 6 else "")
        lines = [f"jobs may run only where the trace says ({shown}); {LIFT}"] if said else []
        lacking = [f"{what} ({count:,} jobs)" for what, count in self._absent.items()]
        if lacking:
            more = f" and {len(lacking) - 6:,} others" if len(lacking) > 6 else ""
            lines.append(f"cluster {self._cluster.name} has no {', '.join(lacking[:6])}{more}: that constrains no job")
        return tuple(lines)
