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
from launch.choices import CONF
from launch.errors import ChoiceError

NAMING_KEYS = ("_target_", "target")  # keys whose text names a class; `target` is the network of a blueprint
REQUIRED = ("cluster", "performance", "scenario", "workload")
RESOLVER = re.compile(r"\$\{[^}]*:")
HARMLESS = re.compile(r"\$\{oc\.select:[\w.,\s-]*\}")  # reads another key of the same configuration


def registered(cfg: DictConfig) -> frozenset[str]:
    """Import paths that a recalled configuration may name.

    Args:
        cfg: the configuration of the current command line, with everything that it names; `cfg.trust` lists more.

    Returns:
        The targets of all YAML files of `conf/` and of `--config-dir`, of `cfg`, and those of `cfg.trust`.
    """
    found = set(project_targets(CONF))
    for source in HydraConfig.get().runtime.config_sources if HydraConfig.initialized() else ():
        if source.schema == "file":
            found |= project_targets(Path(source.path))
    found |= {target for _, target in named_targets(OmegaConf.to_container(cfg, resolve=False))}
    return frozenset(found | {str(name) for name in cfg.get("trust") or ()})


@cache
def project_targets(folder: Path) -> frozenset[str]:
    """Return what the YAML files under a folder name as targets."""
    found: set[str] = set()
    for path in sorted(folder.rglob("*.yaml")):
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError):
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
        recalled: by top-level key, what is taken from the file, as plain values without resolution.
        allowed: the result of `registered`.
        origin: the file, for the message.

    Raises:
        ChoiceError: a group is missing, a name is not in the registry, or a key or a value could run something.
    """
    for key in REQUIRED:
        if key in recalled and not (isinstance(recalled[key], Mapping) and "_target_" in recalled[key]):
            raise ChoiceError(
                f"{origin}: {key} is {_short(recalled[key])}; it must name a class to build as {key}._target_"
            )
    for key, value in _walk(recalled, ""):
        name = key.rpartition(".")[2]
        if name.startswith("_") and name != "_target_":
            raise ChoiceError(
                f"{origin}: {key} is not allowed in a recalled configuration; give it on this command line"
            )
        if name in NAMING_KEYS and not isinstance(value, str):
            raise ChoiceError(f"{origin}: {key} is {_short(value)}; it must be the import path of a class")
        if name in NAMING_KEYS and value not in allowed:
            raise ChoiceError(
                f"{origin}: {key} names {_short(value)}, which is no class of this project"
                f"{did_you_mean(str(value), allowed, lead=', ')}; "
                f"if it is your own and you trust it, add trust=[{value}]"
            )
        if isinstance(value, str) and RESOLVER.search(HARMLESS.sub("", value)):
            raise ChoiceError(f"{origin}: {key} is {_short(value)}; a recalled configuration may not call resolvers")


def _walk(node: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Yield every key of a plain configuration with its value, inner ones too."""
    items = node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list | tuple) else ()
    for name, value in items:
        inner = f"{key}.{name}" if key else str(name)
        yield inner, value
        yield from _walk(value, inner)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
