"""What is looked up once per job."""

import numpy as np

from baselines.parts.submitted import SubmittedJobs
from envs.simulation import Simulator
from envs.types import JobSpec
from envs.workloads import Workload
from tests.conformance.worlds import HETEROGENEOUS, Curved


def rounds():
    """Rounds at which 2, 2 and then 4 jobs are known, of two models and three ranges; nothing ever runs."""
    specs = [
        JobSpec(0, 0.0, 2, 9.0, "any"),
        JobSpec(1, 0.0, 4, 9.0, "large", min_gpus=3, max_gpus=7),
        JobSpec(2, 5.0, 4, 9.0, "any", min_gpus=1, max_gpus=5),
        JobSpec(3, 5.0, 1, 9.0, "large"),
    ]
    simulator = Simulator(Workload.of(specs), HETEROGENEOUS, Curved())
    for view in simulator.rounds():
        yield view
        simulator.apply(view.allocation())


def test_arrays_are_what_the_view_says_of_each_job():
    submitted = SubmittedJobs()
    known = set()
    for view in rounds():
        submitted.look_up(view)
        known.add(len(submitted.table))
        jobs = np.arange(len(view.num_gpus))
        speed = submitted.speed(view, jobs)
        for job in jobs.tolist():
            least, most = int(view.min_gpus[job]), int(view.max_gpus[job])
            assert (speed[job, :, least : most + 1] == view.speed(job)[:, least : most + 1]).all()
            assert not speed[job, :, :least].any()
            assert not speed[job, :, most + 1 :].any()
            for kind in range(len(HETEROGENEOUS.gpu_types)):
                sizes = np.flatnonzero(speed[job, kind])
                assert submitted.least[job, kind] == (sizes[0] if sizes.size else 0)
                assert submitted.speed_at_least[job, kind] == speed[job, kind, submitted.least[job, kind]]
    assert known == {2, 4}


def test_jobs_of_one_model_share_a_table():
    submitted = SubmittedJobs()
    for view in rounds():
        submitted.look_up(view)
    assert submitted.table.tolist() == [0, 1, 0, 1]
    assert len(submitted.speeds) == 2
