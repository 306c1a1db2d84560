"""Stays: intervals in which a job held one placement, with the reason why each began and ended."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from envs.performance import find_throughput, model_profile
from envs.simulation import EventKind, RunResult, Setup
from envs.simulation.world.link_limit import LinkLimit
from envs.types import Configuration, ExecutionPlan, FloatArray, JobId, MurmurationError, Placement
from murmuration.reports.table import duration
from murmuration.reports.webpage.blocking import Blocking, gpus_in_words

STAY = np.dtype(
    [
        ("job", np.int64),
        ("start", np.float64),  # seconds
        ("end", np.float64),
        ("event", np.int64),  # row of the START or RESIZE event
        ("before", np.int64),  # row of the job's event before it; -1 if there is none
        ("after", np.int64),  # row of the job's event that ends the stay; -1 at the end of the run
        ("gpus", np.int64),
        ("nodes", np.int64),
        ("cpus", np.float64),  # cores at the event; 0 where the scenario does not divide them
        ("memory", np.float64),  # GB, likewise
    ]
)


def find_stays(result: RunResult) -> npt.NDArray[np.void]:
    """Return the stays of a run (dtype `STAY`), by start. Stays of zero length are left out."""
    events, shares = result.log.events, result.log.shares
    by_job = np.lexsort((np.arange(len(events)), events["job"]))
    before, after = np.full(len(events), -1), np.full(len(events), -1)
    same = events["job"][by_job[1:]] == events["job"][by_job[:-1]]
    after[by_job[:-1][same]], before[by_job[1:][same]] = by_job[1:][same], by_job[:-1][same]
    holds = np.flatnonzero(np.isin(events["kind"], (EventKind.START, EventKind.RESIZE)))
    found = np.zeros(len(holds), STAY)
    found["event"], found["before"], found["after"] = holds, before[holds], after[holds]
    found["job"], found["start"] = events["job"][holds], events["time"][holds]
    found["end"] = np.where(after[holds] < 0, result.end_time, events["time"][after[holds]])
    found["nodes"] = events["num_shares"][holds]
    first = events["first_share"][holds]
    for column in ("gpus", "cpus", "memory"):
        total = np.concatenate([[0], np.cumsum(shares[column])])
        found[column] = total[first + found["nodes"]] - total[first]
    found = found[found["end"] > found["start"]]
    return found[np.argsort(found["start"], kind="stable")]


def why_begun(result: RunResult, stay: npt.NDArray[np.void], blocking: Blocking | None = None) -> str:
    """Say in a few words why a job got this placement, and with `blocking` who got the GPUs that it lost."""
    events = result.log.events
    row = events[stay["event"]]
    if stay["before"] < 0:
        return "started"
    last = events[stay["before"]]
    passed = duration(float(row["time"] - last["time"]))
    match EventKind(last["kind"]):
        case EventKind.STOP:
            return f"started again {passed} after a preemption"
        case EventKind.INTERRUPT:
            return f"started again {passed} after its node failed"
        case EventKind.START | EventKind.RESIZE:
            before, event = int(stay["before"]), int(stay["event"])
            said = describe_change(result.log.placement(before), result.log.placement(event))
            return said + (name_takers(blocking.takers(before, event)) if blocking else "")
    return f"started after {passed} in the queue"


def describe_change(old: Placement, new: Placement) -> str:
    """Say how a running job's placement changed."""
    parts = []
    if old.num_gpus != new.num_gpus:
        word = "grown" if new.num_gpus > old.num_gpus else "shrunk"
        parts.append(f"{word} from {gpus_in_words(old.num_gpus)}")
    if set(old.gpus) != set(new.gpus):
        parts.append(f"moved from {name_nodes_of(old)}")
    if old.batch_size != new.batch_size:
        parts.append("new batch size")
    if old.plan != new.plan:
        parts.append("new execution plan")
    return ", ".join(parts) or "new cores, memory or GPUs per node"


