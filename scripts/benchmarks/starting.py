"""How long the first start after an installation takes, which compiles, and how long later ones."""

import os
import resource
import subprocess
import sys
import tempfile

from benchmarks.report import Report
from benchmarks.suite import Suite
from launch import ROOT

FIRST, LATER = 20.0, 1.0  # seconds
LIBRARIES = "import numba, scipy.linalg, gymnasium, pettingzoo, yaml"  # others', that any start imports
# As the scripts do it.
TELL = """
from envs.simulation.jit import on_first_compilation
on_first_compilation(lambda: print("compiling"))
"""
# A small episode in rounds: what a comparison of heuristics needs.
EPISODE = f"""{TELL}from benchmarks.worlds import Size
from benchmarks.scenarios import FULL
from baselines import Fifo
from envs.simulation import run_episode
run_episode(Fifo(), Size(8, 160).simulator(FULL), compiled=False)
"""
# One decision of all servers: what training needs besides.
DECISION = f"""{TELL}from benchmarks.worlds import Size
from benchmarks.snapshots import batch_of
batch = batch_of(Size(8, 160), 1)
batch.step(batch.observation["mask"][:, :, 0] * 0)
"""


def measure(report: Report, suite: Suite) -> None:
    """With an empty cache of compiled kernels where the suite asks for it, then with a full one; new processes each."""
    libraries = min(start(LIBRARIES, {})[0] for _ in range(suite.repeats))
    report.add("starting", "libraries", "importing those of others", libraries, "CPU-s")
    for what, source in (("episode", EPISODE), ("environment", DECISION)):
        with tempfile.TemporaryDirectory() as cache:
            where = {"NUMBA_CACHE_DIR": cache} if suite.fresh else {}
            first, told = start(source, where)
            if suite.fresh:
                report.add("starting", what, "first start", first, "CPU-s", most=FIRST)
                report.same(f"what the first start of {what} says", told, "compiling")
            later, told = min(start(source, where) for _ in range(suite.repeats))
            report.add("starting", what, "later start", later, "CPU-s", most=LATER)
            report.same(f"what a later start of {what} says", told, "")


def start(source: str, variables: dict[str, str]) -> tuple[float, str]:
    """CPU seconds of a new interpreter that runs a piece of source, and what it said."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'scripts')!r}]\n{source}"
    environment = {**os.environ, **variables}
    done = subprocess.run([sys.executable, "-c", lines], env=environment, check=True, stdout=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout.strip()
