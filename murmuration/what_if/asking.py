"""The command: what is typed, and from it the trace, the plays and the report."""

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
import yaml
from rich.progress import BarColumn, Progress, TimeElapsedColumn

from baselines import Kueue
from baselines.slurm import Slurm
from envs.cluster import node_groups
from envs.evaluation.files import write_frame, write_whole
from envs.pictures.texts import TaskText, wide_console
from envs.types import ClusterSpec, constraints_of
from murmuration.config.errors import ChoiceError
from murmuration.runs.comparing import list_settings_in_force
from murmuration.what_if.alternatives import Alternatives, usual_changes
from murmuration.what_if.answer import WhatIfAnswer
from murmuration.what_if.page import answer_page
from murmuration.what_if.played import Fates, Play, play_everything
from murmuration.what_if.replay import Question, read_replay
from murmuration.what_if.terminal import show_answer

CLUSTER = "replayed"  # the name of the cluster's file in the folder of a report
CHANGES = {
    "policy": "another scheduler of the library, or the folder of a trained policy",
    "load": "jobs that come faster, such as 1.2",
    "nodes": "more nodes, such as +2xH100 or +2xH100:partition",
    "without": "without these nodes, such as n17,n18",
    "partition": "jobs of one partition run in another, such as debug:batch",
    "constraints": "none: jobs run in any partition, on any GPU type",
    "limit-accuracy": "limits at most so many times as long as jobs run, such as 1.5",
}


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="murmuration what-if", description="Replay a trace as it was scheduled, check it, and play alternatives."
    )
    parser.add_argument("jobs", type=Path, help="the trace, such as what sacct printed")
    parser.add_argument("options", nargs="*", help="such as workload.reader.timezone=Europe/Berlin")
    parser.add_argument("--cluster", default="", help="of conf/cluster, or a YAML file; default: that of --slurm-conf")
    parser.add_argument("--slurm-conf", default="", help="slurm.conf of today: policy, partitions and nodes")
    parser.add_argument("--accounting", default="", help="what sacctmgr -P show assoc tree and show qos print")
    parser.add_argument("--reservations", default="", help="what scontrol --oneliner show reservation prints")
    parser.add_argument("--reader", default="slurm", help="of conf/workload; default: slurm")
    parser.add_argument("--queues", default="", help="Kueue's queues of today, as kubectl prints them")
    parser.add_argument(
        "--incumbent", default="", help="the scheduler of today; default: slurm, or fifo_backfill behind --queues"
    )
    parser.add_argument("--config-dir", help="a folder with your own clusters, workloads and schedulers")
    for name, about in CHANGES.items():
        parser.add_argument(f"--{name}", action="append", default=[], metavar="X", help=f"{about}; may be repeated")
    parser.add_argument("--new-conf", action="append", default=[], metavar="X", help="another slurm.conf")
    parser.add_argument("--new-queues", action="append", default=[], metavar="X", help="other queues of Kueue")
    parser.add_argument("--together", action="store_true", help="play all changes at once, as one alternative")
    parser.add_argument("--split", default="all", help="part that is measured: test, which policies have not seen")
    parser.add_argument("--warm-up", type=float, default=7.0, help="days before that part to play, too; default: 7")
    parser.add_argument("--restart", type=float, default=300.0, help="seconds that a stopped job loses; default: 300")
    parser.add_argument("--processes", type=int, default=2, help="that play at once; default: 2")
    parser.add_argument("--out", type=Path, help="folder of the report; default: runs/what_if/<date_time>")
    return parser


def ask(words: Sequence[str] | None = None) -> WhatIfAnswer:
    """Read the command line, play everything, print the answer, and write the report.

    Args:
        words: of the command line; None for those that were typed.

    Returns:
        The answer.

    Raises:
        ChoiceError: an option is wrong.
        MurmurationError: the trace cannot be read or does not fit the cluster.
    """
    typed = make_parser().parse_intermixed_args(words)
    answer = find_answer(typed)
    show_answer(answer)
    write_answer(answer, typed.out or Path("runs/what_if") / f"{datetime.now():%Y-%m-%d_%H-%M-%S}")
    return answer


def find_answer(typed: argparse.Namespace) -> WhatIfAnswer:
    """Play what the parser has read, and return the answer; for errors see `ask`."""
    if typed.processes < 1:
        raise ChoiceError(f"--processes {typed.processes}: must be at least 1")
    question, changes = read_question(typed)
    with wide_console().status("reading the trace"):
        replay = read_replay(question)
    makes = Alternatives(question, replay)
    incumbent = makes.incumbent()
    wanted = [changes] if typed.together and changes else [[each] for each in changes or usual_changes(replay.workload)]
    plays = [incumbent, *(makes.make(each) for each in wanted)]
    if len({each.label for each in plays}) < len(plays):
        raise ChoiceError(f"alternatives: one is asked for twice ({', '.join(each.label for each in plays[1:])})")
    found = play_with_bar(plays, typed.processes)
    first = found[incumbent.label]
    if not isinstance(first, Fates):
        raise ChoiceError(f"{incumbent.label}: cannot play the trace: {first}")
    return WhatIfAnswer(
        replay,
        first,
        {label: each for label, each in found.items() if isinstance(each, Fates) and label != incumbent.label},
        {label: each for label, each in found.items() if isinstance(each, str)},
        {each.label: each.stretch for each in plays},
        [
            *list_settings_in_force({incumbent.label: incumbent.scheduler}),
            *list_settings_in_force(
                {each.label: each.scheduler for each in plays[1:] if isinstance(each.scheduler, Kueue)}
            ),
            *say_mismatches(incumbent),
            *say_doubts(plays),
        ],
        find_unlimited(incumbent, plays),
    )


