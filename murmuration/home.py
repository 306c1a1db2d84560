"""The place of the project's folders: a clone, or the copies of its folders within an installed wheel.

A wheel keeps `envs`, `agents`, `baselines`, `deployment`, the scripts and their configuration in `murmuration/clone`,
laid out as in the repository. So other packages with these names, such as that of `openai-agents`, replace none of its
files.
"""

import sys
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
IN_WHEEL = (HERE / "clone").is_dir()
ROOT = HERE / "clone" if IN_WHEEL else HERE.parent
SCRIPTS = ROOT / "scripts"
PACKAGES = (
    "envs",
    "agents",
    "baselines",
    "deployment",
    "launch",
    "benchmarks",
    "experiments",
)  # names of the project on sys.path


def open_home() -> None:
    """Put the project's folders first on `sys.path`, so that its packages are found whatever else has their names.

    Raises:
        ImportError: one of these names is already another package in this process.
    """
    for name in PACKAGES:
        place = find_origin(sys.modules[name]) if name in sys.modules else None
        if place is not None and not place.is_relative_to(ROOT):
            raise ImportError(
                f"murmuration: the package {name} is already loaded from {place}, and Murmuration has its own {name}; "
                f"use Murmuration first, or in a process of its own",
                name=name,
            )
    for folder in (str(SCRIPTS), str(ROOT)):
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)


def find_origin(module: ModuleType) -> Path | None:
    """Return the file of a module, or the folder of a package without one; None if it has neither."""
    places = [module.__file__] if getattr(module, "__file__", None) else list(getattr(module, "__path__", ()))
    return Path(str(places[0])).resolve() if places else None
