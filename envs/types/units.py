"""The units in which the world is told: seconds, samples, GPU-seconds, gigabytes; and the arrays that carry them."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Seconds: TypeAlias = float  # simulated time, from t = 0
Samples: TypeAlias = float  # training samples: images, sentences, steps of an agent
GpuSeconds: TypeAlias = float
Gigabytes: TypeAlias = float
JobId: TypeAlias = int  # index of a job in its workload, in order of submission
NodeId: TypeAlias = int  # index of a node in its cluster

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
