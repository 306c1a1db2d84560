"""The packages of the library under the name of the project: `murmuration.envs` is the same module as `envs`.

Likewise `agents`, `baselines` and `deployment`. A program that has a package `envs` too can say which one it means.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from murmuration.home import LIBRARY, open_home

PREFIX = "murmuration."


class AliasFinder(MetaPathFinder, Loader):
    """Finds `murmuration.envs.types` as the module `envs.types`, and likewise all other modules of the library."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for names of the library; None for all others."""
        name = fullname.removeprefix(PREFIX)
        if name == fullname or name.partition(".")[0] not in LIBRARY:
            return None
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module itself, imported under its own name.

        Raises:
            ImportError: there is none, or another package has its name; see `murmuration.home.open_home`.
        """
        open_home()
        module = import_module(spec.name.removeprefix(PREFIX))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back, which Python has just replaced."""
        spec = module.__spec__
        assert spec is not None
        module.__spec__ = spec.loader_state


def add_aliases() -> None:
    """Let Python find the aliases, before it looks for files: it would load those of `envs.types` a second time."""
    if not any(isinstance(each, AliasFinder) for each in sys.meta_path):
        sys.meta_path.insert(0, AliasFinder())
