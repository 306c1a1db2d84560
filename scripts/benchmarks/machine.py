"""What the figures were taken on."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("numpy", "numba", "ray", "torch")


def about() -> dict[str, str]:
    """Processor, load, Python and the packages that matter."""
    versions = {name: version(name) for name in PACKAGES}
    load = ", ".join(f"{minutes:.1f}" for minutes in os.getloadavg())
    return {"processor": processor(), "load average": load, "python": platform.python_version(), **versions}


def processor() -> str:
    """Its name, as far as the system tells, and how many there are."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"
