"""Random workloads like Rubick's traces, for choosing a scheduler's parameters without using the traces.

Each job is drawn from a seed and from the measurements of the public artifact: one of its seven models, a measured
placement and user plan, and a log-normal run time. Only three numbers come from the public traces: the median of run
times, their spread (sigma), and the offered loads.
"""

from collections.abc import Sequence

import numpy as np

from envs.performance.rubick.data import MeasuredRun
from envs.performance.rubick.measured import MeasuredModel, run_throughput
from envs.performance.rubick.model import RUBICK_NAMES
from envs.types import ClusterSpec, ExecutionPlan, FloatArray, JobSpec, MurmurationError, Seconds
from envs.workloads import Workload
from envs.workloads.distributions import Arrivals, LogNormal

MODELS = ("vit", "roberta", "bert_large", "t5", "gpt2_xl", "llama7b", "llama30b")
DURATIONS = LogNormal(median=8.0, sigma=4.0, low=0.1, high=4 * 3600.0)
"""Run times on the requested GPUs: half of the jobs run for seconds, one in a hundred for hours."""

ARRIVALS = Arrivals(cv=1.5, burst=0.2)
TUNED = 0.5  # share of users who choose the fastest plan measured on their GPUs; the others choose any


def draw_rubick_workload(
    measured: MeasuredModel,
    cluster: ClusterSpec,
    seed: Sequence[int],
    *,
    num_jobs: int = 400,
    load: float = 0.75,
    guaranteed: float = 0.0,
) -> Workload:
    """Draw a workload; equal seeds give equal workloads.

    Args:
        measured: measured placements and throughputs.
        cluster: the cluster, whose number of GPUs scales the load.
        seed: seed of all random choices.
        num_jobs: number of jobs.
        load: requested GPU-seconds, by users' plans, as a share of those available until the last submission.
        guaranteed: share of jobs that are guaranteed.

    Raises:
        MurmurationError: the load is not positive, or no plan was measured on the fewest nodes of its GPUs.
    """
    if not load > 0:
        raise MurmurationError(f"drawn workload: load is {load}; it must be positive")
    rng = np.random.default_rng(list(seed))
    asks = packed(measured, cluster.num_gpus)
    if not asks:
        raise MurmurationError("drawn workload: no plan was measured on as few nodes as it needs; read other profiles")
    models = sorted(asks)
    rows: list[tuple[str, MeasuredRun]] = []
    for number in rng.integers(len(models), size=num_jobs).tolist():
        rows.append((models[number], _asked(rng, asks[models[number]])))
    seconds = DURATIONS.sample(rng, num_jobs)
    submit = ARRIVALS.sample(rng, num_jobs, 1.0)
    gpus: FloatArray = np.array([float(sum(run.shares)) for _, run in rows])
    submit *= float(gpus @ seconds) / (load * cluster.num_gpus * max(submit[-1], 1e-9))
    promised = rng.random(num_jobs) < guaranteed
    columns = zip(rows, submit.tolist(), seconds.tolist(), promised.tolist(), strict=True)
    jobs = [
        _job(model, run, time, length, promise, cluster.num_gpus) for (model, run), time, length, promise in columns
    ]
    return Workload.of(jobs, name="drawn-" + "-".join(str(part) for part in seed))


def packed(measured: MeasuredModel, num_gpus: int) -> dict[str, dict[int, list[MeasuredRun]]]:
    """Measurements on the fewest nodes that hold the GPUs, by model and number of GPUs.

    Only sizes up to `num_gpus` whose fastest plan is faster than any plan on fewer GPUs: users request no others.
    """
    found: dict[str, dict[int, list[MeasuredRun]]] = {}
    for model in MODELS:
        runs = [run for run in measured.runs if run.model == RUBICK_NAMES.get(model, model)]
        fastest = 0.0
        for size in sorted({sum(run.shares) for run in runs}):
            here = [
                run for run in runs if sum(run.shares) == size and len(run.shares) == -(-size // measured.gpus_per_node)
            ]
            if here and size <= num_gpus and max(map(run_throughput, here)) > fastest:
                fastest = max(map(run_throughput, here))
                found.setdefault(model, {})[size] = here
    return found


def _asked(rng: np.random.Generator, by_size: dict[int, list[MeasuredRun]]) -> MeasuredRun:
    """Draw a user's request: any size, and its fastest plan or any."""
    sizes = sorted(by_size)
    runs = by_size[sizes[int(rng.integers(len(sizes)))]]
    best, anyhow = max(runs, key=run_throughput), runs[int(rng.integers(len(runs)))]
    return best if rng.random() < TUNED else anyhow


def _job(model: str, run: MeasuredRun, submit: Seconds, seconds: Seconds, guaranteed: bool, num_gpus: int) -> JobSpec:
    plan: ExecutionPlan = run.plan
    work = run_throughput(run) * seconds
    return JobSpec(0, submit, plan.num_gpus, work, model, 1, num_gpus, plan=plan, guaranteed=guaranteed)
