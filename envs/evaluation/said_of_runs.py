"""Notes on runs for captions: which ended early, counters of schedulers, and who chose batch sizes."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from envs.evaluation.episode import EpisodeFigures
from envs.simulation import RunResult


def find_training_seeds(schedulers: Mapping[str, Any], ran: Collection[str]) -> dict[str, dict[str, int]]:
    """Return the `training_seed` of each learned scheduler that ran as the setting `training_seeds`, if any."""
    found = {name: getattr(scheduler, "training_seed", None) for name, scheduler in schedulers.items() if name in ran}
    seeds = {name: seed for name, seed in found.items() if isinstance(seed, int)}
    return {"training_seeds": seeds} if seeds else {}


def say_training_seeds(seeds: Mapping[str, int]) -> list[str]:
    """Say how many training seeds the learned rows of a table have; nothing without any."""
    told = ", ".join(f"{name} {seed}" for name, seed in seeds.items())
    return [f"One training seed each: {told}. Intervals of a row are over workloads, not over seeds."] if seeds else []


def describe_counts(runs: Mapping[str, Sequence[RunResult | EpisodeFigures]]) -> list[str]:
    """Say what each scheduler has counted itself, such as how often a limit of its was reached."""
    found = {name: Counter[str]() for name in runs}
    for name, results in runs.items():
        for run in results:
            found[name].update(run.counters if isinstance(run, RunResult) else {})
    return [
        f"Counted by {name}: " + ", ".join(f"{each.replace('_', ' ')} {count:,}" for each, count in own.items()) + "."
        for name, own in found.items()
        if own
    ]


def cut_short(results: Sequence[RunResult | EpisodeFigures]) -> list[str]:
    """Return what is to be said of the runs that ended without all jobs done, before the horizon."""
    found = [result.why_cut_short for result in results if isinstance(result, RunResult)]
    return [why for why in found if why]


def names_batches(runs: Mapping[str, Sequence[RunResult | EpisodeFigures]]) -> list[str]:
    """Return the schedulers that chose a batch size in any of their runs, in order."""
    return [name for name, results in runs.items() if any(map(chose_batches, results))]


def chose_batches(run: RunResult | EpisodeFigures) -> bool:
    """Return whether the scheduler chose a batch size in a run."""
    return run.chose_batches if isinstance(run, EpisodeFigures) else bool((run.log.events["batch_size"] > 0).any())
