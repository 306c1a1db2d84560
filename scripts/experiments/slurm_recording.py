"""Play the jobs of a recording of a real Slurm under `scheduler=slurm`, and compare starts and waits job by job.

The recording has whole seconds, within which the order of events is unknown. So the jobs are played several times, each
time with other parts of a second added to their submissions; how far these episodes differ from each other says how far
two recordings of the same jobs may differ.
"""

import itertools
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from baselines.slurm import Slurm
from envs.evaluation.files import write_whole
from envs.performance import IdealModel
from envs.simulation import Information, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, Constraints, FloatArray, JobSpec, MurmurationError, NodeSpec, Seconds, name_of_nodes
from envs.workloads import Workload
from envs.workloads.readers import SlurmTrace

GPU_TYPES = {"v100": "V100", "a100": "A100"}  # each has a partition of its name
NODE = re.compile(r"^NodeName=.* CPUs=(\d+) .*Gres=gpu:(\w+):(\d+)", re.MULTILINE)
# What scheduler=slurm is told beside the files. Jobs of the recording ask for no cores, so each has one on each node.
FORMS = {"ends": "grouped", "cores": "nodes"}


@dataclass(frozen=True)
class Recording:
    """A recording that `scripts/slurm_cluster.py record` made.

    Attributes:
        folder: with slurm.conf, assoc.txt, qos.txt and sacct.txt.
        jobs: in order of submission, at one sample for each GPU and second.
        starts: float64[num_jobs], from time 0.
        partitions: of the jobs.
    """

    folder: Path
    jobs: tuple[JobSpec, ...]
    starts: FloatArray
    partitions: tuple[str, ...]

    @property
    def cluster(self) -> ClusterSpec:
        """The nodes of slurm.conf."""
        found = NODE.findall((self.folder / "slurm.conf").read_text(encoding="utf-8"))
        nodes = [(name_of_nodes(GPU_TYPES[name], (name,)), int(gpus), float(cores)) for cores, name, gpus in found]
        return ClusterSpec(tuple(NodeSpec(*node) for node in nodes))

    @property
    def waits(self) -> FloatArray:
        """float64[num_jobs], from submission to start."""
        waits: FloatArray = self.starts - np.array([job.submit_time for job in self.jobs])
        return waits


def read_recording(folder: Path, clock: str) -> Recording:
    """Read a recording.

    Args:
        folder: of the recording.
        clock: the time that is time 0, as sacct prints it, from which PriorityCalcPeriod counts: slurmctld's start.
    """
    frame, _ = SlurmTrace(gpu_types=GPU_TYPES).read(folder / "sacct.txt", strict=True)
    table = pd.read_csv(folder / "sacct.txt", sep="|", dtype=str).set_index("JobID").loc[frame["id"]]
    seconds = {
        name: (pd.to_datetime(table[name]) - pd.Timestamp(clock)).dt.total_seconds() for name in ("Submit", "Start")
    }
    numbers = {name: number for number, name in enumerate(frame["id"])}
    jobs = []
    row: Any
    for number, row in enumerate(frame.itertuples()):
        submit = float(seconds["Submit"].iloc[number])
        job = JobSpec(
            number, submit, row.num_gpus, row.num_gpus * row.duration, "any", tenant=row.tenant, user=row.user
        )
        job = replace(job, qos=row.qos, nice=row.nice, name=row.id, constraints=Constraints(pools=(row.pool,)))
        late = max(row.time_limit, row.duration)  # Slurm ended one job some seconds after its limit
        begin = submit + row.begin_after if row.begin_after else 0.0
        after = re.sub(r"(?<=:)\d+", lambda found: str(numbers[found[0]]), row.dependency)
        jobs.append(replace(job, model="any", time_limit=late, begin_time=begin, dependency=after))
    return Recording(folder, tuple(jobs), np.array(seconds["Start"], np.float64), tuple(table["Partition"]))


