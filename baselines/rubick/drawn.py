"""Workloads of Rubick's kind that are none of its traces: for choosing numbers of a scheduler honestly.

Everything that a job is comes from a seed and from the measurements that the public artifact ships: any of its seven
models, a placement and a plan of the user that were measured, and a run time from a log-normal. From the public traces
there are three numbers only: how long most jobs run (median), how unequal they are (sigma), and the offered loads.
"""

from collections.abc import Sequence

import numpy as np

from envs.performance.rubick_data import Measurement
from envs.performance.rubick_measured import MeasuredModel, speed
from envs.performance.rubick_model import ALIASES
from envs.types import ClusterSpec, ExecutionPlan, FloatArray, JobSpec, MurmurationError, Seconds
from envs.workloads import Workload
from envs.workloads.distributions import Arrivals, LogNormal

MODELS = ("vit", "roberta", "bert_large", "t5", "gpt2_xl", "llama7b", "llama30b")
DURATIONS = LogNormal(median=8.0, sigma=4.0, low=0.1, high=4 * 3600.0)
"""Run times on what the user asked for: half of the jobs run for seconds, one in a hundred for hours."""

ARRIVALS = Arrivals(cv=1.5, burst=0.2)
TUNED = 0.5  # share of users who name the fastest plan that was measured on their GPUs; the others name any


def drawn(
    measured: MeasuredModel,
    cluster: ClusterSpec,
    seed: Sequence[int],
    *,
    num_jobs: int = 400,
    load: float = 0.75,
    guaranteed: float = 0.0,
) -> Workload:
    """A workload; the same for the same seed.

    Args:
        measured: what runs, and how fast.
        cluster: whose GPUs the load is offered to.
        seed: of everything.
        num_jobs: how many.
        load: GPU-seconds asked for, by users' plans, as a share of what there is until the last submission.
        guaranteed: share of jobs that are guaranteed.

    Raises:
        MurmurationError: nothing was measured on so few nodes as its GPUs need, or a load that is not positive.
    """
    if not load > 0:
        raise MurmurationError(f"drawn workload: load is {load}; it must be positive")
    rng = np.random.default_rng(list(seed))
    asks = packed(measured, cluster.num_gpus)
    if not asks:
        raise MurmurationError("drawn workload: no plan was measured on as few nodes as it needs; read other profiles")
    models = sorted(asks)
    rows: list[tuple[str, Measurement]] = []
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


def packed(measured: MeasuredModel, num_gpus: int) -> dict[str, dict[int, list[Measurement]]]:
    """By model and GPUs, what was measured on the fewest nodes that hold so many GPUs.

    Only sizes up to `num_gpus`, and on which some plan is faster than any on fewer: nobody asks for others.
    """
    found: dict[str, dict[int, list[Measurement]]] = {}
    for model in MODELS:
        runs = [run for run in measured.runs if run.model == ALIASES.get(model, model)]
        fastest = 0.0
        for size in sorted({sum(run.shares) for run in runs}):
            here = [
                run for run in runs if sum(run.shares) == size and len(run.shares) == -(-size // measured.gpus_per_node)
            ]
            if here and size <= num_gpus and max(map(speed, here)) > fastest:
                fastest = max(map(speed, here))
                found.setdefault(model, {})[size] = here
    return found


def _asked(rng: np.random.Generator, by_size: dict[int, list[Measurement]]) -> Measurement:
    """What a user asks for: any size, and the fastest plan there or any."""
    sizes = sorted(by_size)
    runs = by_size[sizes[int(rng.integers(len(sizes)))]]
    best, anyhow = max(runs, key=speed), runs[int(rng.integers(len(runs)))]
    return best if rng.random() < TUNED else anyhow


def _job(model: str, run: Measurement, submit: Seconds, seconds: Seconds, guaranteed: bool, num_gpus: int) -> JobSpec:
    plan: ExecutionPlan = run.plan
    work = speed(run) * seconds
    return JobSpec(0, submit, plan.num_gpus, work, model, 1, num_gpus, plan=plan, guaranteed=guaranteed)
