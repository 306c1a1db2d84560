"""The scheduling experiment of Rubick (MLSys'25, section 7): its public traces, on its measured iteration times.

406 jobs on 64 A800, decisions every 60 s, 260 s for every start and change, as in the public artifact. Iteration times
are the artifact's (`envs.performance.rubick.measured`). The paper's tables are not among our sources: our figures are
compared with what the artifact prints and with the abstract's two ratios.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd

from baselines.fifo import Fifo
from baselines.rubick.artifact import RubickArtifact
from baselines.rubick.curves import Planner, meets
from baselines.rubick.scheduler import Rubick
from baselines.synergy.scheduler import Synergy
from envs.cluster import NodeGroup, build_cluster
from envs.evaluation.files import write_frame
from envs.metrics import waits
from envs.performance import rubick_cost
from envs.performance.rubick.measured import MeasuredModel
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import EventKind, Rounds, RunResult, Scenario, Setup, Simulator, run_episode
from envs.types import Allocation, ClusterSpec, Configuration, FloatArray, JobId, MurmurationError, Seconds
from envs.workloads import TraceSource, Workload
from envs.workloads.readers import RubickTrace
from experiments.performance.reproduction import Reproduction

HOUR = 3600.0
SLACK = 1.5  # factor by which the artifact eases the service level
PUBLISHED: Mapping[str, tuple[float, float, float]] = MappingProxyType(
    {"base": (1.011, 16.30, np.nan), "bp": (1.011, 16.30, np.nan), "mt": (1.116, 16.88, 0.647)}
)
"""Figures printed by the artifact, in hours: mean JCT, makespan, mean JCT of guaranteed jobs (equal on base and bp)."""

CLAIMED = "up to 3.2 (JCT), 1.4 (makespan)"  # from the abstract, against Synergy among others
STRICT = "Rubick"  # the row that ratios refer to


@dataclass
class WithUserPlans:
    """Wrapper around a scheduler that gives every job its user's execution plan.

    Rigid schedulers name no plans; without this wrapper the world would give their jobs the best ones.

    Attributes:
        scheduler: the scheduler that places jobs.
    """

    scheduler: Scheduler
    preemptive: bool = field(default=True, init=False)
    elastic: bool = field(default=False, init=False)

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode."""
        self.scheduler.reset(cluster, rng)

    def schedule(self, view: ClusterView) -> Allocation:
        """Return the allocation of the wrapped scheduler, with plans filled in."""
        allocation = self.scheduler.schedule(view)
        for job, place in list(allocation.changes.items()):
            if place is not None and place.plan is None:
                allocation.changes[job] = replace(place, plan=view.job(job).plan)
        return allocation


def schedulers(measured: MeasuredModel) -> dict[str, Callable[[], Scheduler]]:
    """The compared schedulers, by the names of the tables' rows."""
    planner: Planner = measured
    predicted = measured.with_predicted_times()
    return {
        STRICT: lambda: Rubick(planner),
        "Rubick, level eased 1.5-fold": lambda: Rubick(planner, slack=SLACK),
        "Rubick, gate 0.97": lambda: Rubick(planner, gate=0.97),
        "Rubick, deciding by fitted throughputs": lambda: Rubick(predicted, trust="planner"),
        "plans only": lambda: Rubick(planner, resources=False),
        "resources only": lambda: Rubick(planner, plans=False),
        "neither": lambda: Rubick(planner, plans=False, resources=False),
        "the artifact's policy, rebuilt": lambda: RubickArtifact(predicted, trust="planner"),
        "Synergy, users' plans": lambda: WithUserPlans(Synergy("tune", "fifo")),
        "FIFO with skipping, users' plans": lambda: WithUserPlans(Fifo("skip")),
    }


def build_a800_cluster() -> ClusterSpec:
    """Build the cluster of `conf/cluster/a800_64.yaml`: 64 A800 on eight nodes."""
    return build_cluster("a800_64", [NodeGroup("A800", 8, 8, 96, 1600, 200.0, 100.0)])


def trace(data: str, variant: str, cluster: ClusterSpec, measured: MeasuredModel) -> Workload:
    """Read a whole trace; every job may have 1 to 64 GPUs, and runs on those sizes that were measured."""
    path = Path(data).expanduser() / "traces" / "rubick" / f"workload-{variant}.csv"
    source = TraceSource(
        cluster, measured, RubickTrace(variant), path=str(path), elastic=float(cluster.num_gpus), evaluate_on="all"
    )
    (workload,) = source.evaluation()
    return workload


