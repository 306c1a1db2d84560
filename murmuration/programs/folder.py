"""The folder of a program search, in the form that OpenEvolve 0.4 and SkyDiscover read."""

import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from envs.evaluation.files import write_whole
from murmuration.config.choices import own_configs
from murmuration.config.describe import compose_comparison
from murmuration.config.errors import ChoiceError
from murmuration.programs.evaluator import FAILED

THRESHOLDS = (-1.0, -0.2)  # scores with which a program passes the stages 1 and 2; the first one has -0.2 to -0.7

INITIAL = '''\
# EVOLVE-BLOCK-START
class ShortestFirst:
    """Start the job with the least remaining time first, on the GPUs it requested; interrupt no running job."""

    def reset(self, cluster, rng):
        pass

    def schedule(self, view):
        allocation = view.allocation(keep_running=True)
        waiting = view.queued
        for job in waiting[view.remaining_time(waiting).argsort(kind="stable")]:
            allocation.pack(int(job))
        return allocation


# EVOLVE-BLOCK-END
'''

EVALUATOR = '''\
"""Evaluates programs with `murmuration evaluate-program`, in stages; for OpenEvolve and SkyDiscover.

One process of Murmuration stays alive between evaluations. SEED draws the workloads of this search: keep it from the
model and its programs, which may not know them.
"""

import atexit
import json
import os
import subprocess
import sys
import threading
import types

COMMAND = {command!r}
SEED = {seed}


def evaluate(program_path, stage=3):
    """Score a program: 0 is shortest remaining time first, 1 a lower bound that nothing reaches."""
    # OpenEvolve loads this file anew for each evaluation, so what is to stay is kept elsewhere.
    kept = sys.modules.setdefault("_murmuration_search", types.ModuleType("_murmuration_search"))
    lock = vars(kept).setdefault("lock", threading.Lock())
    with lock:
        process = vars(kept).get(os.getpid())
        if process is None or process.poll() is not None:
            command = [*COMMAND, "--seed", str(SEED)]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            vars(kept)[os.getpid()] = process
            atexit.register(process.stdin.close)
        process.stdin.write(json.dumps({{"program": os.path.abspath(program_path), "stage": stage}}) + "\\n")
        process.stdin.flush()
        found = json.loads(process.stdout.readline())
    artifacts = found.pop("artifacts")
    for framework in ("openevolve.evaluation_result", "skydiscover.evaluation.evaluation_result"):
        if framework in sys.modules:
            return sys.modules[framework].EvaluationResult(metrics=found, artifacts=artifacts)
    return {{**found, "artifacts": artifacts}}


def evaluate_stage1(program_path):
    """About 1 CPU-s."""
    return evaluate(program_path, 1)


def evaluate_stage2(program_path):
    """About 3 CPU-s."""
    return evaluate(program_path, 2)


def evaluate_stage3(program_path):
    """20 to 30 CPU-s."""
    return evaluate(program_path, 3)
'''

CONFIG = """\
# For OpenEvolve 0.4 (openevolve-run) and SkyDiscover (skydiscover-run); each ignores what only the other one knows.
max_iterations: 100
checkpoint_interval: 10
diff_based_evolution: true
diff_based_generation: true
max_code_length: 20000
llm:
  models:
    - name: gpt-5
      weight: 1.0
  temperature: 0.7
  timeout: 600
prompt:
  system_message: |
    You improve the scheduler of a GPU cluster that trains deep-learning models. Jobs arrive over time; the goal is a
    small mean job completion time (JCT). combined_score is 0 for shortest remaining time first and 1 for a lower bound
    that nothing reaches; {failed:g} means that the program failed.
    The program is one class with reset(cluster, rng), called once for each workload, and schedule(view), called
    whenever something happens. schedule returns an allocation: what runs from now on. A job that it leaves out does not
    run; a job that is moved, resized or stopped loses some time to restart.
    view: time, queued and running (job ids), num_gpus, min_gpus, max_gpus, submit_time, restart_delay (arrays by job
    id), free_gpus and capacity (by node), remaining_time(jobs) in seconds on the requested GPUs, remaining_work(jobs)
    in samples, attained_service(jobs) in GPU-seconds, placement(job).gpus of a running job as {{node: GPUs}},
    throughputs(job) as an array [GPU type, number of GPUs] in samples/s (0 where the job does not run),
    cluster.num_gpus, cluster.node_types and cluster.gpu_types.
    allocation = view.allocation(keep_running=True) begins with what runs now; allocation.pack(job, num_gpus=None,
    gpu_types=None, scatter=False) places a job on few nodes and returns whether there was room (num_gpus from min_gpus
    to max_gpus); allocation.stop(job) takes its GPUs away; allocation.free_gpus is what is left by node.
    NumPy and SciPy may be imported. There are no files, no network, no other processes, and no other sources of time.
evaluator:
  timeout: 900
  max_retries: 1
  cascade_evaluation: true
  cascade_thresholds: [{first}, {second}]
database:
  num_islands: 3
  population_size: 200
search:
  type: topk
"""


def write_search(folder: Path, options: Sequence[str]) -> list[str]:
    """Write the files of a search; return the commands that begin it.

    Args:
        folder: it is made, unless it is there and empty.
        options: the task and options of it, as on the command line.

    Raises:
        ChoiceError: the folder holds files, or there is no such task.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ChoiceError(f"{folder}: is there already; name a new folder")
    task, *changes = options
    with own_configs():
        compose_comparison([f"task={task}", *changes])  # raises an error for what does not exist
    command = [sys.executable, "-m", "murmuration", "evaluate-program", "-", "--task", task, *changes]
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "evaluator.py", EVALUATOR.format(command=command, seed=secrets.randbits(48)))
    write_whole(folder / "initial_program.py", INITIAL)
    first, second = THRESHOLDS
    write_whole(folder / "config.yaml", CONFIG.format(failed=FAILED, first=first, second=second))
    files = f"{folder / 'initial_program.py'} {folder / 'evaluator.py'} --config {folder / 'config.yaml'}"
    return [f"openevolve-run {files}", f"skydiscover-run {files} --search adaevolve"]
