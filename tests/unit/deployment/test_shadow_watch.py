"""Shadow mode beside a real Slurm, whose users choose hostile names and whose squeue fails one time in ten.

`MURMURATION_SHADOW_MINUTES=30 pytest -s tests/unit/deployment/test_shadow_watch.py` watches for longer.
"""

import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from deployment.bridge import JOURNAL
from deployment.journal import read_journal
from tests.unit.deployment.test_jobs import ROOT, wait_for

MINUTES = float(os.environ.get("MURMURATION_SHADOW_MINUTES", "0.25"))
INTERVAL = 2.0 if MINUTES > 1 else 0.4  # seconds between looks
NAMES = (
    b"caf\xe9",
    b"x" * 1024,
    b"\xff\xfe\xc3",
    b'a\nb\tc"\\\x1b[2J',
    b"[/x][link=file:///etc/passwd]x[/link]",
    b"a|b|gres/gpu=9",
    "\u202e\u2028é\U0001f600".encode(),
    b"",
    b"-1",
    b"murmuration-0",
)
SIZES = (
    ["--gres=gpu:1"],
    ["--gres=gpu"],
    ["--nodes=2", "--gres=gpu:2"],
    ["--gpus-per-task=1", "--ntasks=2"],
    ["--gpus=3"],
    ["--gres=gpu:1", "--time=99999999999"],
    ["--gres=gpu:1", "--comment=murmuration/root.0f-0/0/1/n0=1"],
    ["--gres=gpu:1", b"--comment=\xff" + b"c" * 1000],
    ["--gres=gpu:1", "--array=0-2"],
    ["--nodes=1", "--gres=gpu:2", ":", "--nodes=1", "--gres=gpu:1"],
    ["--gres=gpu:1K"],  # of these Slurm makes a job that has failed
    ["--gres=gpu:99999999999"],
    ["--gres=gpu:4", "--nodes=9"],
    ["--nodes=1"],
)
SQUEUE = """#!/bin/sh
n=$(($(cat {folder}/count 2>/dev/null || echo 0) + 1))
echo $n > {folder}/count
case $n in
    *15) echo 'slurm_load_jobs error: \033[2J' >&2; exit 1;;
    *35) kill -SEGV $$;;
    *55) {squeue} "$@" | head -c 3000;;
    *75) echo '{{"errors": [{{"error": "Unable to contact slurm controller"}}], "jobs": []}}';;
    *95) printf '\\377\\000';;
    *5) exit 1;;
    *) date +%s > {folder}/began; {squeue} "$@" && echo $(cat {folder}/began) $(date +%s) >> {folder}/looks;;
esac
"""


def submit(testbed, rng, seconds):
    """Submit one job of somebody, which Slurm may refuse; let an earlier one come back or end."""
    user = ["--uid=nobody"] if rng.random() < 0.5 else []
    name, size = rng.choice(NAMES), rng.choice(SIZES)
    words = ["sbatch", "--parsable", *user, b"--job-name=" + name, "--output=/dev/null", "--chdir=/tmp", *size]
    script = f"#!/bin/sh\nsleep {seconds}\n".encode()
    done = subprocess.run(words, input=script, env=testbed.environment, capture_output=True)
    if rng.random() < 0.3 and (number := done.stdout.decode().strip()):
        other = str(rng.randint(max(int(number) - 9, 1), int(number)))
        again = rng.choice((["scontrol", "requeue", other], ["scontrol", "hold", other], ["scancel", other]))
        subprocess.run(again, env=testbed.environment, capture_output=True)


