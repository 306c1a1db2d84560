"""The choices of each config group: YAML files and entries of tables, and a description of each."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from envs.types import did_you_mean
from murmuration.config.commands import COMMANDS
from murmuration.config.errors import ChoiceError
from murmuration.config.plain import check_aliases
from murmuration.config.schema import GROUPS, keys_of
from murmuration.config.tables import TABLE, read_choices, read_table
from murmuration.home import ROOT

CONF = ROOT / "conf"
CHECKPOINTS = ROOT / "checkpoints"  # those that the project ships
LISTED_GROUPS = tuple(group.name for group in GROUPS)


def register_tables(conf: Path) -> None:
    """Make the entries of the tables of all groups known to Hydra, which reads files only."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # OmegaConf's own one takes three times as long
    for group in sorted(path for path in conf.iterdir() if path.is_dir()):
        for name, text in read_table(group).items():
            package = re.match(r"# @package (\S+)", text)  # where its keys go, if not below its group
            node = yaml.load(text, loader)
            ConfigStore.instance().store(name, node, group=group.name, package=package and package[1])


register_tables(CONF)
for _command in COMMANDS:  # the settings of a command are a part of its configuration, `settings: <command>`
    ConfigStore.instance().store(_command, OmegaConf.create(keys_of(_command)), group="settings", package="_global_")


@contextmanager
def own_configs() -> Iterator[None]:
    """Read configurations from `conf/`, also within a program that uses Hydra itself; its state is put back."""
    other, GlobalHydra.instance().hydra = GlobalHydra.instance().hydra, None
    try:
        with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
            yield
    finally:
        GlobalHydra.instance().hydra = other


@contextmanager
def open_configs() -> Iterator[ConfigLoader]:
    """Yield Hydra's config loader: the one of the current run, or outside of a run one for `conf/`."""
    if GlobalHydra.instance().is_initialized():
        yield GlobalHydra.instance().config_loader()
        return
    with own_configs():
        yield GlobalHydra.instance().config_loader()


def search_in(config_dir: str | None) -> list[str]:
    """Hydra's override that adds a folder to those in which configs are searched; none without a folder.

    Raises:
        ChoiceError: the folder does not exist, has a file of the same name as a choice of `conf/`, a table, or a file
            whose content exceeds a limit.
    """
    if config_dir is None:
        return []
    folder = Path(os.path.expanduser(config_dir)).resolve()
    if not folder.is_dir():
        raise ChoiceError(f"--config-dir {config_dir}: no such folder; give one with subfolders such as scheduler/")
    for group in ("", *(path.name for path in sorted(CONF.iterdir()) if path.is_dir())) if folder != CONF else ():
        for name in read_choices(CONF / group):
            if (file := folder / group / f"{name}.yaml").exists():
                place = f"conf/{group}" if group else "conf"
                raise ChoiceError(f"{file}: {place} has {name} already, and only one would be used; rename yours")
        if (file := folder / group / TABLE).exists():
            raise ChoiceError(f"{file}: tables of choices are read in conf/ only; give each choice a file <name>.yaml")
        for file in sorted((folder / group).rglob("*.yaml")) if group else ():
            check_aliases(file)
    return [f"hydra.searchpath=['file://{folder}']"]


def list_choices(group: str, search: Sequence[str] = ()) -> list[str]:
    """Names of the choices of a config group, sorted; `search` is the result of `search_in`."""
    with open_configs() as loader:
        return sorted(loader.get_group_options(group, overrides=list(search)))


def describe_groups(wanted: Sequence[str] = (), config_dir: str | None = None) -> dict[str, dict[str, str]]:
    """One line for every choice, by group and name.

    Args:
        wanted: the groups; if empty, every group of `LISTED_GROUPS`.
        config_dir: the user's own folder of configs beside `conf/`.

    Raises:
        ChoiceError: there is no such group, or no such folder.
    """
    search = search_in(config_dir)
    folders = [*([Path(os.path.expanduser(config_dir))] if config_dir else []), CONF]
    with open_configs():
        found = {group: list_choices(group, search) for group in LISTED_GROUPS}
    known = [group for group in LISTED_GROUPS if found[group]]
    for group in wanted:
        if group not in known:
            hint = did_you_mean(group, known, lead=", ")
            raise ChoiceError(f"group {group!r}: no such group{hint}; there are: {', '.join(known)}")
    described: dict[str, dict[str, str]] = {}
    for group in wanted or known:
        texts = {name: text for folder in folders for name, text in read_choices(folder / group).items()}
        described[group] = {name: describe_config(texts[name]) for name in found[group]}
    return described


def option_of(group: str) -> str:
    """Return the option that chooses from a group, up to its name."""
    return f"+{group}@scenario.{group}=" if group in (each.name for each in GROUPS if each.of_scenario) else f"{group}="


def choose_workload(options: Sequence[str], config_dir: str | None = None) -> dict[str, Any]:
    """Return the values of a workload that reads a trace.

    Args:
        options: such as `workload=slurm`, the default, and `workload.reader.timezone=Europe/Berlin`.
        config_dir: a folder of one's own with workloads.

    Raises:
        ChoiceError: the workload reads no trace, or an option is about something else.
    """
    chosen = next((each for each in reversed(options) if each.startswith("workload=")), "workload=slurm")
    others = [each for each in options if not each.startswith("workload=")]
    if wrong := [each for each in others if not each.startswith("workload.")]:
        raise ChoiceError(f"{wrong[0]}: is no option here; give workload=<name>, or workload.reader.<option>=<value>")
    with own_configs():
        given = [f"++{each}" for each in others]  # a mapping may get new keys; the reader refuses unknown options
        config = compose(overrides=[f"+{chosen}", *given, *search_in(config_dir)])
    values: Any = OmegaConf.to_container(config.workload, resolve=True)
    if "reader" not in values:
        raise ChoiceError(f"{chosen}: reads no trace; choose one that does, such as workload=slurm")
    return dict(values)


def find_shipped(path: str | Path) -> Path:
    """Return a folder, or where there is none, the checkpoint of the project of that name, if there is one.

    Args:
        path: of a folder, or a name such as `bids-64` or `checkpoints/bids-64`.
    """
    shipped = CHECKPOINTS / Path(path).name
    is_name = str(path) and Path(path).parent in (Path(), Path(CHECKPOINTS.name))
    return shipped if is_name and not Path(path).is_dir() and shipped.is_dir() else Path(path)


def read_choice(group: str, name: str) -> dict[str, Any]:
    """Return the content of a choice of `conf/` as plain values, by itself."""
    content = OmegaConf.to_container(OmegaConf.create(read_choices(CONF / group)[name]))
    assert isinstance(content, dict)
    return cast(dict[str, Any], content)


def describe_config(text: str) -> str:
    """The first sentence of a config's opening comment, else the first line of the docstring of its `_target_`."""
    lines = [line for line in text.splitlines() if not line.startswith("# @package")]
    comment = " ".join(line.lstrip("# ") for line in takewhile(lambda line: line.startswith("#"), lines))
    if comment:
        return re.split(r"(?<=[a-z\d)>])\. ", comment)[0].rstrip(".:") + "."
    node = OmegaConf.create(text)
    if isinstance(node, DictConfig) and "_target_" in node:
        return (get_object(str(node["_target_"])).__doc__ or "").strip().partition("\n")[0]
    return ""
