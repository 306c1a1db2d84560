"""One reader per public trace, each from its file to the standard columns."""

from envs.workloads.readers.gavel import Gavel
from envs.workloads.readers.helios import Helios
from envs.workloads.readers.itp import MicrosoftItp
from envs.workloads.readers.muri import Muri
from envs.workloads.readers.pai import Pai
from envs.workloads.readers.philly import Philly
from envs.workloads.readers.philly_raw import PhillyRaw
from envs.workloads.readers.reader import DATA_VARIABLE, TraceReader, locate
from envs.workloads.readers.report import BadRow, ReadReport
from envs.workloads.readers.rubick import Rubick
from envs.workloads.readers.swf import Swf
from envs.workloads.readers.tiresias import Tiresias

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
