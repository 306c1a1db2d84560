"""Jobs that are advised on a test cluster of Slurm, and the comparison of their waits."""

import pandas as pd
import pytest

from deployment.slurm.testbed import why_no_testbed
from experiments.slurm_advice import GPUS, LIMIT, compare_advice, draw_advised_jobs, tabulate_waits


def test_advised_jobs_have_opted_in_and_fit_a_node():
    jobs = draw_advised_jobs(50, seed=1)
    assert [job.submit for job in jobs] == sorted(job.submit for job in jobs)
    for job in jobs:
        comment, gres, _, limit = job.options
        minutes, seconds = map(int, limit.removeprefix("--time=").split(":"))
        assert comment == "--comment=murmuration"
        assert int(gres.rpartition(":")[2]) <= GPUS
        assert 60 * minutes + seconds == LIMIT * job.seconds


def test_the_table_says_how_far_the_foretold_wait_is_from_the_measured_one():
    waits = pd.DataFrame({"alone": [8.0, 12.0], "foretold": [4.0, 5.0], "advised": [4.0, 6.0]})
    printed = tabulate_waits(waits).splitlines()
    assert printed[1].split() == ["alone", "10.0", "s", "11.6", "s"]
    assert printed[-1].startswith("foretold mean wait -10.0% from the advised one; all 2 jobs")


@pytest.mark.exhaustive
@pytest.mark.skipif(bool(why_no_testbed()), reason="needs a test cluster")
def test_the_same_jobs_come_alone_and_with_advice(tmp_path):
    waits = compare_advice(tmp_path / "clusters", tmp_path / "out", count=6, seed=0)
    assert len(waits) == 6
    assert (waits >= -1.0).all(axis=None)
    assert (tmp_path / "out" / "jobs.csv").exists()
