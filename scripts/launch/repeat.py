"""Repeat an earlier run from its folder, and say whether its figures are the same to the bit."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from launch.arguments import key_of, parse_overrides
from launch.errors import ChoiceError, DifferentResultError, SchedulersFailedError, as_line
from launch.plain import is_unsafe, load_json, shorten
from launch.provenance import PROVENANCE, changed_since, read_provenance
from launch.runs import compare_and_report, existing_folder, recall_whole

COMPARED = ("results.json", "state.json")  # the figures of a run, as far as it has these files
TIMES = "cpu_time"  # the only figures that differ between equal runs
NAMED = 3  # of the figures that differ, those that a message names


def repeat_run(cfg: DictConfig, folder: Path) -> None:
    """Repeat the run of `cfg.run` with its own configuration, in a new folder, and compare all figures.

    Runs of compare, evaluate and train can be repeated. What has changed since, such as versions of packages or the
    hash of a trace, is printed.

    Raises:
        ChoiceError: other options are given too, the folder is no such run, or its configuration is not trusted.
        DifferentResultError: a figure differs; the message names the first ones.
    """
    refuse_other_options()
    run = existing_folder(cfg, "run")
    earlier = read_provenance(run)
    own = cfg.copy()
    own.checkpoint = ""  # a missing value, unless the earlier run has one
    recalled = recall_whole(own, run)
    OmegaConf.update(recalled, "record", False, force_add=True)  # nothing is written outside the new folder
    script = earlier.get("script")
    try:
        match script:
            case "compare":
                compare_and_report(recalled, folder, recalled.split)
            case "evaluate":
                from launch.policies import evaluate_policy

                evaluate_policy(find_again(recalled, earlier), folder)
            case "train":
                from launch.seeds import train

                train(recalled, folder)
            case _:
                raise ChoiceError(f"run={run}: was made by {script}; only compare, evaluate and train can be repeated")
    except SchedulersFailedError as failure:  # as they may have in the earlier run
        print(f"note: {failure}")
    for change in changed_since(earlier, read_provenance(folder)):
        print(f"changed since: {as_line(change)}")
    report_differences(run, folder)


def refuse_other_options() -> None:
    """Assert that no option but `run` and `trust` was typed, since a run is repeated as it was.

    Raises:
        ChoiceError: names the other ones.
    """
    typed = {key_of(each) for each in parse_overrides(HydraConfig.get().overrides.task)}
    own = {"run", "trust", "scheduler", "optional", "ray.address"}
    others = sorted(key for key in typed if key not in own and not key.startswith("schedulers"))
    if others:
        raise ChoiceError(f"run= repeats a run with its own options; leave out {', '.join(others)}")


def find_again(cfg: DictConfig, earlier: Mapping[str, Any]) -> DictConfig:
    """The config with the place of its checkpoint: as it was typed, else where the earlier run read it.

    Raises:
        ChoiceError: that is no path.
    """
    known = earlier.get("checkpoint") or {}
    if not isinstance(known, Mapping) or any(is_unsafe(path) for path in known):
        raise ChoiceError(f"{PROVENANCE}: checkpoint is {shorten(known)}; it must have the paths of a policy's files")
    if not Path(cfg.checkpoint).is_dir():
        for path in known:
            OmegaConf.update(cfg, "checkpoint", str(Path(path).parent))
            break
    return cfg


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
    return {key: value for key, value in found.items() if key != TIMES} if isinstance(found, Mapping) else found


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
