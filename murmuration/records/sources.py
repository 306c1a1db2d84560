"""A hash of the source files that decide what a scheduler does, so that recorded results show a change of its code.

The files are found by reading `import` statements, from the modules of the scheduler's classes on: all of `baselines`,
and modules beside the user's own. `envs` is covered by `WORLD_VERSION`, and installed packages are not followed.
Comments, docstrings and layout do not count.
"""

import ast
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from envs.evaluation.task import hash_text
from murmuration.config.building import import_target
from murmuration.home import ROOT

NOT_FOLLOWED = frozenset({"envs", *sys.stdlib_module_names})
INSTALLED = tuple(Path(sysconfig.get_path(name)) for name in ("purelib", "platlib"))


def hash_sources(configuration: Mapping[str, Any]) -> str:
    """Return a hash of the source files of all classes that a scheduler's configuration names.

    Args:
        configuration: the scheduler's class and options, as plain values.
    """
    files: dict[str, Path] = {}
    for target in sorted(set(_targets(configuration))):
        module = sys.modules[import_target("scheduler", target).__module__]
        home = _home(module.__name__, Path(str(module.__file__)))
        _follow(module.__name__, (home, ROOT), files)
    return hash_text("\n".join(f"{name} {_read(path).digest}" for name, path in sorted(files.items())))


def _targets(value: Any) -> Iterator[str]:
    """Yield the classes that a configuration names, with those of its options."""
    if isinstance(value, Mapping):
        if isinstance(value.get("_target_"), str):
            yield value["_target_"]
        for each in value.values():
            yield from _targets(each)
    elif isinstance(value, list):
        for each in value:
            yield from _targets(each)


def _home(module: str, path: Path) -> Path:
    """Return the folder from which a module is imported by its full name."""
    depth = module.count(".") + (path.name == "__init__.py")
    return path.resolve().parents[depth]


def _follow(module: str, homes: tuple[Path, ...], files: dict[str, Path]) -> None:
    """Add a module and those that it imports to `files`, by name."""
    path = _find(module, homes)
    if path is None or module in files:
        return
    files[module] = path
    for base, name in _read(path).imports(module, path.name == "__init__.py"):
        for each in _resolve(base, name, homes):
            _follow(each, homes, files)


def _find(module: str, homes: tuple[Path, ...]) -> Path | None:
    """Return the file of a module; None if it is not followed."""
    top, *_ = parts = module.split(".")
    if top in NOT_FOLLOWED:
        return None
    for home in homes:
        if home in INSTALLED and top != "baselines":
            continue
        for path in (home.joinpath(*parts).with_suffix(".py"), home.joinpath(*parts, "__init__.py")):
            if path.is_file():
                return path
    return None


def _resolve(base: str, name: str, homes: tuple[Path, ...]) -> Iterator[str]:
    """Yield the modules that `from base import name` needs: a submodule, or where a package has the name from."""
    if name and _find(f"{base}.{name}", homes):
        yield f"{base}.{name}"
        return
    path = _find(base, homes)
    if name and path is not None and path.name == "__init__.py":
        origins = [origin for origin, given in _read(path).imports(base, True) if given == name and origin != base]
        if origins:
            yield from origins
            return
    yield base


class _Source:
    """A source file: its digest, and what it imports."""

    def __init__(self, text: str) -> None:
        tree = ast.parse(text)
        self._statements = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        self.digest = hash_text(repr(_plain(tree)))

    def imports(self, module: str, is_package: bool) -> Iterator[tuple[str, str]]:
        """Yield the module and the name of every import; an empty name for `import module`."""
        for node in self._statements:
            if isinstance(node, ast.Import):
                yield from ((alias.name, "") for alias in node.names)
                continue
            up = module.split(".")[: len(module.split(".")) - node.level + is_package] if node.level else []
            base = ".".join([*up, *([node.module] if node.module else [])])
            yield from ((base, alias.name) for alias in node.names)


@lru_cache(maxsize=1024)
def _read(path: Path) -> _Source:
    return _Source(path.read_text(encoding="utf-8"))


def _plain(node: Any) -> Any:
    """Return a syntax tree as nested lists, the same for all versions of Python, without docstrings."""
    if isinstance(node, list):
        return [_plain(each) for each in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = dict(ast.iter_fields(node))
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
        fields["body"] = fields["body"][1:]
    return [type(node).__name__, *((name, _plain(each)) for name, each in fields.items() if each not in (None, []))]
