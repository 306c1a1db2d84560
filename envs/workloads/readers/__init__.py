"""One reader per public trace, each from its file to the standard columns."""

from envs.workloads.readers.itp import MicrosoftItp
from envs.workloads.readers.muri import Muri
from envs.workloads.readers.philly import Philly
from envs.workloads.readers.reader import DATA_VARIABLE, TraceReader, locate
from envs.workloads.readers.report import BadRow, ReadReport

__all__ = [
    "DATA_VARIABLE",
    "BadRow",
    "MicrosoftItp",
    "Muri",
    "Philly",
    "ReadReport",
    "TraceReader",
    "locate",
]
