"""Which classes a configuration that was read from a file may build: those of the project, and those the user names.

A run folder may come from a stranger. What its configuration names as `_target_` would be imported and called, so every
name is checked against the registry first. `docs/security.md` states what is trusted.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from envs.types import did_you_mean
from murmuration.config.choices import CONF
from murmuration.config.commands import RECALLED_COMMANDS
from murmuration.config.errors import ChoiceError
from murmuration.config.plain import is_unsafe, shorten, walk
from murmuration.config.schema import OPTIONAL, REQUIRED, keys_of
from murmuration.config.tables import TABLE
from murmuration.config.values import check_values

NAMING_KEYS = ("_target_", "target")  # keys whose text names a class; `target` is the network of a blueprint
# An option of a further task, as in `tasks=["rigid-64 workload.load=0.6"]`: Hydra reads it like a typed one.
TASK_NAME = re.compile(r"[A-Za-z][\w-]*")
TASK_OPTION = re.compile(r"\+{0,2}(?P<key>[A-Za-z]\w*(?:[./@]\w+)*)=[\w.+:/\[\],-]*")
# Keys of runs that can be recalled; any other one that names a class is a scheduler of the user's own.
RECALLED = frozenset((*REQUIRED, *OPTIONAL, *(key for command in RECALLED_COMMANDS for key in keys_of(command))))
MOVED = frozenset(("launch.policies.load_planner",))  # names before version 0.2
NO_PARTS = ("tuning",)  # groups of `conf/` whose files describe no part of a run


def registered(cfg: DictConfig) -> frozenset[str]:
    """Import paths that a recalled configuration may name.

    Args:
        cfg: the configuration of the current command line, with everything that it names; `cfg.trust` lists more.

    Returns:
        The targets of the groups of `conf/` and of `--config-dir`, of `cfg`, and those of `cfg.trust`.
    """
    found = {*MOVED, *project_targets(CONF)}
    for source in HydraConfig.get().runtime.config_sources if HydraConfig.initialized() else ():
        if source.schema == "file":
            found |= project_targets(Path(source.path))
    found |= {target for _, target in named_targets(OmegaConf.to_container(cfg, resolve=False))}
    return frozenset(found | {str(name) for name in cfg.get("trust") or ()})


@cache
def project_targets(folder: Path) -> frozenset[str]:
    """Return what the YAML files of the groups in a folder name as targets.

    Functions that scripts call to do something, such as experiments that write files, are in no group.
    """
    found: set[str] = set()
    for path in sorted([*folder.glob("*/**/*.yaml"), *folder.glob(f"*/{TABLE}")]):
        if path.relative_to(folder).parts[0] in NO_PARTS:
            continue
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError, yaml.YAMLError):
            continue  # Hydra reports it if it is chosen
        found |= {target for _, target in named_targets(content)}
    return frozenset(found)


def named_targets(node: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield (key, import path) of everything in a plain configuration that names a class or function."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            inner = f"{key}.{name}" if key else str(name)
            if name in NAMING_KEYS and isinstance(value, str):
                yield inner, value
            else:
                yield from named_targets(value, inner)
    elif isinstance(node, list | tuple):
        for index, value in enumerate(node):
            yield from named_targets(value, f"{key}[{index}]")


def check_recalled(recalled: Mapping[str, Any], allowed: frozenset[str], origin: Path) -> None:
    """Check a configuration that was read from a run folder, before anything in it is imported.

    Args:
        recalled: by top-level key, what is taken from the file, as plain values.
        allowed: the result of `registered`.
        origin: the file, for the message.

    Raises:
        ChoiceError: a key has another type, a name is not in the registry, or a key or a value could run something.
    """
    check_values(recalled, f"{origin}: ", RECALLED)
    for entry in recalled.get("tasks") or ():
        _check_task(entry, origin)
    for key, value in walk(recalled):
        name = key.rpartition(".")[2]
        if name.startswith("_") and name != "_target_":
            raise ChoiceError(
                f"{origin}: {key} is not allowed in a recalled configuration; give it on this command line"
            )
        if name in NAMING_KEYS and not isinstance(value, str):
            raise ChoiceError(f"{origin}: {key} is {shorten(value)}; it must be the import path of a class")
        if name in NAMING_KEYS and value not in allowed:
            raise ChoiceError(
                f"{origin}: {key} names {shorten(value)}, which is no class of this project"
                f"{did_you_mean(str(value), allowed, lead=', ')}; "
                f"if it is your own and you trust it, add trust=[{shorten(value)[1:-1]}]"
            )
        if isinstance(value, str) and is_unsafe(value):
            raise ChoiceError(f"{origin}: {key} is {shorten(value)}; a recalled configuration may hold no ${{...}}")


def _check_task(entry: str, origin: Path) -> None:
    """Check an entry of `tasks`: its options may choose parts of the project and set plain values, no classes.

    Raises:
        ChoiceError: names the first word that does more.
    """
    name, *options = entry.split() or [""]
    if not TASK_NAME.fullmatch(name):
        raise ChoiceError(f"{origin}: tasks: {shorten(entry)} must be a task and options of it")
    for option in options:
        found = TASK_OPTION.fullmatch(option)
        parts = re.split(r"[./@]", found["key"]) if found else [""]
        if any(part.startswith("_") or part in {"", "hydra", "target", "trust"} for part in parts):
            raise ChoiceError(
                f"{origin}: tasks: {shorten(option)} is not allowed in a recalled configuration; an option may choose "
                "a file of a group or set plain values, such as workload.load=0.6"
            )