def run_under_artifact_rules(
    scheduler: Scheduler, workload: Workload, cluster: ClusterSpec, measured: MeasuredModel
) -> RunResult:
    """Run a scheduler under the artifact's rules: rounds every 60 s, 260 s for every start and change."""
    scenario = Scenario(reconfiguration=rubick_cost(), rounds=Rounds(on_events=False, interval=60.0))
    return run_episode(scheduler, Simulator(workload, Setup(cluster, measured, scenario)))


def scheduling(data: str, folder: Path, variants: Sequence[str] = ("base", "bp", "mt")) -> Reproduction:
    """Report completion times, guarantees and ratios on the public traces. Writes `runs.csv`, one row per run.

    Args:
        data: folder that holds `profiles/rubick` and `traces/rubick`.
        folder: where to write.
        variants: names of the traces.

    Raises:
        PerformanceError: measurements are missing or broken.
        TraceError: a trace is missing or broken.
        MurmurationError: an unknown variant.
    """
    unknown = [variant for variant in variants if variant not in PUBLISHED]
    if unknown:
        raise MurmurationError(f"trace {unknown[0]!r} does not exist; choose one of {', '.join(PUBLISHED)}")
    measured, cluster = MeasuredModel.read(data), build_a800_cluster()
    rows = []
    workloads = {variant: trace(data, variant, cluster, measured) for variant in variants}
    for variant, workload in workloads.items():
        for name, make in schedulers(measured).items():
            result = run_under_artifact_rules(make(), workload, cluster, measured)
            rows.append({"trace": variant, "scheduler": name, **figures(result, measured)})
    runs = pd.DataFrame(rows)
    folder.mkdir(parents=True, exist_ok=True)
    write_frame(folder / "runs.csv", runs)
    tables = [(f"Trace {variant}, hours", times_table(runs, variant)) for variant in variants]
    if "mt" in variants:
        tables.append(("Guaranteed jobs of trace mt", guarantees_table(runs)))
    tables.append(("Ratios to Rubick", ratios_table(runs)))
    return Reproduction(tables, explain_tables())


def figures(result: RunResult, measured: MeasuredModel) -> dict[str, float]:
    """Figures of a run: times in hours, shares between 0 and 1."""
    records = result.records
    jct = (records["finish_time"] - records["submit_time"]) / HOUR
    guaranteed = result.workload.jobs["guaranteed"][records["job"]]
    found = {
        "jct": float(np.nanmean(jct)),
        "p99": float(np.nanpercentile(jct, 99)),
        "makespan": float(np.nanmax(records["finish_time"])) / HOUR,
        "busy_gpus": float(records["attained_service"].sum() / np.nanmax(records["finish_time"])),
        "restarts": int(records["num_restarts"].sum()),
        "unfinished": result.num_unfinished,
        "round_ms": 1000.0 * result.decision_seconds / max(result.num_rounds, 1),
    }
    if guaranteed.any():
        kept = [time_at_level(result, measured, int(job)) for job in records["job"][guaranteed]]
        strict, eased, whole = np.array(kept).sum(axis=0)
        wait = waits(result)[guaranteed] / HOUR
        found |= {
            "guaranteed_jct": float(np.nanmean(jct[guaranteed])),
            "best_effort_jct": float(np.nanmean(jct[~guaranteed])),
            "at_level": strict / whole,
            "at_eased_level": eased / whole,
            "wait": float(wait.mean()),
            "longest_wait": float(wait.max()),
            "stops": int(records["num_preemptions"][guaranteed].sum()),
        }
    return found


