"""One reader per public trace. Readers are imported on first use, because they import pandas, which loads slowly."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from envs.workloads.readers.reader import TraceReader, locate
from envs.workloads.readers.report import BadRow, ReadReport

if TYPE_CHECKING:
    from envs.workloads.readers.acme import AcmeTrace
    from envs.workloads.readers.csv_trace import CsvTrace
    from envs.workloads.readers.gavel import GavelTrace
    from envs.workloads.readers.helios import HeliosTrace
    from envs.workloads.readers.itp import ItpTrace
    from envs.workloads.readers.jobs import JobsTrace
    from envs.workloads.readers.kubernetes import KubernetesTrace
    from envs.workloads.readers.muri import MuriTrace
    from envs.workloads.readers.openb import OpenbTrace
    from envs.workloads.readers.pai import PaiTrace
    from envs.workloads.readers.philly import PhillyTrace
    from envs.workloads.readers.philly_raw import PhillyRawTrace
    from envs.workloads.readers.rubick import RubickTrace
    from envs.workloads.readers.slurm import SlurmTrace
    from envs.workloads.readers.spot import SpotTrace
    from envs.workloads.readers.swf import SwfTrace
    from envs.workloads.readers.tiresias import TiresiasTrace

_MODULES = {
    "AcmeTrace": "acme",
    "CsvTrace": "csv_trace",
    "GavelTrace": "gavel",
    "HeliosTrace": "helios",
    "ItpTrace": "itp",
    "JobsTrace": "jobs",
    "KubernetesTrace": "kubernetes",
    "MuriTrace": "muri",
    "OpenbTrace": "openb",
    "PaiTrace": "pai",
    "PhillyTrace": "philly",
    "PhillyRawTrace": "philly_raw",
    "RubickTrace": "rubick",
    "SlurmTrace": "slurm",
    "SpotTrace": "spot",
    "SwfTrace": "swf",
    "TiresiasTrace": "tiresias",
}


def __getattr__(name: str) -> Any:
    """Import a reader by its name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


__all__ = [
    "AcmeTrace",
    "BadRow",
    "CsvTrace",
    "GavelTrace",
    "HeliosTrace",
    "ItpTrace",
    "JobsTrace",
    "KubernetesTrace",
    "MuriTrace",
    "OpenbTrace",
    "PaiTrace",
    "PhillyRawTrace",
    "PhillyTrace",
    "ReadReport",
    "RubickTrace",
    "SlurmTrace",
    "SpotTrace",
    "SwfTrace",
    "TiresiasTrace",
    "TraceReader",
    "locate",
]
