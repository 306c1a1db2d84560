"""`murmuration what-if` on a month of drawn jobs: seconds on the clock, and the memory of its largest process."""

import resource
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from benchmarks.report import Report
from benchmarks.suite import Suite
from envs.evaluation.files import write_whole
from envs.types import MurmurationError

NODES, GPUS, DAYS = 200, 8, 30
JOBS = {True: 100_000, False: 5_000}  # of a month, and of a twentieth of it
OPTIONS = ("--policy", "fifo", "--policy", "srtf", "--load", "1.05", "--limit-accuracy", "1")
SETTINGS = f"""NodeName=n[0-{NODES - 1}] CPUs=128 RealMemory=1000000 Gres=gpu:a100:{GPUS}
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
HEAD = "JobID|User|Account|Partition|Submit|Start|End|Elapsed|Timelimit|State|NNodes|AllocTRES"
BEGIN = datetime(2026, 3, 1)


def measure_what_if(report: Report, suite: Suite) -> None:
    """Answer with Slurm's policy and four alternatives, in a process of its own, as an operator would."""
    count = JOBS[suite.million]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_whole(folder / "jobs.txt", "\n".join([HEAD, *draw_month(count)]))
        write_whole(folder / "slurm.conf", SETTINGS)
        script = Path(__file__).resolve().parents[1] / "what_if.py"
        words = [sys.executable, str(script), "jobs.txt", "--slurm-conf", "slurm.conf", *OPTIONS]
        begun = time.monotonic()
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        spent = time.monotonic() - begun
    if done.returncode:
        raise MurmurationError(f"what-if: {done.stderr.strip()[-300:]}")
    label = f"{count:,} jobs on {NODES} nodes, Slurm's policy and four alternatives"
    report.add("what_if", label, "time", spent, "s")
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    report.add("what_if", label, "largest process", largest, "GiB")


def draw_month(count: int) -> list[str]:
    """Rows of sacct: random arrivals, one to 32 GPUs, run times whose demand is nine tenths of the cluster."""
    rng = np.random.default_rng(0)
    share = count / JOBS[True]
    submit = np.sort(rng.uniform(0.0, DAYS * 86400.0 * share, count))
    gpus = rng.choice([1, 2, 4, 8, 16, 32], p=[0.55, 0.12, 0.12, 0.15, 0.04, 0.02], size=count)
    seconds = rng.lognormal(0.0, 1.4, count)
    seconds *= 0.9 * NODES * GPUS * DAYS * 86400.0 * share / (seconds @ gpus)
    rows = []
    for number, (at, size, long) in enumerate(zip(submit, gpus, seconds, strict=True), start=1):
        start, elapsed = BEGIN + timedelta(seconds=int(at)), timedelta(seconds=max(1, int(long)))
        limit = timedelta(minutes=int(long * rng.uniform(1.1, 4.0) // 60) + 1)
        times = [f"{each:%Y-%m-%dT%H:%M:%S}" for each in (start, start, start + elapsed)]
        nodes = -(-int(size) // GPUS)
        given = f"gres/gpu:a100={size},node={nodes}"
        row = [number, f"u{rng.integers(60)}", "lab", "batch", *times, _span(elapsed), _span(limit)]
        rows.append("|".join(map(str, [*row, "COMPLETED", nodes, given])))
    return rows


def _span(span: timedelta) -> str:
    """A span as sacct writes it: days-hours:minutes:seconds."""
    minutes, seconds = divmod(span.seconds, 60)
    return f"{span.days}-{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}"