def time_at_level(result: RunResult, measured: MeasuredModel, job: JobId) -> tuple[Seconds, Seconds, Seconds]:
    """Seconds in which a job ran at its level or faster, at level / 1.5 or faster, and in all.

    The level is the throughput of the user's plan on the requested GPUs. Recomputed from the event log.
    The 260 s of a start or change count as running at the throughput that follows.
    """
    spec = result.workload.spec(job)
    nodes = -(-spec.num_gpus // 8)
    level = measured.throughput(spec.model, Configuration("A800", spec.num_gpus, nodes, plan=spec.plan))
    events = result.log.events
    rows = np.flatnonzero(events["job"] == job)
    ends: FloatArray = np.append(events["time"][rows[1:]], result.end_time)
    strict = eased = whole = 0.0
    for row, end in zip(rows.tolist(), ends.tolist(), strict=True):
        if events["kind"][row] not in (EventKind.START, EventKind.RESIZE):
            continue
        place = result.log.placement(row)
        throughput = measured.throughput(
            spec.model, Configuration("A800", place.num_gpus, len(place.gpus), plan=place.plan)
        )
        seconds = end - float(events["time"][row])
        whole += seconds
        strict += seconds if meets(throughput, level) else 0.0
        eased += seconds if meets(throughput, level / SLACK) else 0.0
    return strict, eased, whole


def times_table(runs: pd.DataFrame, variant: str) -> pd.DataFrame:
    """Completion times on one trace, with the artifact's printed figures in the last row."""
    shown = runs.loc[runs["trace"] == variant, ["scheduler", "jct", "p99", "makespan", "busy_gpus", "restarts"]]
    jct, makespan, _ = PUBLISHED[variant]
    printed = pd.DataFrame([{"scheduler": "the artifact, as printed", "jct": jct, "makespan": makespan}])
    table = pd.concat([shown, printed], ignore_index=True)
    named = table.rename(columns={"jct": "mean JCT", "p99": "p99 JCT", "busy_gpus": "GPUs held", "restarts": "changes"})
    rounded = named.round({"mean JCT": 3, "p99 JCT": 2, "makespan": 2, "GPUs held": 1})
    rounded["changes"] = [str(int(count)) if np.isfinite(count) else "-" for count in rounded["changes"]]
    return rounded


def guarantees_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Guaranteed jobs on the multi-tenant trace: hours, and per cent of their running time."""
    part = runs[runs["trace"] == "mt"]
    table = pd.DataFrame(
        {
            "scheduler": part["scheduler"],
            "mean JCT": part["guaranteed_jct"].round(3),
            "best effort": part["best_effort_jct"].round(3),
            "at level %": (100.0 * part["at_level"]).round(2),
            "at level / 1.5 %": (100.0 * part["at_eased_level"]).round(2),
            "mean wait": part["wait"].round(3),
            "longest wait": part["longest_wait"].round(2),
            "stops": [str(int(count)) for count in part["stops"]],
        }
    )
    printed = pd.DataFrame([{"scheduler": "the artifact, as printed", "mean JCT": PUBLISHED["mt"][2], "stops": "-"}])
    return pd.concat([table, printed], ignore_index=True)


def ratios_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Mean JCT and makespan of each scheduler divided by Rubick's."""
    rows: list[dict[str, object]] = []
    for name in dict.fromkeys(runs["scheduler"]):
        row: dict[str, object] = {"scheduler": name}
        for variant, part in runs.groupby("trace", sort=False):
            by_name = part.set_index("scheduler")
            for column, label in (("jct", "JCT"), ("makespan", "makespan")):
                row[f"{variant} {label}"] = round(float(by_name.loc[name, column] / by_name.loc[STRICT, column]), 2)
        rows.append(row)
    return pd.DataFrame(rows)


def explain_tables() -> list[str]:
    """Explain how to read the tables."""
    return [
        f"the abstract's ratios: {CLAIMED}; the paper's own tables are not among our sources",
        "the artifact's printed figures do not hold for 64 GPUs: a job that loses its GPUs continues to run. Counted "
        "in its simulator (commit 80e8524), jobs make progress on more than 64 GPUs in 417 of the 978 rounds of base, "
        "on up to 344, and hold 1,272 GPU-hours of the 1,043 available; with such jobs stopped it gives a mean JCT of "
        "2.08 h and a makespan of 30.1 h",
        "in the artifact jobs are never shrunk for others, because of a condition that is always true; the rebuilt "
        "policy keeps this, and runs on this engine's capacity",
        "guaranteed jobs request up to 182 of the 64 GPUs at once, so they wait, and Rubick stops guaranteed jobs for "
        "starved ones; level: the user's plan on the requested GPUs",
        "fitted throughputs: decisions by a model fitted to a few profiled points, progress as measured",
        "RoBERTa's measured times on one GPU are those on two, as published",
    ]
