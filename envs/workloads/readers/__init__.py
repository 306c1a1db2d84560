"""One reader per public trace, from its file to the standard columns; loaded when asked for, as pandas is slow."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from envs.workloads.readers.reader import DATA_VARIABLE, TraceReader, locate
from envs.workloads.readers.report import BadRow, ReadReport

if TYPE_CHECKING:
    from envs.workloads.readers.gavel import Gavel
    from envs.workloads.readers.helios import Helios
    from envs.workloads.readers.itp import MicrosoftItp
    from envs.workloads.readers.muri import Muri
    from envs.workloads.readers.pai import Pai
    from envs.workloads.readers.philly import Philly
    from envs.workloads.readers.philly_raw import PhillyRaw
    from envs.workloads.readers.rubick import Rubick
    from envs.workloads.readers.swf import Swf
    from envs.workloads.readers.tiresias import Tiresias

_MODULES = {
    "Gavel": "gavel",
    "Helios": "helios",
    "MicrosoftItp": "itp",
    "Muri": "muri",
    "Pai": "pai",
    "Philly": "philly",
    "PhillyRaw": "philly_raw",
    "Rubick": "rubick",
    "Swf": "swf",
    "Tiresias": "tiresias",
}


def __getattr__(name: str) -> Any:
    """A reader by its name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


__all__ = [
    "DATA_VARIABLE",
    "BadRow",
    "Gavel",
    "Helios",
    "MicrosoftItp",
    "Muri",
    "Pai",
    "Philly",
    "PhillyRaw",
    "ReadReport",
    "Rubick",
    "Swf",
    "Tiresias",
    "TraceReader",
    "locate",
]
