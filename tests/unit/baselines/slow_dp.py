"""Reference implementations of sharing out GPUs by value."""

import itertools

import numpy as np

from envs.types import FloatArray


def sizes_of(row: FloatArray) -> list[int]:
    """List the sizes on which a job runs."""
    return [size for size, value in enumerate(row) if np.isfinite(value)]


def try_everything(values: FloatArray, capacity: int) -> float:
    """Find the largest sum of values by trying every choice of sizes that fits."""
    choices = itertools.product(*(sizes_of(row) for row in values))
    return max(
        sum(float(values[job, size]) for job, size in enumerate(choice))
        for choice in choices
        if sum(choice) <= capacity
    )


def recurrence(values: FloatArray, capacity: int) -> float:
    """Evaluate the paper's recurrence: P(j, K) = max over g of P(j - 1, K - g) + value_j(g)."""
    best = [0.0] * (capacity + 1)
    for row in values:
        best = [
            max((best[used - size] + float(row[size]) for size in sizes_of(row) if size <= used), default=-np.inf)
            for used in range(capacity + 1)
        ]
    return best[capacity]


def hull_slowly(row: FloatArray) -> list[int]:
    """Find the corners of the upper concave hull: the steepest step up from each corner, the longest of equals."""
    corners = sizes_of(row)[:1]
    while True:
        now = corners[-1]
        slopes = [((row[size] - row[now]) / (size - now), size) for size in sizes_of(row) if size > now]
        if not slopes or max(slopes)[0] <= 0:
            return corners
        corners.append(max(slopes)[1])


def hull_value(row: FloatArray, gpus: float) -> float:
    """Return the height of the hull at a number of GPUs, which may be fractional."""
    corners = hull_slowly(row)
    return float(np.interp(gpus, corners, [row[corner] for corner in corners]))


def fill_up_slowly(values: FloatArray, sizes: list[int], room: int) -> list[int]:
    """Repeat the step of largest gain that fits; of equals the lowest job's, then the smallest."""
    sizes = list(sizes)
    while True:
        steps = [
            (float(values[job, more] - values[job, now]), job, more)
            for job, now in enumerate(sizes)
            for more in sizes_of(values[job])
            if now < more <= now + room
        ]
        gain, job, more = max(steps, key=lambda step: (step[0], -step[1], -step[2]), default=(0.0, 0, 0))
        if gain <= 0:
            return sizes
        room -= more - sizes[job]
        sizes[job] = more
