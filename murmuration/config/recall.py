"""Configurations of earlier runs: the setup of a policy, a run that is resumed, and one that is repeated."""

from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from murmuration.config.arguments import key_of, parse_overrides
from murmuration.config.choices import find_shipped
from murmuration.config.errors import ChoiceError
from murmuration.config.outcomes import iterations_of
from murmuration.config.plain import is_unsafe, read_configuration, read_unfilled, shorten
from murmuration.config.provenance import PROVENANCE, SAVED, hash_config, read_provenance
from murmuration.config.registry import check_recalled, registered
from murmuration.config.schema import GROUPS, keys_changed_by_resume, keys_typed_here
from murmuration.config.values import check_value

PACKAGED_GROUPS = {"network": "cluster.network_gbps"}  # groups whose files set an option of another group
# A checkpoint contains its environment's settings.
SETUP_KEYS = {group.name for group in GROUPS if group.setup}
CHANGED_BY_RESUME = keys_changed_by_resume()
NOT_RECALLED = keys_typed_here()


def existing_folder(cfg: DictConfig, key: str) -> Path:
    """The folder that a key of the config names.

    Raises:
        ChoiceError: it names none, or there is no such folder.
    """
    return find_folder(None if OmegaConf.is_missing(cfg, key) else cfg[key], key)


def find_folder(path: str | None, key: str) -> Path:
    """The folder at a path, which the option `key` names; a policy may be one that the project ships, by its name.

    Raises:
        ChoiceError: there is no such folder.
    """
    place = None if path is None else find_shipped(path) if key in ("checkpoint", "start") else Path(path)
    if place is None or not place.is_dir():
        raise ChoiceError(
            f"{key}={'' if path is None else Path(path)}: no such folder; give the one that training printed as `run:`"
        )
    return place


def recall_setup(cfg: DictConfig) -> DictConfig:
    """The config with the setup of the run that wrote `cfg.checkpoint`.

    It is unchanged if that run's config was not kept, or if `task=` was typed, which chooses another setup.

    Raises:
        ChoiceError: no checkpoint is named, or its folder does not exist.
    """
    folder = existing_folder(cfg, "checkpoint").resolve()
    run = next((place for place in (folder, *folder.parents[:2]) if (place / SAVED).exists()), None)
    typed = [key_of(each) for each in parse_overrides(HydraConfig.get().overrides.task)]
    if run is None or "task" in typed:
        return cfg
    return _recall(cfg, read_configuration(run / SAVED), run / SAVED, SETUP_KEYS)


def recall_run(cfg: DictConfig) -> tuple[DictConfig, Path, list[dict[str, Any]]]:
    """The config and the folder of the training run that `cfg.resume` names, to go on with, and all of its resumes.

    Options of earlier resumes hold, unless they are typed again.

    Raises:
        ChoiceError: the folder does not exist, or holds no training run, or an option cannot change now.
    """
    run = resumed_folder(cfg)
    typed = {key_of(each) for each in parse_overrides(HydraConfig.get().overrides.task)}
    check_changes(typed, run)
    try:
        resumes = read_resumes(read_provenance(run))
    except ChoiceError as error:
        print(f"note: {error}")
        resumes = []
    recalled = recall_whole(cfg, run)
    own = {key: OmegaConf.select(cfg, key) for key in sorted(typed.intersection(CHANGED_BY_RESUME))}
    for each in resumes:
        change_options(recalled, {key: value for key, value in each["options"].items() if key not in own})
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    return recalled, run, [*resumes, {"time": now, "options": own, "after": iterations_of(run)}]


def resumed_folder(cfg: DictConfig) -> Path:
    """The folder of the run that `cfg.resume` names; print that its pickles are read.

    Raises:
        ChoiceError: the folder does not exist, or holds no run.
    """
    run = existing_folder(cfg, "resume")
    if not (run / SAVED).exists():
        raise ChoiceError(f"resume={run}: holds no training run; give the folder that training printed as `run:`")
    print(f"resume= reads the pickles in {run}, which can run any code: resume only runs of your own", flush=True)
    return run


def check_changes(typed: Collection[str], run: Path) -> None:
    """Assert that the options typed beside `resume=` can change while a run goes on.

    Raises:
        ChoiceError: names the other ones.
    """
    own = {*CHANGED_BY_RESUME, *NOT_RECALLED, "ray.address"}
    if others := sorted(key for key in typed if key not in own):
        raise ChoiceError(
            f"resume={run}: the run goes on as it began; leave out {', '.join(others)}; only "
            f"{', '.join(CHANGED_BY_RESUME)} can change; with other settings, start={run} begins a new run with its "
            "weights"
        )


