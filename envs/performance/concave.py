"""Concave throughputs: with the same samples per GPU, the throughput per GPU never rises with the number of GPUs.

Plain data parallelism has no reason to step faster on more GPUs: each computes as much as before, and more of them
communicate. Measured tables jump all the same. Gavel's lm on V100 has 1, 2.04, 1.71 and 7.68 times the throughput of
one GPU on 1, 2, 4 and 8 GPUs of a node, which would make 8 GPUs 4.5 times as fast as 4. Three steps remove such jumps:

1. Measurements that contradict the others are left out (`consistent`): the most are kept among which no step of more
   GPUs or nodes is faster by more than `NOISE`. Of lm on V100 the one on 4 GPUs goes. What is left out is not played,
   and `scripts/validate_performance.py` lists it.
2. Smaller contradictions are noise, and pooled (`pool_violators`): both steps get the geometric mean of their times.
   This is the least-squares fit of the logarithms in which no step is faster. The step on one GPU, to which all others
   are compared, keeps its time.
3. Between and beyond the measured points, a step takes at least as long as that of fewer GPUs, up to `NOISE`
   (`slowest_so_far`).

This is done for models of weak scaling, which keep their samples per GPU when GPUs are added. All of Gavel's are. The
other models are measured at fixed global batches, so that step 2 would compare measured points with extrapolated ones,
and models of sharded plans can use plans on more GPUs that one node cannot hold. `performance=gavel` keeps Gavel's raw
values.
"""

from itertools import combinations

import numpy as np

from envs.performance.step_time import StepPoints, StepTime
from envs.performance.zoo import ModelProfile
from envs.types import BoolArray, FloatArray, IntArray

NOISE = 0.03  # relative; a step of more GPUs that is faster by more contradicts the others


def is_concave(profile: ModelProfile) -> bool:
    """Return whether a model's throughputs are made concave: weak scaling by plain replicas."""
    return profile.scaling == "weak" and profile.plans == "dp"


def consistent(points: StepPoints) -> BoolArray:
    """Return bool[num_points]: which measured steps do not contradict each other, as many as possible.

    At the same samples per GPU, a step on at least as many GPUs and nodes takes no less time, up to `NOISE`. Among
    equally many steps, those that took least are kept, since what disturbs a measurement makes it slow. The step on one
    GPU is always kept.
    """
    keep = np.ones(len(points), bool)
    for batch in np.unique(points.local_batch):
        rows = np.flatnonzero(points.local_batch == batch)
        n, nodes, seconds = points.num_gpus[rows], points.num_nodes[rows], points.seconds[rows]
        larger = (n[:, None] <= n) & (nodes[:, None] <= nodes)
        contradicts = larger & (seconds < seconds[:, None] * (1 - NOISE))
        alone, several = np.flatnonzero(n == 1).tolist(), np.flatnonzero(n > 1).tolist()
        best: tuple[int, float, tuple[int, ...]] = (0, 0.0, ())
        for count in range(len(several) + 1):
            for chosen in combinations(several, count):
                kept = [*alone, *chosen]
                if not contradicts[np.ix_(kept, kept)].any():
                    best = max(best, (count, -float(np.log(seconds[list(chosen)]).sum()), chosen))
        keep[rows[[place for place in several if place not in best[2]]]] = False
    return keep


def pool_violators(points: StepPoints, gpus_per_node: int) -> StepPoints:
    """Return measured steps in which no step of more GPUs is faster at the same samples per GPU.

    Points are compared with each other on the fewest nodes, and with each other on one node per GPU. Other placements
    keep their times.

    Args:
        points: measured steps.
        gpus_per_node: of the machines in the measurement.
    """
    n, nodes = points.num_gpus, points.num_nodes
    packed = nodes == np.ceil(n / gpus_per_node)
    spread = (nodes == n) & (n > 1) & ~packed
    seconds = points.seconds.copy()
    for family in (packed, spread):
        for batch in np.unique(points.local_batch[family]):
            chosen = np.flatnonzero(family & (points.local_batch == batch))
            chosen = chosen[np.argsort(n[chosen], kind="stable")]
            several = chosen[n[chosen] > 1]
            seconds[several] = np.exp(ascending_fit(np.log(seconds[several])))
            alone = (n == 1) & (points.local_batch == batch)
            if alone.any():
                seconds[several] = np.maximum(seconds[several], points.seconds[alone].max())
    return StepPoints(n, nodes, points.local_batch, seconds)


def ascending_fit(values: FloatArray) -> FloatArray:
    """Return the sequence of least squared distance that never falls (pool adjacent violators).

    Args:
        values: float64[k].
    """
    blocks: list[tuple[float, int]] = []  # mean and length
    for value in values.tolist():
        mean, length = value, 1
        while blocks and blocks[-1][0] > mean:
            before, others = blocks.pop()
            mean = (before * others + mean * length) / (others + length)
            length += others
        blocks.append((mean, length))
    return np.repeat([mean for mean, _ in blocks], [length for _, length in blocks])


def slowest_so_far(surface: StepTime, local_batch: FloatArray, max_gpus: int, nodes: IntArray) -> FloatArray:
    """Return float64[max_gpus, len(nodes)]: seconds per step, at most `NOISE` below fewer GPUs' at the same batch.

    Row n - 1 is for n GPUs. Going down a column, GPUs are added to new nodes first, up to the column's number.

    Args:
        surface: step times by the surface.
        local_batch: float64[max_gpus], samples per GPU of each row.
        max_gpus: number of rows.
        nodes: node counts of the columns, ascending.
    """
    counts = np.arange(1, max_gpus + 1)[:, None]
    on = np.minimum(nodes, counts)
    seconds = np.zeros((max_gpus, len(nodes)))
    for batch in np.unique(local_batch):
        rows = local_batch == batch
        last = int(np.flatnonzero(rows)[-1]) + 1
        own = surface.seconds(counts[:last], on[:last], batch)
        slowest = np.maximum.accumulate(own, axis=0) * (1 - NOISE)
        seconds[rows] = np.maximum(own, slowest)[rows[:last]]
    return seconds
