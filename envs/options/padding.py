"""ListedOptions as arrays of fixed shapes, for interfaces that need them."""

import math

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from envs.episodes.candidates import Features
from envs.options.batch import ListedOptions, OptionBatch
from envs.types import IntArray, MurmurationError


def check_room(**room: int) -> None:
    """Check the numbers of options, or of other rows, that an observation has room for.

    Raises:
        MurmurationError: there is no room.
    """
    for name, count in room.items():
        if count < 1:
            raise MurmurationError(f"{name} is {count}; it must be at least 1")


def option_features_box(*shape: int) -> spaces.Box:
    """A space of features."""
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


def mask_box(count: int) -> spaces.Box:
    """A space of masks."""
    return spaces.Box(0, 1, (count,), np.int8)


def padded_rows(rows: Features, count: int) -> Features:
    """float32[count, num_columns]: the first rows, then zeros."""
    found = np.zeros((count, rows.shape[1]), np.float32)
    kept = rows[:count]
    found[: len(kept)] = kept
    return found


def padded_mask(shown: int, count: int) -> npt.NDArray[np.int8]:
    """int8[count]: 1 for the first `shown`."""
    return (np.arange(count) < shown).astype(np.int8)


def padded_indices(values: IntArray, count: int) -> npt.NDArray[np.int64]:
    """int64[count]: the first values, then -1."""
    found = np.full(count, -1, np.int64)
    kept = values[:count]
    found[: len(kept)] = kept
    return found


def job_rows(options: ListedOptions, places: IntArray) -> Features:
    """float32[len(places), job_features]: the job of each of these options; zeros for waiting."""
    rows = options.job_of[places]
    if not len(options.jobs):
        return np.zeros((len(places), options.jobs.shape[1]), np.float32)
    found: Features = np.where((rows >= 0)[:, None], options.jobs[np.maximum(rows, 0)], np.float32(0.0))
    return found


def most_jobs(batch: OptionBatch) -> int:
    """Return the most jobs that options can be about: the candidates, and one on each GPU."""
    return batch.num_candidates + batch.cluster.num_gpus


def joint_state(batch: OptionBatch, options: ListedOptions) -> Features:
    """float32[state_size]: nodes, jobs and the cluster, flat, for central critics."""
    parts = (options.nodes, padded_rows(options.jobs, most_jobs(batch)), options.cluster)
    return np.concatenate([part.ravel() for part in parts], dtype=np.float32)


def state_shapes(batch: OptionBatch) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the parts of `joint_state`, in their order."""
    spec = batch.spec
    return {
        "nodes": (batch.cluster.num_nodes, spec.node_features),
        "jobs": (most_jobs(batch), spec.job_features),
        "cluster": (spec.cluster_features,),
    }


def state_size(batch: OptionBatch) -> int:
    """Return the length of `joint_state`."""
    return sum(math.prod(shape) for shape in state_shapes(batch).values())
