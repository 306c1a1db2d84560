"""The place of the project's folders: a clone, or the copies of its folders within an installed wheel.

A wheel keeps `envs`, `agents`, `baselines`, `deployment`, the scripts and their configuration in `murmuration/clone`,
laid out as in the repository. So other packages with these names, such as that of `openai-agents`, replace none of its
files.
"""

import os
import sys
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
IN_WHEEL = (HERE / "clone").is_dir()
ROOT = HERE / "clone" if IN_WHEEL else HERE.parent
SCRIPTS = ROOT / "scripts"
LIBRARY = ("envs", "agents", "baselines", "deployment")
PACKAGES = (*LIBRARY, "launch", "benchmarks", "experiments")  # names of the project on sys.path


def open_home() -> None:
    """Put the project's folders first on `sys.path`, so that its packages are found whatever else has their names.

    The working directory comes last: it may hold the user's classes.

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
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    # Matrices are small, and threads of NumPy's and SciPy's OpenBLAS spin before they sleep: 0.2 CPU-s per start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@cache
def warn_of_hidden_packages() -> None:
    """Warn once of packages beside the user's program that a later `import` would not find: ours have their names.

    Those that are installed do not count, as few processes import them.
    """
    beside = [Path(place or os.getcwd()).resolve() for place in sys.path if "site-packages" not in place]
    for name in LIBRARY:
        for folder in beside:
            there = folder / name
            if not folder.is_relative_to(ROOT) and (there.with_suffix(".py").is_file() or any(there.glob("*.py"))):
                warnings.warn(
                    f"murmuration: `import {name}` finds Murmuration's package from now on, and not {there}; "
                    f"rename yours, or use Murmuration in a process of its own",
                    stacklevel=3,
                )
                break


def find_origin(module: ModuleType) -> Path | None:
    """Return the file of a module, or the folder of a package without one; None if it has neither."""
    places = [module.__file__] if getattr(module, "__file__", None) else list(getattr(module, "__path__", ()))
    return Path(str(places[0])).resolve() if places else None
