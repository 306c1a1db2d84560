"""The main figures of sampling-based matching on random instances: gap, running time, fairness.

Paper: within 2.04 % of the optimal mean JCT, orders of magnitude faster, high fairness (TPDS'24, abstract; doi
10.1109/TPDS.2024.3390109). Its instances, baselines and tables are not public; see `instances` for ours.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from baselines.sampling_matching.categories import Categories
from baselines.sampling_matching.kernels import expected_throughputs, valuation
from baselines.sampling_matching.problem import compute_completion_seconds
from baselines.sampling_matching.search import Sampling, best_matching
from envs.evaluation.files import write_frame
from envs.pictures.texts import TaskText, wide_console
from envs.types import IntArray
from experiments.performance.reproduction import Reproduction
from papers.sampling_matching.clearing import clear_by_assignment, clear_by_paths, clear_by_prices
from papers.sampling_matching.exact import certified_optimum, every_split
from papers.sampling_matching.experiment import (
    CERTIFIED,
    COUNTS,
    LARGE_SIZES,
    TIMED,
    Experiment,
    by_size,
    certified_rows,
    count_table,
    fairness_table,
    large_table,
    slow_table,
    time_table,
)
from papers.sampling_matching.instances import (
    FAST_LINKS,
    LONGEST_HOURS,
    SHORTEST_HOURS,
    SLOW_LINKS,
    THROUGHPUT_NOISE,
    Instance,
)
from papers.sampling_matching.whole_samples import step_seconds

PAPER_GAP = 2.04  # percent
ASSIGNMENTS = 50  # each cleared by three algorithms
AGREEING = 1e-9  # relative
_CLEARING_METHODS = (clear_by_prices, clear_by_assignment, clear_by_paths)
CERTIFIED_TWICE = 5  # instances whose optimum by every split is compared with HiGHS


def jct_gap(
    data: str, folder: Path, instances: int = 100, seed: int = 0, sampling: Sampling | None = None
) -> Reproduction:
    """Report the gap of mean JCT, running time and fairness of sampling-based matching.

    Args:
        data: not used: throughputs come from the project's own tables.
        folder: folder for `gaps.csv` and one file per table.
        instances: random instances of each certified size; larger sizes use a tenth of them, timings a thirtieth.
        seed: seed of instances and samples.
        sampling: the evaluated sampling; its defaults if None.
    """
    few = max(instances // 10, 2)
    fewer = max(few // 3, 2)
    steps = instances * (len(CERTIFIED) + 1) + few * len(LARGE_SIZES) + fewer * len(TIMED) + len(COUNTS) + 3
    columns = (TaskText("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=wide_console(), transient=True) as bar:
        task = bar.add_task("", total=steps)
        experiment = Experiment(
            sampling or Sampling(), instances, seed, lambda done: bar.update(task, advance=1, description=done)
        )
        rows = certified_rows(experiment)
        tables = [
            (f"Gap to the certified optimum, mean (max) in %; paper: {PAPER_GAP} ({FAST_LINKS.name})", by_size(rows)),
            ("Larger sizes: gap to the best lower bound in %, mean over instances", large_table(experiment, few)),
            ("CPU seconds to decide, and gap of sampling to all categories in %", time_table(experiment, fewer)),
            ("Jain's index of JCT over JCT on equal shares; a third party's figure: 0.958-0.964", fairness_table(rows)),
            (f"Where communication dominates ({SLOW_LINKS.name}): gap in %", slow_table(experiment)),
            ("200 jobs on 1,000 GPUs of three types: method both, by number of samples", count_table(experiment)),
        ]
        notes = [
            *_settings(experiment),
            assignment_note(experiment),
            certificate_note(experiment),
            rounding_note(experiment),
        ]
    folder.mkdir(parents=True, exist_ok=True)
    write_frame(folder / "gaps.csv", rows)
    for number, (_, frame) in enumerate(tables, start=1):
        write_frame(folder / f"table_{number}.csv", frame)
    return Reproduction(tables, notes)


def assignment_note(experiment: Experiment) -> str:
    """Clear assignments by three algorithms and compare their welfare.

    Raises:
        AssertionError: the results differ.
    """
    worst = 0.0
    for number, instance in enumerate(experiment.each(6, 20, count=ASSIGNMENTS)):
        problem = instance.problem
        sizes = Categories(problem.least, problem.most, problem.assigned).draw(experiment.rng(number), 1)[0]
        values = np.empty(problem.present.shape)
        valuation(problem, sizes, expected_throughputs(problem, sizes), False, values)
        welfares = [way(values, sizes, problem.supply).welfare for way in _CLEARING_METHODS]
        worst = max(worst, max(welfares) / min(welfares) - 1.0)
    assert worst <= AGREEING, f"assignments cleared by three algorithms differ by {worst:.2g}"
    experiment.tick("assignments")
    return (
        f"{ASSIGNMENTS} assignments of 6 jobs on 20 workers, cleared by ascending prices, by exact assignment and by "
        f"shortest paths: largest relative difference {worst:.1e}"
    )


def certificate_note(experiment: Experiment) -> str:
    """Compare optima by every split with those of HiGHS.

    Raises:
        AssertionError: they contradict each other.
    """
    worst = 0.0
    for instance in experiment.each(4, 12, count=CERTIFIED_TWICE):
        found = certified_optimum(instance.problem)
        worth = every_split(instance.problem).worth
        assert found.bound <= worth * (1 + 1e-6) <= found.worth * (1 + 2e-6), f"{found} against {worth}"
        worst = max(worst, found.worth / worth - 1.0)
    experiment.tick("certificates")
    return (
        f"optima by every split and by HiGHS: {CERTIFIED_TWICE} of 4 jobs on 12 workers, largest difference {worst:.1e}"
    )


def rounding_note(experiment: Experiment) -> str:
    """Measure the cost of whole samples, where the model splits mini-batches into fractions."""
    losses = []
    for number, instance in enumerate(experiment.each(4, 12)):
        matching = best_matching(instance.problem, experiment.rng(number), experiment.sampling)
        whole = sum(_whole_seconds(instance, matching.counts, job) for job in range(instance.problem.num_jobs))
        losses.append(100.0 * (whole / compute_completion_seconds(instance.problem, matching.counts).sum() - 1.0))
    experiment.tick("whole samples")
    return (
        f"mini-batches in whole samples instead of fractions lengthen mean JCT by {np.mean(losses):.2f} % "
        f"(at most {np.max(losses):.1f} %) on {len(losses)} instances of 4 jobs on 12 workers"
    )


def _whole_seconds(instance: Instance, counts: IntArray, job: int) -> float:
    """A job's completion time with the best whole shares of its mini-batch."""
    problem = instance.problem
    throughputs = np.repeat(problem.throughputs[job, 0, 0], counts[job])
    batch = max(round(float(instance.batch[job])), 1)
    rounds = problem.work[job] / batch
    overhead = problem.overhead[job, min(len(throughputs), problem.overhead.shape[1] - 1)]
    return float(rounds * step_seconds(throughputs, batch) + overhead)


