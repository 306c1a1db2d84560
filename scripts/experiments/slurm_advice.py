"""Advice on a real Slurm, and what shadow mode foretold of it: the same jobs come without and with it."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from deployment.slurm.recording import RecordedJob, play_recorded
from deployment.slurm.testbed import SlurmTestbed, start_testbed, stop_testbed
from envs.evaluation.files import write_frame
from envs.types import MurmurationError, Seconds

SCRIPTS = Path(__file__).resolve().parents[1]
NODES, GPUS = 3, 4
GAP: Seconds = 2.0  # real time between submissions, on average; the jobs ask for 1.2 times the GPUs of the cluster
LIMIT = 15  # a job's time limit, in multiples of its run time: the scheduler knows no more of it
PATIENCE: Seconds = 300.0  # real time for a watcher to begin, and to end
OPTIONS = (
    "scheduler=srtf",
    "interval=1",
    f"cluster.groups=[{{gpu_type:V100,num_nodes:{NODES},num_gpus:{GPUS},cpu_cores:64,memory:20}}]",
)
SHADOW = ("shadow.py", "scenario.preemption=never")
ADVISER = ("advise.py", "act=true", "changes_per_minute=600")
READY = "Ctrl-C ends"  # both print it before their first look


def draw_advised_jobs(count: int, seed: int) -> list[RecordedJob]:
    """Draw jobs of 4 to 40 s, mostly short, of one, two or four GPUs of a node, whose users have opted in to advice."""
    rng = np.random.default_rng(seed)
    jobs = []
    for submit in np.sort(rng.uniform(0.0, GAP * count, count)).tolist():
        gpus, seconds = int(rng.choice([1, 2, 4], p=[0.5, 0.3, 0.2])), round(4.0 * 10.0 ** rng.random())
        limit = f"--time={LIMIT * seconds // 60}:{LIMIT * seconds % 60:02d}"
        options = ("--comment=murmuration", f"--gres=gpu:{gpus}", "--nodes=1-1", limit)
        jobs.append(RecordedJob(submit, "root", options, seconds))
    return jobs


def compare_advice(folder: Path, out: Path, count: int = 100, seed: int = 0) -> pd.DataFrame:
    """Play jobs on one test cluster under Slurm alone, watched by shadow mode, and on another under advice.

    Args:
        folder: of the clusters; new or empty.
        out: for what the watchers print and write, and `jobs.csv`.
        count: the number of jobs; 100 take about seven minutes.
        seed: from which they are drawn.

    Returns:
        A row for each job: its waits in seconds under Slurm `alone`, as `foretold` by shadow mode, and `advised`.

    Raises:
        MurmurationError: a cluster or a watcher does not start, or jobs are lost.
    """
    jobs = draw_advised_jobs(count, seed)
    alone = play_watched(folder / "alone", out / "alone", jobs, SHADOW)
    advised = play_watched(folder / "advised", out / "advised", jobs, ADVISER)
    shadow = pd.read_csv(out / "alone" / "waits.csv", dtype={"job": str}).set_index("job")
    foretold = shadow["simulated_start"] - shadow["submitted"]
    columns = {"alone": alone, "foretold": foretold.reindex(alone.index), "advised": advised.to_numpy()}
    waits = pd.DataFrame(columns)  # job ids differ: the adviser's claim on the cluster is a job too
    if missing := int(waits.isna().any(axis=1).sum()):
        raise MurmurationError(f"{out}: {missing} of {count} jobs have no start in one of the three")
    write_frame(out / "jobs.csv", waits.rename_axis("job").reset_index())
    return waits


def play_watched(folder: Path, out: Path, jobs: Sequence[RecordedJob], watcher: Sequence[str]) -> "pd.Series[float]":
    """Play jobs on a new test cluster beside a command; return their waits in seconds, in order of submission.

    Raises:
        MurmurationError: the cluster or the watcher does not start, or not every job ran to its end.
    """
    try:
        cluster = start_testbed(folder, NODES, GPUS)
        with _watched(cluster, out, watcher):
            play_recorded(cluster, jobs)
            time.sleep(3.0)  # the watcher sees the last end
        command = ["squeue", "--noheader", "--states=all", "--name=sbatch", "--format=%i %T %V %S"]
        listed = subprocess.run(command, env=cluster.environment, capture_output=True, text=True, check=True).stdout
    finally:
        stop_testbed(folder)
    rows = sorted((line.split() for line in listed.splitlines()), key=lambda row: int(row[0]))
    if len(rows) != len(jobs) or (states := {row[1] for row in rows}) != {"COMPLETED"}:
        raise MurmurationError(f"{folder}: {len(rows)} of {len(jobs)} jobs are known, in states {sorted(states)}")
    submitted, started = (pd.to_datetime([row[place] for row in rows]) for place in (2, 3))
    return pd.Series((started - submitted).total_seconds(), index=[row[0] for row in rows])


@contextmanager
def _watched(cluster: SlurmTestbed, out: Path, watcher: Sequence[str]) -> Iterator[None]:
    """Run a command of the project beside the block, once it looks at the cluster; SIGTERM ends it like Ctrl-C."""
    script, *options = watcher
    out.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, str(SCRIPTS / script), *OPTIONS, *options, f"hydra.run.dir={out}"]
    words += [f"state={out / 'state'}"] if script == ADVISER[0] else []
    with (out / "printed.txt").open("w", encoding="utf-8") as printed:
        running = subprocess.Popen(words, env=cluster.environment, stdout=printed, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + PATIENCE
        while READY not in (out / "printed.txt").read_text(encoding="utf-8"):
            if running.poll() is not None or time.monotonic() > until:
                raise MurmurationError(f"{script} does not begin; {out / 'printed.txt'} says why")
            time.sleep(0.2)
        yield
    finally:
        running.terminate()
        running.wait(PATIENCE)


def tabulate_waits(waits: pd.DataFrame) -> str:
    """Return a table of the waits, and how far the foretold mean is from the measured one."""
    rows = [f"{name:<10}{waits[name].mean():6.1f} s{waits[name].quantile(0.9):8.1f} s" for name in waits]
    apart = waits["foretold"].mean() / waits["advised"].mean() - 1
    last = f"foretold mean wait {apart:+.1%} from the advised one; all {len(waits)} jobs ran to their ends"
    return "\n".join([f"{'wait':<10}{'mean':>8}{'p90':>10}", *rows, last])
