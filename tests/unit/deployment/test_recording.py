"""Recordings of a real Slurm: the jobs that are drawn, and the recording that the project has."""

from pathlib import Path

import numpy as np

from deployment.slurm.recording import GAP, USERS, draw_recorded_jobs
from envs.workloads.readers import SlurmTrace

RECORDED = Path(__file__).parents[2] / "golden" / "slurm_22_05"


def test_drawn_jobs_are_the_same_for_a_seed_and_wait_only_for_earlier_ones():
    jobs = draw_recorded_jobs(200, seed=0)
    assert jobs == draw_recorded_jobs(200, seed=0) != draw_recorded_jobs(200, seed=1)
    assert all(job.after < number for number, job in enumerate(jobs))
    assert all(0 <= job.submit <= GAP * len(jobs) and job.user in USERS for job in jobs)
    words = {option.partition("=")[0] for job in jobs for option in job.options}
    assert words == {"--partition", "--gres", "--nodes", "--qos", "--time", "--nice", "--begin"}


def test_the_recording_is_one_of_these_jobs_and_is_read_as_a_trace():
    """Slurm gave each job the partition and the GPUs that it asked for, in its order."""
    jobs = draw_recorded_jobs(200, seed=0)
    frame, report = SlurmTrace(gpu_types={"v100": "V100", "a100": "A100"}).read(RECORDED / "sacct.txt", strict=True)
    drawn = [dict(option.split("=", 1) for option in job.options) for job in jobs]
    asked = frame["id"].astype(int).to_numpy() - 1
    assert frame["pool"].tolist() == [drawn[job]["--partition"] for job in asked]
    gpus = [int(drawn[job]["--gres"].split(":")[1]) * int(drawn[job]["--nodes"][0]) for job in asked]
    assert frame["num_gpus"].tolist() == gpus
    assert len(frame) + sum(report.skipped.values()) == 200
    assert len(frame) > 190
    assert set(np.unique(frame["qos"])) == {"normal", "urgent", "low"}
    assert (frame["dependency"] != "").sum() > 5
    assert (frame["begin_after"] > 10).sum() > 5
    config = (RECORDED / "slurm.conf").read_text(encoding="utf-8")
    assert "PriorityWeightFairshare=10000" in config
    assert "SlurmctldParameters" not in config
    assert all(name in (RECORDED / "assoc.txt").read_text(encoding="utf-8") for name in USERS)
