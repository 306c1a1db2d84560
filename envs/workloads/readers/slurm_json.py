"""Values of the JSON of Slurm's commands as text, as the commands print them without --json."""

import re
from datetime import UTC, datetime
from typing import Any

UNLIMITED, NO_TIME = "UNLIMITED", ("Unknown", "None", "")


def text_of(value: Any) -> str:
    """Return a text; "" for anything else."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def number_of(value: Any) -> str:
    """Return a number of Slurm's JSON as text: plain, or as {set, infinite, number}; "" if there is none."""
    if isinstance(value, dict):
        if value.get("infinite") is True:
            return UNLIMITED
        value = value.get("number") if value.get("set", True) is True else None
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def instant_of(seconds: str) -> str:
    """Return seconds since 1970 as a time with its zone; what is none stays as it is."""
    if seconds in ("", "0"):
        return NO_TIME[0]
    try:
        return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return seconds


def clock_of(number: str, seconds_each: int) -> str:
    """Return a duration as sacct prints it; what is none stays as it is."""
    if not re.fullmatch(r"[0-9]{1,12}", number, re.ASCII):
        return number
    minutes, seconds = divmod(int(number) * seconds_each, 60)
    return f"{minutes // 1440}-{minutes // 60 % 24:02}:{minutes % 60:02}:{seconds:02}"
