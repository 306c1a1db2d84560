"""Who imports what in packages and tests: the graph of grimp; names that a package passes on lead to their module."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

import grimp

from murmuration.home import open_home

ROOTS = (
    *("envs", "agents", "baselines", "deployment", "murmuration", "tests"),
    *("launch", "experiments", "papers", "benchmarks", "documentation"),  # packages of scripts/
)
IMPORT = re.compile(r"^\s*from ([\w.]+) import (?:\(([^)]*)\)|([^\n(]+))", re.MULTILINE)


def module_of(path: str) -> str:
    """The module of a Python file, such as "murmuration.runs.comparing" of "murmuration/runs/comparing.py"."""
    return path.removeprefix("scripts/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def names_imported(text: str) -> Iterator[tuple[str, str]]:
    """(module, name) of each `from module import name` in a text."""
    for module, several, one in IMPORT.findall(text):
        for part in re.sub(r"#.*", "", several or one).split(","):
            if name := part.split(" as ")[0].strip():
                yield module, name


def passed_on(texts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The module of each name that a package's `__init__` imports, by package and name. `texts` is by path."""
    homes = {
        module_of(path): {name: module for module, name in names_imported(text)}
        for path, text in texts.items()
        if PurePosixPath(path).name == "__init__.py"
    }
    for names in homes.values():
        for name, module in names.items():
            while module != homes.get(module, {}).get(name, module):  # a package within passes it on, too
                module = homes[module][name]
            names[name] = module
    return homes


class Imports:
    """The graph of imports, walked from what is imported to what imports it.

    Args:
        texts: The text of every Python file by path, such as "envs/types/job.py".
        graph: The graph; that of the working tree without it.
    """

    def __init__(self, texts: Mapping[str, str], graph: grimp.ImportGraph | None = None) -> None:
        open_home()  # packages of scripts/ are found
        self.graph = graph or grimp.build_graph(*ROOTS, cache_dir=None)
        self.homes = passed_on(texts)
        self.files = {module_of(path): path for path in texts}
        self._of_packages: dict[str, set[str]] = {}
        self._trace_names(texts)

    def _trace_names(self, texts: Mapping[str, str]) -> None:
        """Let importers of a package's names import the modules that have them instead.

        Else every test that takes one scheduler from `baselines` would be near to all schedulers.
        """
        for package in self.homes.keys() & self.graph.modules:
            self._of_packages[package] = set(self.graph.find_modules_that_directly_import(package))
        for package, importers in self._of_packages.items():
            for importer in importers & self.files.keys():
                names = {name for module, name in names_imported(texts[self.files[importer]]) if module == package}
                homes = {self.homes[package].get(name, "") for name in names}
                for home in homes & self.graph.modules:
                    self.graph.add_import(importer=importer, imported=home)
                if homes and homes <= self.graph.modules:
                    self.graph.remove_import(importer=importer, imported=package)

    def distances(self, changed: Iterable[str]) -> dict[str, int]:
        """The least number of imports between each module and the changed ones; 0 for these, absent without a way."""
        found = {module: 0 for module in changed if module in self.graph.modules}
        nearest = list(found)
        while nearest:
            importers = {
                importer: found[module] + 1
                for module in nearest
                for importer in self.graph.find_modules_that_directly_import(module)
                | (self._of_packages.get(module, set()) if found[module] == 0 else set())
                if importer not in found
            }
            found |= importers
            nearest = list(importers)
        return found

    def home_of(self, target: str) -> str:
        """The module that has a class, as a YAML's `_target_` names it."""
        module, _, name = target.rpartition(".")
        return self.homes.get(module, {}).get(name, module)
