"""Parts that all scripts share: the command line, objects built from a config, errors in one line.

Hydra is used in this folder only. `launch.describe` turns configurations into typed descriptions of runs, which
everything else takes.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The project's packages come first, whatever else has their names. The working directory may hold the user's classes.
sys.path.insert(0, str(ROOT))
sys.path.append(os.getcwd())
# Matrices are small here, and the threads of NumPy's and SciPy's OpenBLAS spin before they sleep: 0.2 CPU-s per start.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from launch.help import answer_help  # noqa: E402

answer_help()  # the imports below take seconds

from launch.commands import command  # noqa: E402
from launch.inputs import RunInputs, build_inputs, build_schedulers  # noqa: E402

__all__ = ["ROOT", "RunInputs", "build_inputs", "build_schedulers", "command"]