def read_question(typed: argparse.Namespace) -> tuple[Question, list[str]]:
    """Return what is asked, and the changes, each `<name>=<value>`."""
    question = Question(
        typed.jobs,
        typed.options,
        typed.reader,
        typed.cluster,
        typed.slurm_conf,
        typed.accounting,
        typed.reservations,
        typed.incumbent or ("fifo_backfill" if typed.queues else "slurm"),
        typed.config_dir,
        typed.restart,
        typed.split,
        typed.warm_up,
        typed.queues,
    )
    changes = [f"{name}={value}" for name in CHANGES for value in getattr(typed, name.replace("-", "_"))]
    changes += [f"slurm-conf={value}" for value in typed.new_conf]
    changes += [f"queues={value}" for value in typed.new_queues]
    return question, changes


def play_with_bar(plays: Sequence[Play], processes: int) -> dict[str, Fates | str]:
    """Play everything, with a bar of progress."""
    columns = (TaskText("{task.description}"), BarColumn(), TaskText("{task.completed:.0f}/{task.total}"))
    with Progress(*columns, TimeElapsedColumn(), console=wide_console(), transient=True) as bar:
        shown = bar.add_task("playing", total=len(plays))

        def done(label: str) -> None:
            bar.update(shown, advance=1, description=f"played {label}")

        return dict(play_everything(plays, processes, done))


def find_unlimited(incumbent: Play, plays: Sequence[Play]) -> list[str]:
    """Return the labels of plays in which limits of QoS and associations do not hold that the incumbent honours."""
    slurm = incumbent.scheduler
    if not (isinstance(slurm, Slurm) and slurm.in_force.limits_anything):
        return []
    return [each.label for each in plays if not isinstance(each.scheduler, Slurm)]


def say_doubts(plays: Sequence[Play]) -> list[str]:
    """Say which jobs are larger than their queues, and which quotas are larger than the cluster."""
    lines = []
    for play in plays:
        if isinstance(play.scheduler, Kueue):
            jobs, tenants = play.workload.jobs, play.workload.tenants
            sizes = zip((tenants[each] for each in jobs["tenant"].tolist()), jobs["num_gpus"].tolist(), strict=True)
            lines += play.scheduler.doubts(sizes, play.setup.cluster.num_gpus)
    return [f"attention: {line}" for line in dict.fromkeys(lines)]


def say_mismatches(play: Play) -> list[str]:
    """Say where the jobs and the files of Slurm do not fit each other: accounts, and partitions."""
    if not isinstance(play.scheduler, Slurm):
        return []
    rules, workload, lines = play.scheduler.in_force, play.workload, []
    known = {each.account for each in rules.associations}
    absent = [each for each in workload.tenants if each not in known]
    if known and absent:
        lines.append(
            f"{len(absent):,} of {len(workload.tenants):,} accounts of the jobs, such as {absent[0] or '(none)'}, are "
            "not in the accounting file, so that their shares and limits do not count"
        )
    default = [each.name for each in rules.partitions.values() if each.default]
    nowhere = np.array([not constraints_of(model).pools for model in workload.models])[workload.jobs["model"]]
    if nowhere.any() and len(rules.partitions) > 1 and default:
        lines.append(
            f"{int(nowhere.sum()):,} jobs name no partition that the cluster has: they run in the default one, "
            f"{default[-1]}, alone"
        )
    return [f"attention: {line}" for line in lines]


def write_answer(answer: WhatIfAnswer, folder: Path) -> None:
    """Write what_if.html, jobs.csv and results.json, and print where."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "what_if.html", answer_page(answer))
    write_frame(folder / "jobs.csv", answer.job_table())
    trust = answer.trust
    results = {
        "figures": answer.figures,
        "changes": {label: [each.value, each.low, each.high] for label, each in answer.changes.items()},
        "trust": None if trust is None else [trust.overlap, trust.low, trust.high],
        "reasons": [] if trust is None else trust.reasons,
        "refused": dict(answer.refused),
        "notes": list(answer.replay.notes),
    }
    write_whole(folder / "results.json", json.dumps(results, indent=1, allow_nan=True) + "\n")
    (folder / "cluster").mkdir(exist_ok=True)
    write_whole(folder / "cluster" / f"{CLUSTER}.yaml", cluster_yaml(answer.replay.cluster))
    wide_console().print(f"report: {folder / 'what_if.html'}; all jobs: {folder / 'jobs.csv'}")
    if command := training_command(answer, folder):
        print(f"to learn a policy from these jobs: {command}", flush=True)  # not wrapped


def cluster_yaml(cluster: ClusterSpec) -> str:
    """Return a cluster as a file of conf/cluster describes it, with a group for equal nodes in a row."""
    content = {"_target_": "envs.cluster.build_cluster", "name": cluster.name, "groups": node_groups(cluster)}
    return str(yaml.safe_dump(content, sort_keys=False))


def training_command(answer: WhatIfAnswer, folder: Path) -> str:
    """Return the command that trains on the first part of the jobs, for `--split test --policy`.

    It is empty where the configurations come from a folder of the user's own: Hydra takes only one.
    """
    if answer.replay.own_configs:
        return ""
    limits = [] if (answer.replay.workload.jobs["time_limit"] > 0).all() else ["workload.limits=drawn"]
    words = [*answer.replay.options, *limits, "workload.elastic=1", f"cluster={CLUSTER}", "performance=ideal"]
    words = ["experiment=slurm", "task=none", *dict.fromkeys(words), "scenario=replay"]
    start = [sys.executable, "-m", "murmuration", "train", "--config-dir", str(folder.resolve())]
    return shlex.join([*start, *words])
