"""Schedulers that watch a cluster in shadow mode."""

import itertools
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
from rich.table import Table

from deployment.bridge import JOURNAL, check_nodes
from deployment.history import ObservedJob
from deployment.journal import CARRIED_OUT, REFUSED, SHADOWED, Journal
from deployment.played import PlayedChange, RoundFailedError
from deployment.shadow import OBSERVED, JobWait, Shadow
from deployment.slurm.adapter import SlurmAdapter
from deployment.slurm.observing import observe_queue, observe_recording
from deployment.slurm.rest import find_adapter
from envs.evaluation.files import write_frame
from envs.pictures.texts import wide_console
from envs.types import ClusterSpec, MurmurationError, NodeId, Seconds, as_line
from murmuration.config.descriptions import ShadowRun
from murmuration.config.errors import RunFailedError
from murmuration.config.inputs import build_inputs
from murmuration.runs.films import find_actor

WAITS = "waits.csv"


@dataclass(frozen=True)
class Look:
    """What is seen of a cluster at one time, in seconds since 1970."""

    now: float
    jobs: Sequence[ObservedJob] = ()
    down: frozenset[NodeId] = frozenset()
    nodes: frozenset[str] = frozenset()  # names of all that are shown
    failed: str = ""  # why nothing is seen; empty if it is


def watch_cluster(run: ShadowRun, folder: Path) -> None:
    """Print what the scheduler of a run would change, line by line, and write it to the journal of the run.

    Looks and rounds that fail are counted and said, and the next ones go on.

    Raises:
        ChoiceError: not one scheduler is chosen.
        MurmurationError: the recording cannot be read, or the cluster has other nodes than the setup.
        ActionRefusedError: Slurm does not answer at the beginning.
        RunFailedError: no round was answered, and some have failed.
    """
    setup = build_inputs(run.problem).setup
    journal = Journal(folder / JOURNAL)
    shadow = Shadow(find_actor(run), setup, run.model, journal)
    watch = Watch(shadow, journal, live=not run.recording)
    left_out = shadow.history.left_out
    if run.recording:
        looks = recorded_looks(run.recording, setup.cluster, left_out)
    else:
        looks = live_looks(find_adapter(run.rest), setup.cluster, run.interval, left_out)
        print(f"watching {setup.cluster.num_nodes} nodes with {setup.cluster.num_gpus} GPUs; Ctrl-C ends", flush=True)
    try:
        for look in itertools.islice(looks, run.looks):
            say(watch.take(look))
        say(watch.end() if run.recording and run.looks is None else [])
    except KeyboardInterrupt:
        print_waits(shadow.waits(), folder)
        raise KeyboardInterrupt(str(watch)) from None
    finally:
        journal.close()
    print_waits(shadow.waits(), folder)
    print(watch)
    if watch.rounds.num and not shadow.num_rounds:
        raise RunFailedError(f"all {watch.rounds.num} rounds failed; the first lines say why")


def say(lines: Sequence[tuple[float, str]]) -> None:
    """Print lines, each with the time that it is about, in seconds since 1970."""
    for second, line in lines:
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(second))}  {as_line(line)}")
    sys.stdout.flush()


def print_waits(waits: Sequence[JobWait], folder: Path) -> None:
    """Print how long jobs waited really and in the shadow, and write each in `waits.csv`."""
    rows = [asdict(each) for each in waits]
    write_frame(folder / WAITS, pd.DataFrame(rows, columns=[each.name for each in fields(JobWait)]))
    found = np.array([each.waits for each in waits]).reshape(-1, 2)
    started = ~np.isnan(found)
    both = started.all(axis=1)
    table = Table(box=None, header_style="bold", padding=(0, 1), title=f"wait of {both.sum()} jobs that began in both")
    for head in ("", "mean", "p90", "jobs that began"):
        table.add_column(head, justify="right" if head else "left")
    for column, name in enumerate(("really", "in the shadow")):
        own = found[both, column]
        cells = [f"{value:.1f} s" for value in (own.mean(), np.quantile(own, 0.9))] if len(own) else ["", ""]
        table.add_row(name, *cells, f"{started[:, column].sum()} of {len(found)}")
    if rows:
        wide_console().print(table)