def _settings(experiment: Experiment) -> Sequence[str]:
    """Explain how to read the tables."""
    sampling = experiment.sampling
    return [
        "reconstruction: the paper's body is not public; instances, job order, skipped share and valuation are ours",
        f"instances: T4, P100 and V100 in random numbers, single workers differ by {THROUGHPUT_NOISE:.0%}; models of "
        f"the zoo at its throughputs; {SHORTEST_HOURS} to {LONGEST_HOURS} hours of work on one average worker, "
        f"log-uniform; seed {experiment.seed}",
        f"uniform: {sampling.samples} categories out of all, first {sampling.skip:.0%} skipped, jobs by "
        f"{sampling.order}, {sampling.solves} assignments each: as close to the paper as its abstract allows. With "
        "more jobs the number of categories grows much faster than that of good ones, so a fixed number of samples "
        "finds worse ones, and more samples help little",
        f"sampling: as many samples, {sampling.spread:.0%} of them out of all categories, the others around the sizes "
        "of marginal gain and around the best so far, which is ours; both: the best of sampling, greedy growth and "
        "samples around the better of the two, with exchanges",
        "Jain's index: minimising mean JCT takes workers from some jobs that equal shares would leave them, so all "
        "categories are no fairer than samples; fair: chosen with fairness 1, with its gap in the next column",
        "all, by throughputs: the assignment on plain throughputs, over all categories; one at a time: shortest first "
        "on all workers, which the model (every job has a worker at once) does not allow",
        "where the samples cover all categories, both samplings are the exhaustive search; their gap is informative "
        "only at larger sizes",
        "seconds are CPU time on one core, with compiled code loaded",
    ]
