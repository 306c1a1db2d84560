"""Check the program of elastic scaling against enumeration, and time it for a thousand jobs."""

import itertools
import time
from collections.abc import Callable

import numpy as np
import pandas as pd

from baselines.elastic_dp.optimizer import best_shares
from baselines.elastic_dp.scheduler import ElasticDp
from baselines.parts.scalability import Analyser, fewest_nodes
from envs.performance import PerformanceModel, TableModel, zoo
from envs.simulation import Scenario, Setup, Simulator
from envs.types import ClusterSpec, Configuration, FloatArray, JobSpec, NodeSpec, Seconds
from envs.workloads import Workload

NUM_JOBS, NUM_GPUS, MOST_GPUS = 1000, 8000, 64
REPETITIONS = 3  # of which the quickest counts: the machine does other things


def optimiser_table(
    seed: int, instances: int = 1000, num_jobs: int = NUM_JOBS, num_gpus: int = NUM_GPUS
) -> pd.DataFrame:
    """Count small instances that the program solves as well as enumeration, and time large ones in milliseconds.

    Args:
        seed: random seed of the instances.
        instances: number of small instances.
        num_jobs: jobs of the large instances, on up to 64 GPUs each, with the curves of the model zoo on V100.
        num_gpus: GPUs of the large instances, in nodes of eight.
    """
    rng = np.random.default_rng(seed)
    equal = sum(agrees(*small_instance(rng)) for _ in range(instances))
    values = zoo_curves(TableModel())
    chosen = values[rng.integers(0, len(values), num_jobs)]
    shares = best_shares(chosen, num_gpus)
    what = f"{num_jobs:,} jobs on {num_gpus:,} GPUs"
    return pd.DataFrame(
        [
            ("small instances solved as well as by trying everything", f"{equal} of {instances}"),
            (f"{what}: ms for the shares, sizes ruled out by the bound", _ms(lambda: best_shares(chosen, num_gpus))),
            (f"{what}: ms for the whole table", _ms(lambda: best_shares(chosen, num_gpus, prune=False))),
            (f"{what}: gap to the bound", f"{1 - shares.value / shares.bound:.1e}"),
            (
                f"{what}: ms for a whole decision, nodes included",
                f"{1000 * decision_time(seed, num_jobs, num_gpus):.0f}",
            ),
        ],
        columns=["what", "found"],
    )


def small_instance(rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Draw values of up to four jobs on up to six GPUs each, half of them rising, with gaps; and GPUs to share."""
    shape = int(rng.integers(1, 5)), int(rng.integers(2, 8))
    values = rng.integers(0, 30, shape).astype(np.float64)
    if rng.random() < 0.5:
        values.sort(axis=1)
    values[rng.random(shape) < 0.2] = -np.inf
    values[:, 0] = -np.inf
    values[~np.isfinite(values).any(axis=1), 1] = 1.0
    return values, int(np.isfinite(values).argmax(axis=1).sum() + rng.integers(0, 12))


def agrees(values: FloatArray, capacity: int) -> bool:
    """Whether no choice of sizes that fits has a larger sum, and the bound is at least this sum."""
    choices = itertools.product(*(np.flatnonzero(np.isfinite(row)).tolist() for row in values))
    jobs = np.arange(len(values))
    best = max(float(values[jobs, list(choice)].sum()) for choice in choices if sum(choice) <= capacity)
    shares = best_shares(values, capacity)
    return shares.value == best and int(shares.sizes.sum()) <= capacity and shares.bound >= best * (1 - 1e-12)


def zoo_curves(performance: PerformanceModel) -> FloatArray:
    """float64[num_models, 65]: scaling factors of the zoo's models that run on V100, at their best batch sizes."""
    cluster = ClusterSpec(tuple(NodeSpec("V100", 8) for _ in range(MOST_GPUS // 8)))
    nodes, analyser = fewest_nodes(cluster), Analyser()

    def factors(model: str) -> FloatArray:
        job = JobSpec(0, 0.0, 1, 1.0, model, 1, MOST_GPUS)
        found: FloatArray = analyser.analyse(
            job,
            cluster,
            nodes,
            lambda gpu_type, gpus, on, batch: performance.throughput(
                model, Configuration("V100", gpus, on, batch_size=batch)
            ),
        ).factor[0]
        return found

    curves = [factors(model) for model in zoo()]
    return np.array([curve for curve in curves if np.isfinite(curve[1])])


def decision_time(seed: int, num_jobs: int, num_gpus: int) -> Seconds:
    """Measure the seconds of the scheduler's decision when the second half of the jobs joins the running first half.

    The analysis of their models is not included: it happens once in the life of a cluster.
    """
    rng = np.random.default_rng(seed)
    models = ("resnet18", "resnet50", "transformer", "lm", "recommendation")
    drawn = rng.integers(0, len(models), num_jobs)
    jobs = [JobSpec(i, float(i >= num_jobs // 2), 1, 1e12, models[drawn[i]], 1, MOST_GPUS) for i in range(num_jobs)]
    cluster = ClusterSpec(tuple(NodeSpec("V100", 8) for _ in range(num_gpus // 8)))

    setup = Setup(cluster, TableModel(), Scenario(statistical_efficiency="every_sample"))

    def once() -> Seconds:
        simulator, scheduler = Simulator(Workload.of(jobs), setup), ElasticDp()
        scheduler.reset(cluster, simulator.rng)
        for view in simulator.rounds():
            began = time.perf_counter()
            allocation = scheduler.schedule(view)
            if view.time > 0:
                return time.perf_counter() - began
            simulator.apply(allocation)
        raise AssertionError("the second half of the jobs never came")

    return min(once() for _ in range(REPETITIONS))


def _ms(work: Callable[[], object]) -> str:
    """Time the fastest of some repetitions in milliseconds, after compilation."""
    times = []
    for _ in range(REPETITIONS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return f"{1000 * min(times):.1f}"
