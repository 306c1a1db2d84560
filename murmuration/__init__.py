"""Murmuration as a library: make a task, compare schedulers, train a policy, load one.

```python
from murmuration import compare, load, make_task, train

task = make_task("shared-16", "workload.load=0.8")
print(compare(["srtf", "starling"], task, episodes=2))
```

The command line has the same: `murmuration compare task=shared-16 workload.load=0.8 scheduler=[srtf,starling]`.

An import of this package alone loads nothing and leaves `sys.path` as it is. The first use of one of its names puts the
packages `envs`, `agents` and `baselines` first on the path, so that they can be imported then, too. They have a second
name each, such as `murmuration.envs`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from murmuration.aliases import add_aliases
from murmuration.home import open_home, warn_of_hidden_packages

if TYPE_CHECKING:
    from murmuration.library import LibraryTask, TrainedPolicy, compare, load, make_task, train

__all__ = ["LibraryTask", "TrainedPolicy", "__version__", "compare", "load", "main", "make_task", "train"]

__version__: str
add_aliases()


def main() -> None:
    """Run the command `murmuration`; see `murmuration.command`."""
    import_module("murmuration.command").main()


def __dir__() -> list[str]:
    """Return the names of the library: others are loaded when they are first used."""
    return sorted(__all__)


def __getattr__(name: str) -> object:
    """Import a name when it is first used: `import murmuration` takes milliseconds.

    Raises:
        ImportError: another package has the name of one of the project's; see `murmuration.home.open_home`.
    """
    if name == "__version__":
        return import_module("importlib.metadata").version("murmuration")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn_of_hidden_packages()
    open_home()
    return getattr(import_module("murmuration.library"), name)
