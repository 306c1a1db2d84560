"""Units of the simulation (seconds, samples, GPU-seconds, gigabytes), identifiers, and array types."""

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

HOUR: Seconds = 3600.0
DAY: Seconds = 86400.0
