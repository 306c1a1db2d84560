"""Offsets from outside that shift Starling's decisions, job by job: zero everywhere is Starling itself, to the bit."""

from typing import NamedTuple

import numpy as np

from envs.types import FloatArray, MurmurationError


class Offsets(NamedTuple):
    """What another decision maker adds to Starling's own view of the jobs.

    Each array covers at least the submitted jobs, by job; an array of length 0 stands for zeros. The forms are those of
    a prototype in which agents bid for jobs. They are chosen so that a zero changes no bit: each is the exponent of a
    factor. A bid for a batch size is not among them: it changes no decision about GPUs.

    Attributes:
        priority: float64[num_jobs], added to the logarithm of the key by which jobs are ordered; a job with a lower key
            comes first.
        size: float64[num_jobs]. The size at the knee is multiplied by exp of it. The result is the nearest corner of
            the job's scaling curve, the smaller of two that are equally near.
        growth: float64[num_jobs]. The weight of a job is multiplied by exp of it when GPUs left over are given out.
        restart: float64[num_jobs]. The seconds that a change is assumed to cost the job are multiplied by exp of it,
            also in the forecast.
        cores: float64[num_jobs]. The weight of the job's shortage of cores and memory is multiplied by exp of it: in
            its own choice of GPUs, and where other jobs would take cores and memory from it.
        affinity: float64[num_jobs, num_nodes]. The value of GPUs on a node for a job is multiplied by exp of it, for
            GPUs on several nodes by exp of their mean; -inf forbids a node to a job that does not run there.
    """

    priority: FloatArray
    size: FloatArray
    growth: FloatArray
    restart: FloatArray
    cores: FloatArray
    affinity: FloatArray

    def check(self, num_jobs: int, num_nodes: int) -> None:
        """Check shapes and values.

        Args:
            num_jobs: submitted jobs.
            num_nodes: nodes of the cluster.

        Raises:
            MurmurationError: an array is too short or has another width, or a value is not a number or infinite.
        """
        for name, array in zip(self._fields, self, strict=True):
            shape = (num_jobs, num_nodes) if name == "affinity" else (num_jobs,)
            if len(array) == 0:
                continue
            if array.ndim != len(shape) or len(array) < num_jobs or array.shape[1:] != shape[1:]:
                raise MurmurationError(
                    f"offsets: {name} has shape {array.shape}; give {shape}, or an array without jobs"
                )
            if np.isnan(array).any() or (array == np.inf).any() or (name != "affinity" and np.isneginf(array).any()):
                raise MurmurationError(f"offsets: {name} is not finite everywhere; give finite numbers")


_NONE = np.zeros(0)
NO_OFFSETS = Offsets(_NONE, _NONE, _NONE, _NONE, _NONE, np.zeros((0, 0)))