def name_nodes_of(placement: Placement, most: int = 4) -> str:
    """Name the nodes of a placement, the first few of many."""
    nodes = sorted(placement.gpus)
    names = ", ".join(map(str, nodes[:most]))
    return f"node{'s' * (len(nodes) > 1)} {names}{f' and {len(nodes) - most} more' if len(nodes) > most else ''}"


def name_takers(jobs: Sequence[JobId], most: int = 4) -> str:
    """Say which jobs got the GPUs that another one lost; nothing if nobody did."""
    if not jobs:
        return ""
    names = ", ".join(map(str, jobs[:most]))
    more = f" and {len(jobs) - most} more" if len(jobs) > most else ""
    return f" (GPUs to job{'s' * (len(jobs) > 1)} {names}{more})"


def why_ended(result: RunResult, stay: npt.NDArray[np.void], blocking: Blocking | None = None) -> str:
    """Say in a few words what ended a stay, and with `blocking` who got the GPUs of a job that was preempted."""
    if stay["after"] < 0:
        return "held until the end of the run"
    ends = {
        EventKind.FINISH: "job finished",
        EventKind.LIMIT: "job reached its time limit",
        EventKind.STOP: "preempted",
        EventKind.INTERRUPT: "its node failed",
        EventKind.RESIZE: "reconfigured",
    }
    end = EventKind(result.log.events["kind"][stay["after"]])
    takers = blocking.takers(int(stay["event"]), int(stay["after"])) if blocking and end == EventKind.STOP else []
    return ends.get(end, "ended") + name_takers(takers)


class StayThroughputs:
    """Throughput and traffic of jobs on their placements, with ample cores and memory, and alone on their links.

    Args:
        setup: the setup of the runs.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup, self._limit = setup, LinkLimit(setup)
        self._cached = cache(self._compute)

    def of(self, result: RunResult, stay: npt.NDArray[np.void]) -> tuple[float, float]:
        """Return samples/s, and the GB/s that the job sends across the link of each of its nodes.

        Both are NaN for placements on several GPU types and for models that the performance model does not know.
        """
        row = result.log.events[stay["event"]]
        shares = result.log.shares[row["first_share"] : row["first_share"] + row["num_shares"]]
        nodes = [result.cluster.nodes[node] for node in shares["node"]]
        if len({node.gpu_type for node in nodes}) != 1:
            return np.nan, np.nan
        job = result.workload.jobs[stay["job"]]
        plan = result.log.plans[row["plan"]] if row["plan"] >= 0 else None
        return self._cached(
            result.workload.models[job["model"]],
            nodes[0].gpu_type,
            int(stay["gpus"]),
            len(nodes),
            min(node.inter_node_bandwidth for node in nodes),
            int(row["batch_size"]) or None,
            plan,
        )

    def _compute(
        self,
        model: str,
        gpu_type: str,
        gpus: int,
        nodes: int,
        link: float,
        batch_size: int | None,
        plan: ExecutionPlan | None,
    ) -> tuple[float, float]:
        try:
            configuration = Configuration(gpu_type, gpus, nodes, batch_size=batch_size, plan=plan)
            throughput = find_throughput(self._setup.performance, model, configuration)
            if not self._limit.active or (plan is not None and not self._limit.covers_plans(model)):
                return throughput, np.nan if nodes > 1 else 0.0
            throughput = min(throughput, self._limit.throughput(model, gpus, nodes, link, batch_size))
            profile = model_profile(model)
        except MurmurationError:
            return np.nan, np.nan
        per_sample = 2.0 * profile.gradient_gb / (batch_size or profile.usual_batch(gpus))
        return throughput, throughput * per_sample * (nodes - 1) / nodes

    def traffic(self, result: RunResult, stays: npt.NDArray[np.void]) -> FloatArray:
        """Return float64[num_stays]: GB/s over all links of a stay's nodes together; 0 where it is not known."""
        known = [self.of(result, stay)[1] * int(stay["nodes"]) for stay in stays]
        return np.nan_to_num(np.array(known, dtype=np.float64))
