"""Clusters and jobs that a program holds, as options of the command line: objects, dictionaries and frames."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from envs.cluster import node_groups
from envs.evaluation.files import write_frame
from envs.evaluation.plain_values import plain
from envs.types import ClusterSpec, constraints_of
from envs.workloads import Workload
from envs.workloads.readers.jobs import SCHEMA
from murmuration.config.errors import ChoiceError
from murmuration.config.plain import shorten

ANY_CLUSTER = "small_16"  # whose groups are replaced
FOLDER = Path("runs") / "jobs"
_PLAIN = re.compile(r"[A-Za-z0-9_.+-]+", re.ASCII)

GivenCluster = str | ClusterSpec | Mapping[str, Any] | Sequence[Mapping[str, Any]] | pd.DataFrame
GivenJobs = str | Path | Workload | Sequence[Mapping[str, Any]] | pd.DataFrame


def cluster_options(cluster: GivenCluster) -> list[str]:
    """Return the options for a cluster.

    Args:
        cluster: a name of `conf/cluster`; a `ClusterSpec`; a mapping with `name` and `groups`; or the groups of nodes
            alone, as mappings or as a frame with a row for each, see `envs.cluster.NodeGroup`.

    Raises:
        ChoiceError: it is none of these.
    """
    if isinstance(cluster, str):
        return [f"cluster={cluster}"]
    name = "mine"
    groups: Any = cluster
    if isinstance(cluster, ClusterSpec):
        name, groups = cluster.name, node_groups(cluster)
    elif isinstance(cluster, pd.DataFrame):
        groups = [{str(k): v for k, v in row.items() if not _missing(v)} for row in cluster.to_dict("records")]
    elif isinstance(cluster, Mapping):
        name, groups = str(cluster.get("name", name)), cluster.get("groups")
    if not isinstance(groups, Sequence) or isinstance(groups, str) or not all(isinstance(g, Mapping) for g in groups):
        raise ChoiceError(
            f"cluster is {shorten(cluster)}; give a name, a ClusterSpec, or groups of nodes as mappings or a frame"
        )
    content = _text([plain(dict(group)) for group in groups])
    return [f"cluster={ANY_CLUSTER}", f"cluster.name={_text(name)}", f"cluster.groups={content}"]


def workload_options(jobs: GivenJobs) -> list[str]:
    """Return the options for jobs; those that a program holds are written to a file in `runs/jobs`, by their content.

    Args:
        jobs: a name of `conf/workload`; the path of a file in the schema murmuration-jobs-1; a `Workload`, all of whose
            jobs count then; or rows of jobs in the columns of that schema, as mappings or as a frame. `submit_time` may
            be a date, durations may be timedeltas, and an `id` that is missing is the row's index.

    Raises:
        ChoiceError: it is none of these, or a `Workload` whose jobs have plans, constraints or dependencies.
    """
    if isinstance(jobs, Path) or (isinstance(jobs, str) and Path(jobs).suffix):
        return ["workload=jobs", f"workload.path={_text(str(jobs))}"]
    if isinstance(jobs, str):
        return [f"workload={jobs}"]
    if isinstance(jobs, Workload):
        frame = _frame_of(jobs)
    elif isinstance(jobs, pd.DataFrame):
        frame = jobs.copy()
    elif isinstance(jobs, Sequence) and all(isinstance(each, Mapping) for each in jobs):
        frame = pd.DataFrame(list(jobs))
    else:
        raise ChoiceError(f"workload is {shorten(jobs)}; give a name, a file, a Workload, or rows of jobs")
    for name in frame.select_dtypes("timedelta"):
        frame[name] = frame[name].dt.total_seconds()
    if "submit_time" in frame and all(isinstance(each, str) for each in frame["submit_time"]):
        frame["submit_time"] = pd.to_datetime(frame["submit_time"])
    if "id" not in frame:
        frame["id"] = frame.index.astype(str)
    if "submit_time" in frame and pd.api.types.is_datetime64_any_dtype(frame["submit_time"]):
        zero = frame["submit_time"].min().floor("D")
        frame["submit_time"] = (frame["submit_time"] - zero).dt.total_seconds()
        frame["zero_time"] = zero.isoformat()
    frame["schema"] = SCHEMA
    text = frame.to_csv(index=False)
    path = FOLDER.resolve() / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.csv"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_frame(path, frame)
    return workload_options(path)


def _frame_of(workload: Workload) -> pd.DataFrame:
    """Return the jobs of a workload in the columns of the schema."""
    jobs = workload.jobs
    for what, some in (
        ("execution plans", any(workload.plans)),
        ("constraints", any(map(constraints_of, workload.models))),
        ("dependencies", workload.dependencies),
        ("begin times", jobs["begin_time"].any()),
        ("ranges of batch sizes", jobs["max_batch"].any()),
        ("guarantees", jobs["guaranteed"].any()),
    ):
        if some:
            raise ChoiceError(f"workload: its jobs have {what}; give rows in the columns of {SCHEMA}, which may say so")
    names = {"model": workload.models, "tenant": workload.tenants}
    columns: dict[str, Any] = {name: np.array(known, object)[jobs[name]] for name, known in names.items()}
    numbers = ("submit_time", "work", "num_gpus", "min_gpus", "max_gpus", "time_limit", "priority", "nice")
    columns |= {name: jobs[name] for name in numbers}
    columns |= {name: value for name in ("users", "ids", "qos") if (value := getattr(workload, name))}
    return pd.DataFrame(columns).rename(columns={"users": "user", "ids": "id"})


def _missing(value: Any) -> bool:
    return not isinstance(value, Sequence) and bool(pd.isna(value))


def _text(value: Any) -> str:
    """Return a value as an override of Hydra writes it: texts are quoted, names of fields are not."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    return value if isinstance(value, str) and _PLAIN.fullmatch(value) else json.dumps(value)
