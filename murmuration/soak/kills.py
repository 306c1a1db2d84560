"""A bridge that is killed again and again while it plays a trace on a Slurm test cluster, and its cluster manager too.

The bridge is `scripts/deploy.py`, started again with `continued=` as a user would.
"""

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from deployment.bridge import JOURNAL
from deployment.jobs import DONE, read_report
from deployment.journal import INTENDED, read_journal
from deployment.slurm.adapter import SlurmAdapter
from deployment.slurm.testbed import SlurmTestbed, start_testbed, stop_testbed
from envs.types import Seconds
from murmuration.config.errors import RunFailedError
from murmuration.home import ROOT

CONTROL_EVERY = 3  # kills of the bridge, for one of slurmctld with it
LONGEST_LIFE: Seconds = 4.0  # of a bridge after its first entry in the journal
PATIENCE: Seconds = 300.0  # for that entry, and without any for the play
TRACE = ("scheduler=[srtf]", "workload.max_gpus=16", "workload.load=1.2", "probes=2", "act=true", "interval=0.2")


@dataclass
class KillTally:
    """Counts of a play whose bridge was killed.

    Attributes:
        bridges: kills of the bridge.
        controls: kills of slurmctld.
        refused_starts: bridges that ended by themselves, as slurmctld did not answer.
        jobs: jobs, all of which ended once.
        starts: segments that were started.
        lost: segments that ended by themselves.
        counters: counters of the last bridge's table that were compared with the journal's.
    """

    bridges: int = 0
    controls: int = 0
    refused_starts: int = 0
    jobs: int = 0
    starts: int = 0
    lost: int = 0
    counters: int = 0

    def __str__(self) -> str:
        return (
            f"{self.bridges} kills of the bridge and {self.controls} of slurmctld survived ({self.refused_starts} "
            f"bridges met no slurmctld and ended): {self.jobs} jobs ended once in {self.starts} segments, of which "
            f"{self.lost} were lost and repeated; {self.counters} counters equal the journal's"
        )


def survive_kills(kills: int, seed: int, folder: Path, num_jobs: int = 60, shorten: float = 4.0) -> KillTally:
    """Play a trace on a test cluster of its own, kill its bridge at random instants, and check what is left.

    Every third time slurmctld is killed at the same instant, and started again some seconds later.

    Args:
        kills: of the bridge.
        seed: of the instants.
        folder: for the cluster and the run.
        num_jobs: of the trace.
        shorten: divides times and work of the trace; the fewer kills, the larger it may be.

    Raises:
        RunFailedError: a job was lost or ran twice, a counter differs, the trace ended before the last kill, or a task
            or the claim is left.
        MurmurationError: there can be no test cluster here.
    """
    tally, rng = KillTally(), random.Random(seed)
    cluster = start_testbed(folder / "cluster")
    run = folder / "run"
    words = [*TRACE, f"jobs={num_jobs}", f"shorten={shorten:g}", f"testbed={cluster.folder}"]
    try:
        while tally.bridges < kills:
            _live_and_die(words, run, cluster, rng, tally)
        with _bridge(words, run) as last:
            if last.wait():
                raise RunFailedError(f"the last bridge ended with {last.returncode}; see {_output(run)}")
        _check(run, cluster, num_jobs, tally)
    finally:
        stop_testbed(cluster.folder)
    return tally


def _bridge(words: Sequence[str], run: Path) -> subprocess.Popen[bytes]:
    """Start a bridge in a folder, or go on with the one that was killed there."""
    begun = (run / "latencies.json").exists()
    place = run.with_name(f"continued {time.time_ns()}") if begun else run
    more = [f"continued={run}"] if begun else []
    with _output(run).open("ab") as out:
        command = [sys.executable, str(ROOT / "scripts" / "deploy.py"), *words, *more, f"hydra.run.dir='{place}'"]
        return subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)


def _output(run: Path) -> Path:
    """File with all that the bridges have printed."""
    return run.with_name("bridges.out")


def _live_and_die(words: Sequence[str], run: Path, cluster: SlurmTestbed, rng: random.Random, tally: KillTally) -> None:
    """Start a bridge, and kill it some seconds after it has written to its journal."""
    journal = run / "srtf" / JOURNAL
    before = journal.stat().st_size if journal.exists() else 0
    with _bridge(words, run) as bridge:
        until = time.monotonic() + PATIENCE
        while bridge.poll() is None and (not journal.exists() or journal.stat().st_size == before):
            if time.monotonic() > until:
                bridge.kill()
                raise RunFailedError(f"a bridge wrote nothing within {PATIENCE:g} s; see {_output(run)}")
            time.sleep(0.01)
        with suppress(subprocess.TimeoutExpired):
            bridge.wait(rng.uniform(0.0, LONGEST_LIFE))
        if bridge.returncode is not None:
            if bridge.returncode == 0:
                raise RunFailedError(f"the trace ended after {tally.bridges} kills; play more or longer jobs")
            tally.refused_starts += 1
            if tally.refused_starts > tally.bridges + 5:
                raise RunFailedError(f"bridges end with {bridge.returncode}; see {_output(run)}")
            return
        bridge.send_signal(signal.SIGKILL)
    tally.bridges += 1
    if tally.bridges % CONTROL_EVERY == 0:
        cluster.end_daemon("slurmctld", crash=True)
        tally.controls += 1
        time.sleep(rng.uniform(0.0, 3.0))
        cluster.start_control()


def _check(run: Path, cluster: SlurmTestbed, num_jobs: int, tally: KillTally) -> None:
    """Check that all jobs ended once, that no task is left, and that the table's counters are the journal's."""
    lines = list(read_journal(run / "srtf" / JOURNAL))
    starts = Counter(
        (each["job"], each["segment"]) for each in lines if (each["action"], each["phase"]) == ("start", INTENDED)
    )
    reports = {number: read_report(run / "srtf" / "jobs" / str(number)) for number in range(num_jobs)}
    if wrong := [number for number, report in reports.items() if report is None or report.state != DONE]:
        raise RunFailedError(f"jobs {wrong} did not end")
    if twice := [key for key, count in starts.items() if count > 1]:
        raise RunFailedError(f"segments were started twice: {twice}")
    counts = Counter(f"{each['action']} {each['phase']}" for each in lines)
    row = pd.read_csv(run / "results.csv").iloc[0]
    shown = {name: int(row[name]) for name in counts if name in row.index}
    shown["lose carried out"] = int(row["segments lost"])
    shown["look refused"] = int(row["looks without an answer"])
    shown["round decided"] = int(row["rounds"])
    if other := {name: (count, counts[name]) for name, count in shown.items() if count != counts[name]}:
        raise RunFailedError(f"counters differ from the journal's: {other}")
    tasks = [task.name for task in SlurmAdapter(cluster.environment).tasks() if task.state != "ended"]
    held = subprocess.run(["squeue", "-h", "-o", "%i"], env=cluster.environment, capture_output=True, text=True).stdout
    if tasks or held.split():
        raise RunFailedError(f"tasks {tasks} and Slurm jobs {held.split()} are left")
    tally.jobs, tally.starts, tally.counters = num_jobs, len(starts), len(shown)
    tally.lost = counts["lose carried out"]
