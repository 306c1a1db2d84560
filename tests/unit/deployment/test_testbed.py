"""The Slurm test cluster: one command starts it, one ends it, and where it cannot be, one line says why."""

import subprocess
import sys
from pathlib import Path

import pytest

from deployment.slurm import testbed as module
from deployment.slurm.testbed import find_testbed, job_processes, start_testbed, stop_testbed, why_no_testbed
from envs.types import MurmurationError
from tests.unit.deployment.conftest import daemons_of
from tests.unit.deployment.test_jobs import wait_for


def name_of(pid):
    """Name of a process; empty if it has ended."""
    file = Path(f"/proc/{pid}/comm")
    return file.read_text().strip() if file.exists() else ""


@pytest.mark.skipif(bool(why_no_testbed()), reason=why_no_testbed())
def test_a_cluster_starts_runs_a_job_and_ends_without_a_trace(tmp_path):
    folder = tmp_path / "cluster"
    try:
        found = start_testbed(folder, num_nodes=2, num_gpus=4)
        assert find_testbed(folder) == found
        done = subprocess.run(
            ["sinfo", "-h", "-o", "%D %G"], env=found.environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == ["2", "gpu:4"]
        expected = 5 if found.rest else 4  # munged, slurmctld, two slurmd, and slurmrestd where it is installed
        with pytest.raises(MurmurationError, match=r"has a test cluster; end it first: make slurm-down"):
            start_testbed(folder)
        command = ["sbatch", "--gres=gpu:1", "--output=/dev/null", "--wrap", "sleep 1000"]
        subprocess.run(command, env=found.environment, capture_output=True, check=True)
        wait_for(lambda: {"sleep", "slurmstepd"} <= {name_of(pid) for pid in job_processes(folder)})
    finally:
        ended = stop_testbed(folder)
    assert ended == expected
    wait_for(lambda: not job_processes(folder))
    assert not folder.exists()
    assert daemons_of(folder) == ""
    assert stop_testbed(folder) == 0


def test_missing_programs_are_named_with_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "DAEMONS", ("slurmctld_of_nobody",))
    with pytest.raises(MurmurationError, match=r"slurmctld_of_nobody\b.* not found; install them: apt-get install"):
        start_testbed(tmp_path / "cluster")
    assert not (tmp_path / "cluster").exists()


def test_the_script_says_in_one_line_why_there_is_no_cluster(monkeypatch, capsys, repository_script):
    monkeypatch.setattr(module, "DAEMONS", ("slurmctld_of_nobody",))
    monkeypatch.setattr(sys, "argv", ["slurm_cluster.py", "up"])
    repository_script("slurm_cluster").main()
    assert capsys.readouterr().out.splitlines() == [why_no_testbed()]
