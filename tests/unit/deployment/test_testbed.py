"""The Slurm test cluster: one command starts it, one ends it, and where it cannot be, one line says why."""

import subprocess
import sys
from pathlib import Path

import pytest

from deployment.slurm import accounting
from deployment.slurm import testbed as module
from deployment.slurm.accounting import Accounts, declare_accounts, read_accounts, why_no_accounting
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


@pytest.mark.slow
@pytest.mark.skipif(bool(why_no_testbed() or why_no_accounting()), reason=why_no_testbed() or why_no_accounting())
def test_a_cluster_with_accounting_knows_accounts_qos_and_partitions_of_gpu_types(tmp_path):
    folder = tmp_path / "cluster"
    users = {"root": ["speech", "vision"]}
    accounts = Accounts({"urgent": "priority=100"}, {"vision": "fairshare=3", "speech": ""}, users)

    def ask(*words):
        return subprocess.run(words, env=found.environment, capture_output=True, text=True).stdout.split()

    try:
        found = start_testbed(folder, num_nodes=3, num_gpus=2, gpu_types=("v100", "a100"), accounts=accounts)
        assert find_testbed(folder) == found
        assert ask("sinfo", "-h", "-o", "%P|%N|%G") == [
            "main*|n[0-1]|gpu:v100:2",
            "main*|n2|gpu:a100:2",
            "v100|n[0-1]|gpu:v100:2",
            "a100|n2|gpu:a100:2",
        ]
        shares = ask("sacctmgr", "-nP", "show", "assoc", "where", "user=root", "format=account,user,fairshare,qos")
        assert {"vision|root|1|normal,urgent", "speech|root|1|normal,urgent"} <= set(shares)
        assert ask("sbatch", "--account=nobody", "--wrap", "true") == []  # Slurm refuses it
        script = ["--output=/dev/null", "--wrap", "true"]
        assert ask("sbatch", "--parsable", "--gres=gpu:1", "--partition=a100", "--qos=urgent", *script) == ["1"]
        expected = 7 + bool(found.rest)  # munged, mariadbd, slurmdbd, slurmctld, and three slurmd
        wanted = ["speech|urgent|a100|COMPLETED"]
        wait_for(lambda: ask("sacct", "-nXP", "-j", "1", "--format=account,qos,partition,state") == wanted)
        with pytest.raises(MurmurationError, match=r"add account vision parent=nobody: .*"):
            declare_accounts(Accounts(accounts={"vision": "parent=nobody"}), found.environment)
    finally:
        ended = stop_testbed(folder)
    assert ended == expected
    assert not folder.exists()
    assert daemons_of(folder) == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("qos: {urgent: priority=1}\nuser: {}\n", r"'user' is not understood; it must have qos, accounts, users"),
        ("users: {root: vision}\n", r"'users' is not understood; .* of a user the list of accounts"),
        ("- 1\n", r"'\?' is not understood"),
        ("qos: {", r"cannot be read"),
    ],
)
def test_a_declaration_of_another_form_is_refused(tmp_path, text, message):
    file = tmp_path / "accounts.yaml"
    file.write_text(text)
    with pytest.raises(MurmurationError, match=rf"accounts.yaml: {message}"):
        read_accounts(file)


def test_missing_programs_of_accounting_are_named_with_the_remedy(monkeypatch):
    monkeypatch.setattr(accounting, "PROGRAMS", ("slurmdbd_of_nobody",))
    assert why_no_accounting() == (
        f"no accounting: slurmdbd_of_nobody not found; install them: apt-get install -y {accounting.PACKAGES}"
    )


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
