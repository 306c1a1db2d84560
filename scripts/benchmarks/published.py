"""Published simulators: their own inputs played here, and rounds of a minute under schedulers of the same names."""

from pathlib import Path

from benchmarks.decisions import rounds_per_second
from benchmarks.report import Report
from benchmarks.suite import SIZES, Suite
from benchmarks.timing import cpu_seconds
from envs.simulation import Simulator, run_episode
from murmuration.config.describe import compose_comparison
from murmuration.config.inputs import build_inputs, build_schedulers

# Experiment with the simulator's own input and rules, file, scheduler, simulator, and its CPU seconds.
INPUTS = (
    ("xval_muri", "traces/muri/trace3.csv.gz", "srtf", "Muri's simulator", 1.6),
    ("xval_gavel", "traces/gavel/minimize_makespan.trace", "max_min", "Gavel's simulator, 96 jobs", 0.62),
    ("xval_gavel", "traces/gavel/minimize_makespan.trace", "finish_time", "Gavel's simulator, 96 jobs", 2.25),
)
# Scheduler of the library, simulator with one of that name, and its rounds per CPU second with 160 jobs on 64 GPUs.
IN_ROUNDS = {
    "tiresias": ("Pollux' simulator", 85.0),
    "optimus": ("Pollux' simulator", 19.0),
    "pollux": ("Pollux' simulator", 0.6),
    "sia": ("Sia's simulator", 3.4),
    "gavel_max_min": ("Sia's simulator", 13.0),
}


def measure_published(report: Report, suite: Suite) -> None:
    """Time the same inputs where their files exist, then rounds, which have inputs of the same size only."""
    for experiment, file, name, other, theirs in INPUTS:
        path = Path(suite.data) / file
        if suite.data and path.exists():
            report.add("published", experiment, f"{name}, here", time_experiment(experiment, path, name), "CPU-s")
            report.add("published", experiment, f"{name}, {other}", theirs, "CPU-s")
        else:
            report.notes.append(f"published: {experiment} is left out, there is no {path}; data=<folder> says where")
    for name, (other, theirs) in IN_ROUNDS.items():
        if name in suite.schedulers:
            ours = rounds_per_second(suite.schedulers[name], SIZES[0], suite.rounds)
            report.add("published", SIZES[0], f"{name}, here", ours, "rounds/CPU-s")
            report.add("published", SIZES[0], f"{name}, {other}", theirs, "rounds/CPU-s")


def time_experiment(experiment: str, path: Path, name: str) -> float:
    """CPU seconds of one of an experiment's schedulers on its workload, without reading; the better of two runs."""
    run = compose_comparison([f"experiment={experiment}", f"++workload.path={path}"])
    inputs = build_inputs(run.problem)
    (workload,) = inputs.source.evaluation(run.split)

    def run_once() -> None:
        simulator = Simulator(workload, inputs.setup, inputs.seed)
        run_episode(build_schedulers(run.schedulers)[name], simulator)

    return cpu_seconds(run_once, 2)