class Watch:
    """What a shadow says, look by look; its text is the last line: what was seen, and where it is written.

    Args:
        shadow: is shown the looks.
        journal: takes what the shadow does not write itself.
        live: whether a round without changes is said too.

    Attributes:
        changes: changes that the scheduler would have made.
        looks: looks that failed.
        rounds: rounds that failed.
    """

    def __init__(self, shadow: Shadow, journal: Journal, *, live: bool) -> None:
        self._shadow, self._journal, self._live = shadow, journal, live
        self.changes, self.looks, self.rounds = 0, RepeatedFailures("look", journal), RepeatedFailures("round", journal)
        self._nodes: frozenset[str] | None = None
        self._told = 0  # jobs left out that were named

    def take(self, look: Look) -> list[tuple[float, str]]:
        """Take a look at the real cluster and play on; return what is to be said, and when each happened."""
        said, changes = self._take(look)
        return [*((look.now, line) for line in said), *self._list(changes)]

    def end(self) -> list[tuple[float, str]]:
        """Play on after the last look; return what is to be said, and when each happened."""
        try:
            return self._list(self._shadow.play_out())
        except RoundFailedError as error:
            return [(math.nan, line) for line in self.rounds.fail(str(error))]

    def _list(self, changes: Sequence[PlayedChange]) -> list[tuple[float, str]]:
        """Count changes of the shadow; return what is to be said of them."""
        self.changes += len(changes)
        return [(self._shadow.history.began + each.time, f"job {each.job.seen.name}: {each}") for each in changes]

    def _take(self, look: Look) -> tuple[list[str], Sequence[PlayedChange]]:
        if look.failed:
            return self.looks.fail(look.failed), []
        said = [*self.looks.work(), *self._compare_nodes(look.nodes)]
        rounds = self._shadow.num_rounds
        try:
            changes = self._shadow.look(look.now, look.jobs, look.down)
        except RoundFailedError as error:
            return [*said, *self._left_out(), *self.rounds.fail(str(error))], []
        said += self._left_out()
        if self._shadow.num_rounds > rounds:
            said += self.rounds.work()
        if self._live and self._shadow.num_rounds > rounds and not changes:
            present = [each for each in look.jobs if not each.ended]
            held, simulated = sum(each.gpus is not None for each in present), self._shadow.num_running
            counts = f"{held} ({simulated} in the shadow), that wait: {len(present) - held}"
            said.append(f"nothing to change; jobs that run: {counts}")
        return said, changes

    def _left_out(self) -> list[str]:
        """Write and return why jobs are left out, once for each."""
        new = list(self._shadow.history.left_out.items())[self._told :]
        self._told += len(new)
        for name, why in new:
            self._journal.write(REFUSED, "read", job=name, why=why)
        return [f"{why}; left out" for _, why in new]

    def _compare_nodes(self, nodes: frozenset[str]) -> list[str]:
        """Write and return which nodes have come or gone since the last look."""
        before, self._nodes = nodes if self._nodes is None else self._nodes, nodes
        changes = {name: "is shown" if name in nodes else "is not shown any more" for name in sorted(before ^ nodes)}
        for name, change in changes.items():
            self._journal.write(OBSERVED, "node", node=name, change=change)
        return [f"node {name}: {change}" for name, change in changes.items()]

    def __str__(self) -> str:
        counts = sorted(self._journal.counts.items())
        changes = ", ".join(f"{count} {name}" for name, count in counts if name.endswith(SHADOWED)) or "none"
        trouble = {
            "looks failed": self.looks.num,
            "rounds failed": self.rounds.num,
            "jobs left out": len(self._shadow.history.left_out),
        }
        counted = "".join(f", {count} {name}" for name, count in trouble.items() if count)
        path = os.path.relpath(self._journal.path)
        return f"{self._shadow.num_rounds} rounds, {self.changes} changes ({changes}){counted}: {path}"


class RepeatedFailures:
    """Counts what fails again and again, and says when that begins and when it is over.

    Args:
        action: what fails, as the journal names it.
        journal: takes both.

    Attributes:
        num: failures so far.
    """

    def __init__(self, action: str, journal: Journal) -> None:
        self._action, self._journal = action, journal
        self.num = self._in_a_row = 0

    def fail(self, why: str) -> list[str]:
        """Count a failure; return what is to be said."""
        self.num, self._in_a_row = self.num + 1, self._in_a_row + 1
        if self._in_a_row > 1:
            return []
        self._journal.write(REFUSED, self._action, why=why)
        return [f"{self._action} failed: {why}; it is tried again"]

    def work(self) -> list[str]:
        """Note that it has worked; return what is to be said."""
        failed, self._in_a_row = self._in_a_row, 0
        if not failed:
            return []
        self._journal.write(CARRIED_OUT, self._action, failed=failed)
        return [f"{self._action} works again; failed: {failed}"]


def recorded_looks(recording: str, cluster: ClusterSpec, left_out: dict[str, str]) -> Iterator[Look]:
    """Yield a cluster as it was at each event of a recording; see `observe_recording`."""
    return (Look(now, jobs) for now, jobs in observe_recording(Path(recording), cluster, left_out))


def live_looks(
    adapter: SlurmAdapter, cluster: ClusterSpec, interval: Seconds, left_out: dict[str, str]
) -> Iterator[Look]:
    """Yield the cluster as it is now, again and again.

    Args:
        adapter: of the cluster.
        cluster: the nodes of the setup.
        interval: seconds between two looks.
        left_out: takes why a damaged job was left out, by its id.

    Raises:
        ActionRefusedError: Slurm does not answer at the beginning.
        ClusterError: it has other nodes than the setup.
    """
    nodes = adapter.nodes()
    check_nodes(nodes, cluster)
    names = [node.name for node in nodes]
    while True:
        now = time.time()
        try:
            nodes = adapter.nodes()
            up = {node.name for node in nodes if node.up}
            down = frozenset(i for i, name in enumerate(names) if name not in up)
            jobs = observe_queue(adapter.queue(), names, left_out)
            yield Look(now, jobs, down, frozenset(node.name for node in nodes))
        except MurmurationError as error:
            yield Look(now, failed=str(error))
        time.sleep(interval)
