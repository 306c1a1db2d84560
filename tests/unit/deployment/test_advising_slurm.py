"""Advice to a real Slurm: it orders the jobs, is killed, and every value comes back."""

import json
import re
import signal
import subprocess
import sys

import pytest

from deployment.bridge import JOURNAL
from tests.unit.deployment.test_jobs import ROOT, wait_for

LIMITS = (7, 9, 5, 8, 6)  # minutes, of jobs that have opted in


def squeue(testbed):
    """Pending jobs by id: their order in the queue, and (priority, nice, comment)."""
    words = ["squeue", "--noheader", "--states=PENDING", "--sort=-p,i", "--format=%i|%Q|%y|%k"]
    text = subprocess.run(words, env=testbed.environment, capture_output=True, text=True, check=True).stdout
    rows = [line.split("|") for line in text.splitlines()]
    return {int(number): (int(priority), int(nice), comment) for number, priority, nice, comment in rows}


def submit(testbed, *options):
    words = ["sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp", "--gres=gpu:4", *options]
    done = subprocess.run([*words, "--wrap=sleep 1000"], env=testbed.environment, capture_output=True, text=True)
    return int(done.stdout)


@pytest.mark.slow
def test_the_queue_follows_the_order_and_a_kill_at_any_instant_loses_no_value_and_no_job(testbed, tmp_path):
    for _ in range(3):
        submit(testbed, "--time=60")
    waiting = [submit(testbed, f"--time={limit}", "--comment=murmuration") for limit in LIMITS]
    other = submit(testbed, "--time=1", "--nice=4")
    nice = submit(testbed, "--time=4", "--nice=3", "--comment=for murmuration, please")
    wanted = [number for _, number in sorted(zip((*LIMITS, 4), (*waiting, nice), strict=True))]
    wait_for(lambda: len(squeue(testbed)) == 7)
    first = squeue(testbed)
    words = [sys.executable, "scripts/advise.py", "scheduler=srtf", "interval=0.3", f"state={tmp_path / 'state'}"]
    words += ["cluster.groups=[{gpu_type:V100,num_nodes:3,num_gpus:4,cpu_cores:64,memory:20}]"]

    def advise(number, *options):
        run = [*words, f"hydra.run.dir={tmp_path / str(number)}", *options]
        return subprocess.Popen(
            run, cwd=ROOT, env=testbed.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def advised():
        return [number for number in squeue(testbed) if number in wanted] == wanted

    def changes():
        path = tmp_path / "state" / JOURNAL
        lines = path.read_text().splitlines() if path.exists() else []
        return sum(json.loads(line)["action"] == "nice" for line in lines)

    for number, count in enumerate((1, 4)):  # in the middle of changes
        adviser, before = advise(number, "act=true"), changes()
        wait_for(lambda before=before, count=count: changes() >= before + count)
        adviser.send_signal(signal.SIGKILL)
        adviser.communicate()
        restoring = advise(f"restored {number}".replace(" ", "_"), "restore=true")
        said, _ = restoring.communicate()
        assert restoring.returncode == 0, said
        assert squeue(testbed) == first, said
    adviser = advise("last", "act=true")
    wait_for(lambda: advised() or adviser.poll() is not None)
    assert squeue(testbed)[other][1] == 4
    refused = advise("second", "act=true", f"state={tmp_path / 'elsewhere'}")
    assert re.search("has claimed the cluster", refused.communicate()[0])
    adviser.send_signal(signal.SIGTERM)
    said, _ = adviser.communicate()
    assert "is set back to 3" in said
    assert squeue(testbed) == first
