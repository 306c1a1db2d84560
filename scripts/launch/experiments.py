"""Experiments: whole set-ups by name."""

from launch.names import CONF

GROUP = "experiment"


def brings_schedulers(argument: str) -> bool:
    """Whether an argument chooses an experiment that names its schedulers, so that none is added unasked."""
    group, _, name = argument.partition("=")
    path = CONF / GROUP / f"{name.strip()}.yaml"
    return group.lstrip("+") == GROUP and path.exists() and "\nschedulers:" in path.read_text(encoding="utf-8")
