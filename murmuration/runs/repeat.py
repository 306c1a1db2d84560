"""Repeat an earlier run from its folder, and say whether its figures are the same to the bit."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envs.types import as_line
from murmuration.config.descriptions import ComparisonRun, EvaluationRun, Repetition
from murmuration.config.errors import ChoiceError, DifferentResultError, SchedulersFailedError
from murmuration.config.plain import load_json, shorten
from murmuration.config.provenance import changed_since, read_provenance
from murmuration.runs.comparing import compare_and_report

COMPARED = ("results.json", "state.json")  # the figures of a run, as far as it has these files
TIMES = ("cpu_time", "progress")  # the only figures that differ between equal runs
NAMED = 3  # of the figures that differ, those that a message names


def repeat_run(repetition: Repetition, folder: Path) -> None:
    """Repeat a run of compare, evaluate or train in a new folder, and compare all figures.

    What has changed since, such as versions of packages or the hash of a trace, is printed.

    Raises:
        ChoiceError: the earlier run has no figures.
        DifferentResultError: a figure differs; the message names the first ones.
    """
    try:
        match repetition.run:
            case ComparisonRun() as run:
                compare_and_report(run, folder)
            case EvaluationRun() as run:
                from murmuration.runs.policies import evaluate_policy

                evaluate_policy(run, folder)
            case run:
                from murmuration.runs.seeds import train_and_evaluate

                for part in (*repetition.before, run):
                    train_and_evaluate(part, folder)
    except SchedulersFailedError as failure:  # as they may have in the earlier run
        print(f"note: {failure}")
    for change in changed_since(repetition.provenance, read_provenance(folder)):
        print(f"changed since: {as_line(change)}")
    report_differences(repetition.folder, folder)


def report_differences(earlier: Path, now: Path) -> None:
    """Compare all figures of two run folders, and print that they are the same.

    Raises:
        ChoiceError: the earlier run has no figures.
        DifferentResultError: a figure differs.
    """
    names = [name for name in COMPARED if (earlier / name).exists()]
    if not names:
        raise ChoiceError(f"run={earlier}: has none of {', '.join(COMPARED)}; the earlier run was not finished")
    count, differing = 0, []
    for name in names:
        before, after = (dict(leaves(read_figures(folder / name))) for folder in (earlier, now))
        count += len(before)
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key) or (key in before) != (key in after):
                differing.append(
                    f"{name} {key[:200]} was {shorten(before.get(key))} and is {shorten(after.get(key))} now"
                )
    if differing:
        more = f" and {len(differing) - NAMED} more" if len(differing) > NAMED else ""
        raise DifferentResultError(
            f"{len(differing)} of {count} figures differ from {earlier}: {'; '.join(differing[:NAMED])}{more}"
        )
    print(f"the same to the bit: all {count} figures of {', '.join(names)} in {earlier}")


def read_figures(path: Path) -> Any:
    """Read a JSON file of figures, without times.

    Raises:
        ChoiceError: it is missing or damaged.
    """
    found = load_json(path)
    return {key: value for key, value in found.items() if key not in TIMES} if isinstance(found, Mapping) else found


def leaves(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of everything in nested JSON that is neither a mapping nor a list."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from leaves(value, f"{key}.{name}" if key else str(name))
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for index, value in enumerate(node):
            yield from leaves(value, f"{key}[{index}]")
    else:
        yield key, node