def read_resumes(provenance: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return how a run was resumed, from its provenance: for each time, the options and the iterations until then.

    Raises:
        ChoiceError: it does not say so, or an option is none that a resume changes.
    """
    found = provenance.get("resumes", [])
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise ChoiceError(f"{PROVENANCE}: resumes is {shorten(found)}; it must be a list")
    for each in found:
        options, after = each.get("options"), each.get("after")
        if not isinstance(options, Mapping) or not isinstance(after, int) or set(options) - {*CHANGED_BY_RESUME}:
            raise ChoiceError(
                f"{PROVENANCE}: resumes has {shorten(dict(each))}; each needs after, a whole number, and options, of "
                f"which there are {', '.join(CHANGED_BY_RESUME)}"
            )
        for key, value in options.items():
            check_value(key, value, f"{PROVENANCE}: resumes: ")
    return [dict(each) for each in found]


def change_options(cfg: DictConfig, options: Mapping[str, Any]) -> None:
    """Set options of a recalled configuration, in place."""
    for key, value in options.items():
        OmegaConf.update(cfg, key, value, force_add=True)


def recall_parts(cfg: DictConfig, provenance: Mapping[str, Any]) -> list[DictConfig]:
    """Return the configurations with which a training run was played one after another, the last one last.

    A part that was interrupted counts as played with the options of the next one, which reach the same figures.

    Args:
        cfg: the configuration that it began with.
        provenance: of the run.

    Raises:
        ChoiceError: see `read_resumes`.
    """
    parts = [cfg]
    for each in read_resumes(provenance):
        then = parts[-1].copy()
        change_options(then, each["options"])
        iterations = OmegaConf.select(parts[-1], "trainer.iterations")
        ended = isinstance(iterations, int) and each["after"] >= iterations
        parts = [*(parts if ended else parts[:-1]), then]
    return parts


def _recall(cfg: DictConfig, earlier: Mapping[str, Any], origin: Path, keys: set[str]) -> DictConfig:
    """A config with these top-level keys of an earlier run, except for options that were typed for the current one.

    Args:
        cfg: the config of the current command line.
        earlier: the configuration of the earlier run, as plain data.
        origin: its file, for messages.
        keys: what is taken from it.
    """
    result = cfg.copy()
    overrides = parse_overrides(HydraConfig.get().overrides.task)
    # Schedulers of the current command line do not join those of the earlier run.
    keys_of = [key_of(each) for each in overrides if not each.is_delete() and each.key_or_group != "scheduler"]
    typed = [PACKAGED_GROUPS.get(key, key) for key in keys_of]
    taken = {key: earlier.get(key) for key in sorted(keys.difference(typed))}
    check_recalled(taken, registered(cfg), origin)
    for key, value in taken.items():
        OmegaConf.update(result, key, value, merge=False, force_add=True)
    for option in typed:
        top, dot, _ = option.partition(".")
        if top in keys and dot:  # whether the recalled object takes the option is checked when it is built
            OmegaConf.update(result, option, OmegaConf.select(cfg, option), merge=False, force_add=True)
    for option in set(PACKAGED_GROUPS.values()).difference(typed):
        if option.partition(".")[0] in keys.intersection(typed):  # the default task may have set it in a typed group
            OmegaConf.update(result, option, _find_number(earlier, option, origin), force_add=True)
    return result


def _find_number(earlier: Mapping[str, Any], option: str, origin: Path) -> float | None:
    """Return the number that an earlier configuration has for an option of a group; None without one.

    Raises:
        ChoiceError: it is no number.
    """
    group, _, name = option.partition(".")
    node = earlier.get(group)
    found = node.get(name) if isinstance(node, Mapping) else None
    if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
        raise ChoiceError(f"{origin}: {option} is {shorten(found)}; it must be a number or null")
    return found


def recall_whole(cfg: DictConfig, run: Path) -> DictConfig:
    """The config with everything that the config of an earlier run has.

    Raises:
        ChoiceError: the folder has no config, one that is not plain data, one that names a class outside the registry,
            or one that has changed since the run began.
    """
    earlier = read_configuration(run / SAVED)
    recalled = _recall(cfg, earlier, run / SAVED, set(earlier) - NOT_RECALLED)
    check_unchanged(run)
    return recalled


def check_unchanged(run: Path) -> None:
    """Assert that the config of an earlier run is the one that the run began with, by the hash in its provenance.

    Without a provenance that can be read, it must at least have the parts of a setup: what a truncated config lacks
    would silently take the defaults of today.

    Raises:
        ChoiceError: it is not.
    """
    earlier = read_unfilled(run / SAVED)  # as it was written, so with the references of earlier versions
    if missing := sorted({"cluster", "performance", "scenario", "workload", "seed"}.difference(earlier)):
        raise ChoiceError(f"{run / SAVED}: lacks {', '.join(missing)}; it is damaged, or no configuration of a run")
    try:
        began = read_provenance(run).get("configuration")
    except ChoiceError:
        return
    if began is not None and began != hash_config(OmegaConf.create(earlier)):
        raise ChoiceError(
            f"{run / SAVED}: has changed since the run began, or is damaged; undo the change, or start a new run"
        )


def recall_repeated(cfg: DictConfig, run: Path) -> tuple[DictConfig, dict[str, Any]]:
    """The config with which an earlier run is repeated as it was, and that run's provenance.

    Raises:
        ChoiceError: other options are given too, or the folder's configuration is missing, damaged or not trusted.
    """
    refuse_other_options()
    earlier = read_provenance(run)
    own = cfg.copy()
    own.checkpoint = ""  # a missing value, unless the earlier run has one
    recalled = recall_whole(own, run)
    OmegaConf.update(recalled, "record", False, force_add=True)  # nothing is written outside the new folder
    return (find_again(recalled, earlier) if earlier.get("script") == "evaluate" else recalled), earlier


def refuse_other_options() -> None:
    """Assert that no option but `run` and `trust` was typed, since a run is repeated as it was.

    Raises:
        ChoiceError: names the other ones.
    """
    typed = {key_of(each) for each in parse_overrides(HydraConfig.get().overrides.task)}
    if others := sorted(typed - {"run", "trust", "ray.address"}):
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
