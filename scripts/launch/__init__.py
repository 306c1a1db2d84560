"""What all scripts share: the command line, the world built from a config, errors in one line.

Hydra stops in this folder: what lies below it takes plain arguments.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Our own packages come first, whatever else has their names; the user's own classes may lie where they stand.
sys.path.insert(0, str(ROOT))
sys.path.append(os.getcwd())
# Matrices are small here, and the threads of NumPy's and SciPy's OpenBLAS spin before they sleep, 0.2 CPU-s a start.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from launch.command import command  # noqa: E402
from launch.world import World, build_schedulers, build_world  # noqa: E402

__all__ = ["ROOT", "World", "build_schedulers", "build_world", "command"]
