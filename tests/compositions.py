"""Hydra's compositions for tests: what a choice of groups begins with is composed once in a session."""

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra._internal import config_loader_impl
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.core_plugins import file_config_source, importlib_resources_config_source
from hydra._internal.defaults_list import DefaultsList, Overrides
from hydra._internal.hydra import Hydra
from hydra.core.override_parser.types import Override
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf._utils import get_yaml_loader

CONF = Path(__file__).resolve().parents[1] / "conf"
MOST = 64  # compositions that are kept


class Compositions:
    """Keeps Hydra's lists of defaults, and what they are composed to, by the groups that are chosen.

    All other options are applied by Hydra, to a copy. Folders other than `conf/` are read anew, since tests write them.
    """

    def __init__(self) -> None:
        self._lists: OrderedDict[Any, DefaultsList] = OrderedDict()
        self._composed: dict[int, DictConfig] = {}  # by the identity of a kept list

    def wrap_lists(self, make: Callable[..., DefaultsList]) -> Callable[..., DefaultsList]:
        """Return `create_defaults_list` that makes each list once."""

        def find(repo: Any, config_name: str | None, overrides_list: Sequence[Override], **options: Any) -> Any:
            folders = [source.path for source in repo.get_sources() if source.scheme() == "file"]
            if folders != [str(CONF)]:
                return make(repo=repo, config_name=config_name, overrides_list=overrides_list, **options)
            typed = Overrides(repo=repo, overrides_list=list(overrides_list)).config_overrides
            chosen = tuple(each.input_line for each in overrides_list if not any(each is other for other in typed))
            key = (config_name, chosen, *options.items())
            if key not in self._lists:
                self._lists[key] = make(repo=repo, config_name=config_name, overrides_list=overrides_list, **options)
                if len(self._lists) > MOST:
                    _, oldest = self._lists.popitem(last=False)
                    self._composed.pop(id(oldest.defaults), None)
            self._lists.move_to_end(key)
            return replace(self._lists[key], config_overrides=typed)

        return find

    def wrap_composing(self, make: Callable[..., DictConfig]) -> Callable[..., DictConfig]:
        """Return `_compose_config_from_defaults_list` that composes each kept list once."""

        def find(loader: ConfigLoaderImpl, defaults: Any, repo: Any) -> DictConfig:
            if not any(each.defaults is defaults for each in self._lists.values()):
                return make(loader, defaults=defaults, repo=repo)
            if id(defaults) not in self._composed:
                self._composed[id(defaults)] = make(loader, defaults=defaults, repo=repo)
            return copy.deepcopy(self._composed[id(defaults)])

        return find


@lru_cache(maxsize=1024)
def parse(text: str) -> Any:
    """What a YAML file holds, in plain values that nothing changes."""
    return yaml.load(text, Loader=get_yaml_loader())


class ParsedOnce(OmegaConf):
    """In place of `OmegaConf` where Hydra loads files: equal texts are parsed once."""

    @staticmethod
    def load(file_: Any) -> Any:
        """Load an open file."""
        found = parse(file_.read())
        return OmegaConf.create({} if found is None else found)


@contextmanager
def cheap_compositions() -> Iterator[None]:
    """Compose no configuration twice in a process, and none to learn whether a file sets `hydra.mode`: none does."""
    compose_for_mode = Hydra.get_mode

    def get_mode(hydra: Hydra, config_name: str | None, overrides: list[str]) -> RunMode | None:
        named = any("hydra.mode" in each for each in overrides)
        return compose_for_mode(hydra, config_name, overrides) if named else None

    kept = Compositions()
    internals: Any = config_loader_impl
    listing, composing = internals.create_defaults_list, ConfigLoaderImpl._compose_config_from_defaults_list
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Hydra, "get_mode", get_mode)
        patch.setattr(file_config_source, "OmegaConf", ParsedOnce)
        patch.setattr(importlib_resources_config_source, "OmegaConf", ParsedOnce)
        patch.setattr(config_loader_impl, "create_defaults_list", kept.wrap_lists(listing))
        patch.setattr(ConfigLoaderImpl, "_compose_config_from_defaults_list", kept.wrap_composing(composing))
        yield
