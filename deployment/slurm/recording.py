"""A recording of what a real Slurm does on a test cluster: configuration, accounts, and records of short jobs."""

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deployment.slurm.accounting import Accounts
from deployment.slurm.testbed import SlurmTestbed, start_testbed, stop_testbed
from envs.evaluation.files import write_whole
from envs.types import MurmurationError, Seconds

TYPES = ("v100", "a100")
USERS = {"games": ["vision"], "man": ["vision"], "news": ["speech"], "mail": ["speech"], "daemon": ["text"]}
ACCOUNTS = Accounts(
    qos={"urgent": "priority=100 maxtresperuser=gres/gpu=8", "low": "maxjobsperuser=3"},
    accounts={"vision": "fairshare=3", "speech": "fairshare=1", "text": "fairshare=2"},
    users=USERS,
)
SETTINGS = """SchedulerParameters=bf_interval=2,bf_resolution=10,bf_window=60,bf_max_job_test=200,bf_continue
PriorityMaxAge=00:10:00
PriorityDecayHalfLife=00:30:00
PartitionName=v100 Nodes=n[0-3] PriorityJobFactor=10 MaxTime=00:10:00 State=UP Default=YES
PartitionName=a100 Nodes=n[4-7] PriorityJobFactor=5 MaxTime=00:10:00 State=UP"""
COLUMNS = (
    "JobID,User,Account,Partition,QOS,Priority,Submit,Eligible,Start,End,Elapsed,Timelimit,State,NNodes,NodeList,"
    "AllocTRES,SubmitLine"
)
GAP: Seconds = 1.65  # real time between submissions, on average
DRAINED = ("n0", "n1", "n6")  # nodes that outages take from the cluster
OUTAGE = (0.3, 0.6)  # when they are drained, and when they are back, as shares of the time of submissions
NEVER = ("DependencyNeverSatisfied", "JobHeldUser")  # jobs that wait for these are not waited for
LONGEST_WAIT: Seconds = 2400.0  # real time for all of them to end


@dataclass(frozen=True)
class RecordedJob:
    """A job of a recording: when it is submitted, in seconds from the first one, by whom, how, and for how long."""

    submit: Seconds
    user: str
    options: tuple[str, ...]
    seconds: int
    after: int = -1  # the earlier job for whose success it waits; -1 for none


def draw_recorded_jobs(count: int, seed: int) -> list[RecordedJob]:
    """Draw jobs of which Slurm's rules order the starts: sizes, partitions, QoS, limits, and a few that are held."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0.0, GAP * count, count)).tolist()
    jobs = []
    for number, submit in enumerate(times):
        gpus = int(rng.choice([1, 2, 4], p=[0.5, 0.3, 0.2]))
        nodes = int(rng.choice([1, 2], p=[0.85, 0.15])) if gpus == 4 else 1
        seconds = int(np.clip(rng.lognormal(3.6, 0.8), 5, 200))
        limit = max(1, -(-int(seconds * rng.uniform(1.05, 3.0)) // 60)) if rng.random() < 0.97 else 1
        options = [f"--partition={rng.choice(TYPES, p=[0.6, 0.4])}", f"--gres=gpu:{gpus}", f"--nodes={nodes}-{nodes}"]
        options += [f"--qos={rng.choice(['normal', 'urgent', 'low'], p=[0.7, 0.15, 0.15])}", f"--time={limit}"]
        options += [f"--nice={rng.integers(100, 3000)}"] if rng.random() < 0.1 else []
        options += [f"--begin=now+{rng.integers(20, 90)}"] if rng.random() < 0.05 else []
        after = int(rng.integers(max(0, number - 20), number)) if number and rng.random() < 0.06 else -1
        jobs.append(RecordedJob(submit, str(rng.choice(list(USERS))), tuple(options), seconds, after))
    return jobs


def record(folder: Path, out: Path, count: int = 200, seed: int = 0, *, outage: bool = False) -> None:
    """Start a test cluster with accounting, play jobs on it, save what it did, and end it.

    Args:
        folder: of the cluster; new or empty.
        out: where to save `slurm.conf`, `assoc.txt`, `qos.txt` and `sacct.txt`.
        count: the number of jobs; 200 take about ten minutes.
        seed: from which they are drawn.
        outage: whether some nodes are drained for a while; jobs on them run to their ends.

    Raises:
        MurmurationError: the cluster cannot be started, refuses a job, or has not ended all in time.
    """
    try:
        cluster = start_testbed(folder, num_nodes=8, num_gpus=4, gpu_types=TYPES, accounts=ACCOUNTS, settings=SETTINGS)
        play_recorded(cluster, draw_recorded_jobs(count, seed), OUTAGE if outage else ())
        out.mkdir(parents=True, exist_ok=True)
        config = cluster.config.read_text(encoding="utf-8").replace(str(cluster.folder), "/var/lib/slurm")
        write_whole(out / "slurm.conf", config)
        for name, command in (
            ("assoc.txt", ["sacctmgr", "-P", "show", "assoc"]),
            ("qos.txt", ["sacctmgr", "-P", "show", "qos"]),
            ("sacct.txt", ["sacct", "-aXP", f"--format={COLUMNS}"]),
        ):
            write_whole(out / name, _ask(command, cluster.environment))
    finally:
        stop_testbed(folder)


def play_recorded(cluster: SlurmTestbed, jobs: Sequence[RecordedJob], outage: Sequence[float] = ()) -> None:
    """Submit jobs at their times, drain `DRAINED` within an outage, and wait until all have ended.

    Raises:
        MurmurationError: Slurm refuses one, or some are still there after `LONGEST_WAIT`.
    """
    names: list[str] = []
    begun = time.monotonic()
    changes = [share * GAP * len(jobs) for share in outage]
    for job in jobs:
        if changes and job.submit >= changes[0]:
            state = "DRAIN" if len(changes) == len(outage) else "RESUME"
            update = ["scontrol", "update", f"NodeName={','.join(DRAINED)}", f"State={state}", "Reason=outage"]
            _ask(update, cluster.environment)
            del changes[0]
        time.sleep(max(0.0, begun + job.submit - time.monotonic()))
        depends = [f"--dependency=afterok:{names[job.after]}"] if job.after >= 0 else []
        how = ["--output=/dev/null", "--chdir=/", f"--uid={job.user}", *job.options, *depends]
        script = f"#!/bin/sh\nexec sleep {job.seconds}\n"
        names.append(_ask(["sbatch", "--parsable", *how], cluster.environment, script).strip())
    while left := _ask(["squeue", "-h", "-o", "%r"], cluster.environment).split():
        if all(reason in NEVER for reason in left):
            break
        if time.monotonic() > begun + LONGEST_WAIT:
            raise MurmurationError(f"{cluster.folder}: {len(left)} jobs have not ended within {LONGEST_WAIT:g} s")
        time.sleep(2.0)


def _ask(command: Sequence[str], environment: Mapping[str, str], given: str = "") -> str:
    done = subprocess.run(command, env=dict(environment), input=given, capture_output=True, text=True)
    if done.returncode:
        raise MurmurationError(f"{' '.join(command)}: {' '.join(done.stderr.split())[:300]}")
    return done.stdout
