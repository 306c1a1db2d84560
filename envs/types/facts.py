"""Facts about jobs from which their run times can be predicted."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from envs.types.units import FloatArray, IntArray

NUM_OUTCOMES = 32  # equally likely run times that stand for a predicted distribution


class JobFacts(NamedTuple):
    """Facts about jobs that are known when they are submitted, and how long they have run; one row for each job.

    Attributes:
        submit: float64[n], time of submission, in seconds.
        num_gpus: int64[n], requested GPUs.
        model: str[n], name of the model.
        tenant: str[n], virtual cluster or project; "" if unknown.
        user: str[n], the user; "" if unknown.
        name: str[n], the job's own name, which the jobs of a sweep share; "" if unknown.
        run_time: float64[n], seconds of work done, as they would take on the requested GPUs, consolidated, of the job's
            fastest type: the whole run time of an ended job, and so far of another one.
    """

    submit: FloatArray
    num_gpus: IntArray
    model: npt.NDArray[np.str_]
    tenant: npt.NDArray[np.str_]
    user: npt.NDArray[np.str_]
    name: npt.NDArray[np.str_]
    run_time: FloatArray

    def rows(self, which: npt.NDArray[np.bool_] | IntArray) -> "JobFacts":
        """Return some of the rows, chosen as in NumPy."""
        return JobFacts._make(column[which] for column in self)