def gpu_jobs(testbed, looks):
    """Return the ids of all jobs with GPUs that could start, or ran, during three looks; Slurm keeps them for an hour.

    One such look may fail later on, when it asks for the nodes, and the last one may be interrupted.
    """
    text = subprocess.run(["squeue", "--json", "--states=all"], env=testbed.environment, capture_output=True).stdout
    jobs = json.loads(text.decode(errors="replace"))["jobs"]
    fields = ("tres_per_job", "tres_per_node", "tres_per_task")
    times = [tuple(map(int, line.split())) for line in looks.read_text().splitlines()]  # Slurm's are whole seconds, too
    wanted = set()
    for job in jobs:
        since = job["start_time" if job["array_job_id"] else "submit_time"]  # a task leaves its array when it starts
        since = max(since, job["eligible_time"]) if job["priority"] else math.inf  # a priority of 0: it is held
        until = job["end_time"] or math.inf
        during = sum(since < began and ended < until for began, ended in times)
        if during >= 3 and any(job[field] for field in fields):
            wanted.add(str(job["job_id"]))
    return wanted


def ask_slurm(testbed, *words):
    subprocess.run(words, env=testbed.environment, capture_output=True, check=True)


@pytest.mark.slow
def test_a_shadow_outlives_hostile_jobs_and_a_slurm_that_fails_and_sees_every_job(testbed, tmp_path):
    real = shutil.which("squeue")
    wrapper = tmp_path / "squeue"
    wrapper.write_text(SQUEUE.format(folder=tmp_path, squeue=real))
    wrapper.chmod(0o755)
    words = [sys.executable, "scripts/shadow.py", "scheduler=fifo", f"interval={INTERVAL}"]
    words += ["cluster.groups=[{gpu_type:V100,num_nodes:3,num_gpus:4,cpu_cores:64,memory:20}]"]
    words += [f"hydra.run.dir={tmp_path / 'run'}"]
    path = f"{tmp_path}:{os.environ['PATH']}"
    out, looks, rng, seconds = tmp_path / "out.txt", tmp_path / "looks", random.Random(64), 6.0 + 6.0 * INTERVAL
    with out.open("wb") as file:
        shadow = subprocess.Popen(
            words, cwd=ROOT, env={**testbed.environment, "PATH": path}, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        wait_for(lambda: b"watching" in out.read_bytes() or shadow.poll() is not None)
        ask_slurm(testbed, "sbatch", "--gres=gpu:1", "--output=/dev/null", "--chdir=/tmp", "--wrap=sleep 5")
        compiled = lambda: looks.exists() and looks.read_text().count("\n") > 2  # noqa: E731
        wait_for(lambda: shadow.poll() is not None or compiled())
        submissions = round(30.0 * MINUTES / INTERVAL)
        for number in range(submissions):
            assert shadow.poll() is None, out.read_text()
            submit(testbed, rng, seconds)
            time.sleep(rng.expovariate(1.0 / (2.0 * INTERVAL)))
            if number == int(0.3 * submissions):
                ask_slurm(testbed, "scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=test")
            elif number == int(0.5 * submissions):
                ask_slurm(testbed, "scontrol", "update", "NodeName=n2", "State=RESUME")
            elif number == int(0.6 * submissions):
                testbed.end_daemon("slurmctld", crash=True)
                time.sleep(3.0 * INTERVAL)
                testbed.start_control()
        time.sleep(4.0 * INTERVAL)
        wanted = gpu_jobs(testbed, looks)
        shadow.send_signal(signal.SIGINT)
        shadow.wait(60)
    finally:
        shadow.kill()
        shadow.wait()
    said = out.read_text(encoding="utf-8")  # which a byte of a name that is no UTF-8 would end
    lines = list(read_journal(tmp_path / "run" / JOURNAL))
    seen = {line["job"] for line in lines if (line["phase"], line["action"]) == ("observed", "job")}
    left_out = {line["job"] for line in lines if line["action"] == "read"}
    print(
        f"\n{len(wanted)} jobs with GPUs, {len(seen & wanted)} seen, {len(left_out)} left out\n{said.splitlines()[-1]}"
    )
    assert "Traceback" not in said
    assert all(line.isprintable() for line in said.splitlines())
    assert wanted
    assert wanted <= seen | left_out
    assert len(seen) > 5
    assert re.search(r"\d+ rounds, .*, [1-9]\d* looks failed", said.splitlines()[-1])
    assert any(line["action"] == "look" and line["phase"] == "carried out" for line in lines)
