"""A trace as what-if reads it: jobs that run as long as they did, the cluster, the rules, and what was recorded."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from baselines.slurm.reservations import read_reservations
from baselines.slurm.site_conf import read_site
from envs.performance import IdealModel
from envs.simulation import Information, Scenario, Setup
from envs.types import BoolArray, ClusterSpec, Seconds, plain_type
from envs.types.units import DAY
from envs.workloads import TraceSource, Workload, WorkloadSource
from murmuration.config.building import build_object
from murmuration.config.choices import own_configs, search_in
from murmuration.config.describe import compose_comparison
from murmuration.config.descriptions import ComparisonRun
from murmuration.config.errors import ChoiceError
from murmuration.what_if.played import Fates

ASSIGNED = "models are assigned"  # which has no effect here
_TYPES = re.compile(rb"gres/gpu:([A-Za-z][^=,|\"\s]{0,63})=", re.ASCII)


@dataclass(frozen=True)
class Question:
    """What is asked: a trace, a cluster, and the scheduler that it has today."""

    path: Path
    options: Sequence[str] = ()  # as on the command line of compare.py, such as workload.reader.timezone=Europe/Berlin
    reader: str = "slurm"  # of conf/workload
    cluster: str = ""  # of conf/cluster, or a file; the nodes of slurm_conf if empty
    slurm_conf: str = ""
    accounting: str = ""
    reservations: str = ""
    incumbent: str = "slurm"
    config_dir: str | None = None
    restart: Seconds = 300.0  # of a job that was stopped or moved
    split: str = "all"  # of the trace, which is measured; test is the part that no policy is trained on
    warm_up: float = 7.0  # days before it that are played, too
    queues: str = ""  # a file of Kueue's objects; "" for no queues


@dataclass(frozen=True)
class Replay:
    """The jobs, the world and the record.

    Attributes:
        workload: all jobs of the trace that can be played.
        setup: cluster and rules.
        names: of the cluster's nodes.
        measured: bool[num_jobs], the jobs that count; others come before them.
        recorded: what became of the jobs in the record; unknown starts are NaN.
        notes: on rows that were left out, and on what is assumed.
        options: of the workload and the incumbent, as the commands take them.
        own_configs: whether some of them are of a folder of the user's own.
    """

    workload: Workload
    setup: Setup
    names: tuple[str, ...]
    measured: BoolArray
    recorded: Fates
    notes: tuple[str, ...]
    options: tuple[str, ...] = ()
    own_configs: bool = False

    @property
    def cluster(self) -> ClusterSpec:
        """The nodes."""
        return self.setup.cluster


def describe_question(question: Question, schedulers: Sequence[str], typed: Sequence[str] = ()) -> ComparisonRun:
    """Compose what is asked with `conf/`, as compare.py would.

    Args:
        question: what is asked.
        schedulers: names of the library.
        typed: further options.

    Raises:
        ChoiceError: an option is wrong, or there is no such scheduler, cluster or reader.
    """
    folder, cluster = question.config_dir, question.cluster
    if cluster.endswith((".yaml", ".yml")):
        folder, cluster = str(Path(cluster).resolve().parents[1]), Path(cluster).stem
    words = [*search_in(folder), "task=none", f"workload={question.reader}", "performance=ideal"]
    words += [f"workload.path={question.path}", *([f"cluster={cluster}"] if cluster else []), *typed]
    words += [each for each in question.options if _concerns(each, schedulers)]
    if question.slurm_conf and "slurm" in schedulers:
        words.append(f"schedulers.slurm.conf={question.slurm_conf}")
    if question.accounting and "slurm" in schedulers:
        words.append(f"schedulers.slurm.accounting={question.accounting}")
    with own_configs():
        return compose_comparison([*words, f"scheduler=[{','.join(schedulers)}]"])


def _concerns(option: str, schedulers: Sequence[str]) -> bool:
    """Return whether an option is not one of a scheduler that is left out."""
    group, _, rest = option.partition(".")
    return group != "schedulers" or rest.partition(".")[0] in schedulers


def find_cluster(question: Question) -> tuple[ClusterSpec, tuple[str, ...]]:
    """Return the cluster, and the names of its nodes; nodes of a YAML file are called by their places, from 0 on.

    Raises:
        ChoiceError: none is given, or there is no such one.
        MurmurationError: the slurm.conf is wrong.
    """
    if question.cluster:
        found: ClusterSpec = build_object(describe_question(question, []).problem.cluster, ClusterSpec)
        return found, tuple(map(str, range(found.num_nodes)))
    if question.slurm_conf:
        site = read_site(Path(question.slurm_conf))
        return site.cluster, site.names
    raise ChoiceError("cluster: is missing; give --slurm-conf slurm.conf, which has the nodes, or --cluster <name>")


def read_replay(question: Question) -> Replay:
    """Read the trace and build its world.

    Jobs are rigid, and run as long as they ran, wherever they run: run times depend on no model. A job runs only on the
    GPU type and in the partition where it ran, and ends at its time limit. Schedulers know the limits if all jobs have
    one, else nothing of run times.

    Raises:
        ChoiceError: an option is wrong, or no cluster is given.
        MurmurationError: the file cannot be read, or a job does not fit the cluster.
    """
    cluster, names = find_cluster(question)
    types = [] if any("gpu_types" in each for each in question.options) else _own_types(question, cluster)
    component = describe_question(question, [], types).problem.workload
    source = build_object(component, WorkloadSource, cluster=cluster, performance=IdealModel())
    if not isinstance(source, TraceSource):
        raise ChoiceError(f"reader={question.reader}: reads no trace; choose a group of conf/workload that does")
    first, last = source.rows(question.split)
    submit = source.workload.jobs["submit_time"]
    begin = int(np.searchsorted(submit, submit[first] - question.warm_up * DAY))
    workload = source.workload.slice(begin, last, start=0.0)
    limited = bool((workload.jobs["time_limit"] > 0).all())
    knows = Information("limit" if limited else "none")
    scenario = Scenario(restart_delay=question.restart, batch_sizes="usual", information=knows)
    measured = np.arange(begin, last) >= first
    notes = [f"{first - begin:,} jobs before the measured ones are played, too"] if begin < first else []
    notes += [each for each in workload.notes if not each.startswith(ASSIGNED)]
    if not limited:
        without = int((workload.jobs["time_limit"] == 0).sum())
        notes.append(f"{without:,} of {len(workload):,} jobs have no time limit, so schedulers know no run times")
    setup = Setup(cluster, IdealModel(), scenario)
    path = question.path.resolve()
    options = (f"workload={question.reader}", f"workload.path={path}", *types, *question.options)
    for name, value in (("conf", question.slurm_conf), ("accounting", question.accounting)):
        options += (f"schedulers.slurm.{name}={Path(value).resolve()}",) if value else ()
    if question.reservations:
        options += (_reservations(question, names, workload),)
    return Replay(
        workload, setup, names, measured, recorded_fates(workload), tuple(notes), options, bool(question.config_dir)
    )


def _reservations(question: Question, names: Sequence[str], workload: Workload) -> str:
    """Return the option of `scheduler=slurm` with what scontrol printed, by numbers of nodes and seconds."""
    zero = workload.recorded.zero if workload.recorded else None
    if zero is None:
        raise ChoiceError(f"reservations={question.reservations}: the trace has no dates, so their times mean nothing")
    found = read_reservations(Path(question.reservations), names, zero.replace(tzinfo=None))
    rows = (
        f"{name}: {{nodes: {row['nodes']}, start: {row['start']}, end: {row['end']}}}" for name, row in found.items()
    )
    return f"schedulers.slurm.reservations={{{', '.join(rows)}}}"


def recorded_fates(workload: Workload) -> Fates:
    """Return what became of the jobs in the record; unknown where the trace does not say when they started."""
    jobs, past = workload.jobs, workload.recorded
    unknown = np.full(len(workload), np.nan)
    start, end, waited = (unknown, unknown, unknown) if past is None else (past.start, past.end, past.waited)
    end = np.where(np.isnan(end), start + jobs["duration"], end)
    enter = np.maximum(jobs["submit_time"], jobs["begin_time"])
    for job, on, _ in workload.dependencies:
        enter[job] = np.fmax(enter[job], end[on])
    held = enter - jobs["submit_time"]
    wait = np.maximum(np.where(np.isnan(waited), start - jobs["submit_time"], waited) - held, 0.0)
    return Fates("recorded", enter, start, end, np.where(np.isnan(start), np.nan, wait), jobs["num_gpus"].copy())


def _own_types(question: Question, cluster: ClusterSpec) -> list[str]:
    """Return the option that keeps Slurm's names of GPU types, in the spelling of the cluster."""
    if question.reader != "slurm":
        return []
    try:
        found = {each.decode() for each in _TYPES.findall(question.path.read_bytes())}
    except OSError:
        return []  # the reader has the message
    known = {plain_type(name).lower(): plain_type(name) for name in cluster.gpu_types}
    pairs = [f"{name}: {known.get(name.lower(), name)}" for name in sorted(found)]
    return [f"workload.reader.gpu_types={{{', '.join(pairs)}}}"] if pairs else []
