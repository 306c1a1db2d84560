"""Time of the first start after an installation, which compiles, and of later starts."""

import os
import resource
import subprocess
import sys
import tempfile

from benchmarks.report import Report
from benchmarks.suite import Suite
from murmuration.home import ROOT

MOST_FIRST, MOST_LATER, MOST_HELP = 20.0, 1.0, 1.0  # seconds
HELP = f"""import runpy, sys
sys.argv[1:] = ["--help"]
runpy.run_path({str(ROOT / "scripts" / "compare.py")!r}, run_name="__main__")
"""
# What a comparison imports before it reads its options.
COMMANDS = "import launch, murmuration.config.describe, murmuration.runs.comparing"
HASH = """import launch
from murmuration.config.describe import compose_comparison
from murmuration.config.inputs import build_inputs, find_hash
problem = compose_comparison(['task=full-64']).problem
find_hash(problem, build_inputs(problem), problem.task)
"""
LIBRARIES = "import numba, scipy, gymnasium, pettingzoo, yaml"  # third-party packages that any start imports
# As the scripts do it.
ANNOUNCE = """
from envs.simulation.compiled.jit import on_first_compilation
on_first_compilation(lambda: print("compiling"))
"""
# A small episode in rounds: what a comparison of heuristics needs.
EPISODE = f"""{ANNOUNCE}from benchmarks.worlds import FULL, Size
from baselines import Fifo
from envs.simulation import run_episode
run_episode(Fifo(), Size(8, 160).simulator(FULL), compiled=False)
"""
# One option in the placement environment: what training needs in addition.
DECISION = f"""{ANNOUNCE}from benchmarks.worlds import FULL, Size
import numpy as np
from benchmarks.worlds import WORKLOAD_MODELS
from envs.options import OptionBatch
from envs.performance import default_model
from envs.simulation import Setup
size = Size(8, 160)
batch = OptionBatch(Setup(size.cluster(), default_model(), FULL), WORKLOAD_MODELS, size.jobs)
batch.load(0, size.workload(), np.random.default_rng(0))
batch.options()
batch.step(np.zeros(1, np.int64))
"""


def measure_starting(report: Report, suite: Suite) -> None:
    """Time new processes: with an empty cache of compiled kernels if the suite asks for it, then with a full one."""
    libraries = min(time_start(LIBRARIES, {})[0] for _ in range(suite.repeats))
    report.add("starting", "libraries", "importing third-party packages", libraries, "CPU-s")
    for what, source, most in (("help", HELP, MOST_HELP), ("imports", COMMANDS, 0.0), ("task hash", HASH, 0.0)):
        spent = min(time_start(source, {})[0] for _ in range(suite.repeats))
        report.add("starting", what, "its time", spent, "CPU-s", most=most)
        report.add("starting", what, "relative to importing third-party packages", spent / libraries, "")
    for what, source in (("episode", EPISODE), ("environment", DECISION)):
        with tempfile.TemporaryDirectory() as cache:
            variables = {"MURMURATION_CACHE": cache} if suite.fresh else {}
            first, printed = time_start(source, variables)
            if suite.fresh:
                report.add("starting", what, "first start", first, "CPU-s", most=MOST_FIRST)
                report.same(f"what the first start of {what} prints", printed, "compiling")
            later, printed = min(time_start(source, variables) for _ in range(suite.repeats))
            report.add("starting", what, "later start", later, "CPU-s", most=MOST_LATER)
            report.same(f"what a later start of {what} prints", printed, "")


def time_start(source: str, variables: dict[str, str]) -> tuple[float, str]:
    """CPU seconds of a new interpreter that runs a piece of source, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'scripts')!r}]\n{source}"
    environment = {**os.environ, **variables}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # Python's default: a later start does not compile sources
    done = subprocess.run([sys.executable, "-c", lines], env=environment, check=True, stdout=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout.strip()