def play_recorded_jobs(recording: Recording, scheduler: Slurm, seed: int) -> FloatArray:
    """Play the jobs with random parts of a second added to their times; return float64[num_jobs], their waits.

    Jobs of one second keep their order, which their ids tell.
    """
    seconds = np.array([job.submit_time for job in recording.jobs])
    drawn = np.random.default_rng(seed).random(len(seconds))
    parts = drawn[np.lexsort((drawn, seconds))]  # ascending within each second
    shifted = [
        replace(job, submit_time=job.submit_time + part, begin_time=job.begin_time + part if job.begin_time else 0.0)
        for job, part in zip(recording.jobs, parts, strict=True)
    ]
    order = sorted(range(len(shifted)), key=lambda job: shifted[job].submit_time)
    place = {job: at for at, job in enumerate(order)}
    jobs = [
        replace(
            shifted[job], id=at, dependency=re.sub(r"\d+", lambda f: str(place[int(f[0])]), shifted[job].dependency)
        )
        for at, job in enumerate(order)
    ]
    scenario = Scenario(restart_delay=0.0, information=Information("limit"))
    result = run_episode(scheduler, Simulator(Workload.of(jobs), Setup(recording.cluster, IdealModel(), scenario)))
    waits = np.empty(len(jobs))
    waits[order] = result.records["start_time"] - np.array([job.submit_time for job in jobs])
    return waits


def scheduler_of(recording: Recording, folder: Path, **forms: Any) -> Slurm:
    """Return `scheduler=slurm` with the recorded settings; writes the accounts as one file into a folder."""
    accounting = folder / "accounting.txt"
    texts = [(recording.folder / name).read_text(encoding="utf-8") for name in ("assoc.txt", "qos.txt")]
    write_whole(accounting, "".join(texts))
    return Slurm(conf=str(recording.folder / "slurm.conf"), accounting=str(accounting), **forms)


def pairs_in_order(recording: Recording, starts: FloatArray, others: FloatArray) -> float:
    """Return the share of pairs of one partition, of those not started in one second, that start in the same order."""
    same = total = 0
    for partition in sorted(set(recording.partitions)):
        jobs = np.flatnonzero(np.array(recording.partitions) == partition)
        one, two = (each[jobs][:, None] - each[jobs][None, :] for each in (starts, others))
        counted = np.triu(np.abs(one) >= 1.0, 1)
        same += int(np.count_nonzero(one[counted] * two[counted] > 0))
        total += int(counted.sum())
    return same / total


def compare_recordings(one: Recording, other: Recording) -> tuple[float, float]:
    """Compare two recordings of the same jobs: how far a real Slurm repeats itself.

    Returns:
        The share of pairs, of one partition and not started in one second, that start in the same order, and the mean
        wait of the other recording over that of the first.

    Raises:
        MurmurationError: the recordings have other jobs.
    """
    if [(job.num_gpus, job.user, job.qos) for job in one.jobs] != [(j.num_gpus, j.user, j.qos) for j in other.jobs]:
        raise MurmurationError(f"{other.folder}: its jobs are not those of {one.folder}; record both with one --seed")
    return pairs_in_order(one, one.starts, other.starts), float(other.waits.mean() / one.waits.mean())


@dataclass(frozen=True)
class RecordingComparison:
    """A recording beside several simulated episodes.

    Attributes:
        in_order: of each episode, the share of pairs that start in the recorded order.
        among_themselves: the same share of episodes with each other.
        wait_ratio: of each episode, its mean wait over the recorded one.
        jobs: a row for each job: its recorded wait, and the mean, shortest and longest simulated one.
    """

    in_order: FloatArray
    among_themselves: float
    wait_ratio: FloatArray
    jobs: pd.DataFrame

    def inside(self, margin: Seconds) -> float:
        """Return the share of jobs whose recorded wait is among the simulated ones, or within a margin of them."""
        frame = self.jobs
        near = frame["recorded"].between(frame["shortest"] - margin, frame["longest"] + margin)
        return float(near.mean())


def compare_recording(recording: Recording, scheduler: Slurm, episodes: int) -> RecordingComparison:
    """Play a recording several times, at least twice, and compare."""
    submits = np.array([job.submit_time for job in recording.jobs])
    waits = np.array([play_recorded_jobs(recording, scheduler, seed) for seed in range(episodes)])
    names = [job.name for job in recording.jobs]
    table = {"job": names, "partition": recording.partitions, "recorded": recording.waits}
    table |= {"simulated": waits.mean(0), "shortest": waits.min(0), "longest": waits.max(0)}
    starts = waits + submits
    return RecordingComparison(
        np.array([pairs_in_order(recording, recording.starts, each) for each in starts]),
        float(np.mean([pairs_in_order(recording, *pair) for pair in itertools.combinations(starts, 2)])),
        waits.mean(1) / recording.waits.mean(),
        pd.DataFrame(table),
    )
