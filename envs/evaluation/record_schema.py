"""Which values a record may have: every line has its keys and no others, and every value a type and a range."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from envs.metrics import Summary
from envs.types import MurmurationError

FORMAT = 3  # version of the files; format 1 had no checksum, format 2 no waits
DIGITS = 9  # significant digits of the metrics of an episode
JOB_DIGITS = 3  # of the figures of jobs
MOST = 1e18  # the largest number, in any unit
LONGEST = 2000  # characters of a text

Check = Callable[[Any], bool]


class RecordError(MurmurationError):
    """A record is damaged, or says what cannot be; the message begins with a verb and names no file."""


def is_text(value: object) -> bool:
    """Whether a value is text that can be printed in a line."""
    return isinstance(value, str) and len(value) <= LONGEST and (value == "" or value.isprintable())


def is_hash(value: object) -> bool:
    """Whether a value is a hash as this project writes them."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{12}", value) is not None


def is_count(value: object) -> bool:
    """Whether a value is a whole number that can count something."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number, and not too large for a float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MOST


def is_amount(value: object, digits: int = DIGITS) -> bool:
    """Whether a value is a number from 0 on, with no more significant digits than are recorded."""
    return is_number(value) and value >= 0 and float(f"{value:.{digits}g}") == value


def is_known(value: object) -> bool:
    """Whether a value is an amount, infinite, or none because there was nothing to measure."""
    return value is None or value == "inf" or is_amount(value)


def is_share(value: object) -> bool:
    """Whether a value is a share of 1, or none; rounding may lead a hair beyond the ends."""
    return value is None or (is_number(value) and -1e-8 <= value <= 1 + 1e-8 and is_amount(abs(value)))


HEADER: Mapping[str, Check] = {
    "scheduler": is_text,
    "task": is_text,
    "hash": is_hash,
    "configuration": lambda value: isinstance(value, dict),
    "num_episodes": is_count,
    "package_version": is_text,
    "inapplicable": is_text,
    "world_version": is_count,
    "sources": lambda value: value == "" or is_hash(value),
    "format": is_count,
    "configuration_hash": is_hash,
    "digits": lambda value: is_count(value) and value == JOB_DIGITS,
    "checksum": is_hash,
}
OF_EACH = ("jct", "wait", "time_to_start")  # figures of every measured job, in seconds
EPISODE: Mapping[str, Check] = {
    "workload": is_text,
    "num_rounds": is_count,
    "decision_seconds": is_amount,
    "chose_batches": lambda value: isinstance(value, bool),
    "num_late": is_count,
    "stay": is_amount,
    "beyond": is_amount,
    "summary": lambda value: isinstance(value, dict),
    **dict.fromkeys(OF_EACH, lambda value: isinstance(value, list)),
}
LEFT = ("at_limit", "never_ran")  # places among the measured jobs that left without finishing, with their stays
OPTIONAL: Mapping[str, Check] = {
    "named_plans": lambda value: value is True,
    **dict.fromkeys(LEFT, lambda value: isinstance(value, list) and len(value) > 0),
}
COUNTS = ("num_measured", "num_unfinished", "num_compared", "preemptions", "restarts")
SHARES = (
    "jain_index",
    "utilisation",
    "fragmentation",
    "limited_by_gpus",
    "limited_by_cpus",
    "limited_by_memory",
    "limited_by_network",
    "queue_share",
)
SUMMARY: Mapping[str, Check] = {
    each.name: is_count if each.name in COUNTS else is_share if each.name in SHARES else is_known
    for each in dataclasses.fields(Summary)
}


def check_header(first: object) -> None:
    """Assert that the first line of a record may be one.

    Raises:
        RecordError: it is not.
    """
    if isinstance(first, dict) and is_count(first.get("format")) and first["format"] != FORMAT:
        raise RecordError(f"has format {first['format']}, not {FORMAT}")
    values = _check_keys(first, HEADER, {}, "its first line")
    if (values["num_episodes"] == 0) != bool(values["inapplicable"]):
        raise RecordError("has no episodes, or has some, against the reason why the scheduler cannot run")


def check_episode(line: object, number: int) -> None:
    """Assert that a further line of a record may be an episode.

    Raises:
        RecordError: it is not; names the episode and the value.
    """
    values = _check_keys(line, EPISODE, OPTIONAL, f"episode {number}")
    _check_keys(values["summary"], SUMMARY, {}, f"episode {number}: summary")
    for name in LEFT:
        for entry in values.get(name, ()):
            if not _is_entry(entry, values["jct"]):
                said = f"{name} has {show(entry)}; it must be the place of a job without a JCT, and its stay in seconds"
                raise RecordError(f"episode {number}: {said}")
    gone = {entry[0] for entry in values.get("never_ran", ())}
    for name in OF_EACH:
        if len(values[name]) != len(values["jct"]):
            raise RecordError(f"episode {number}: has {len(values['jct'])} JCTs, but {name} of {len(values[name])}")
        for place, seconds in enumerate(values[name]):
            if not _is_of_job(name, seconds, never_ran=place in gone):
                above = "above 0 s" if name == "jct" else "0 s or more"
                said = f"{name} {place} is {show(seconds)}; it must be {above}, with {JOB_DIGITS} digits"
                raise RecordError(f"episode {number}: {said}")


def _is_entry(entry: object, jct: Sequence[object]) -> bool:
    """Whether an entry of `LEFT` names a job without a JCT and its stay."""
    if not isinstance(entry, list) or len(entry) != 2 or not is_count(entry[0]) or not entry[0] < len(jct):
        return False
    return jct[entry[0]] is None and is_amount(entry[1], JOB_DIGITS)


def _is_of_job(name: str, seconds: object, *, never_ran: bool) -> bool:
    """Whether a job may have this figure of `OF_EACH`: a wait unless it never ran, others if it ended or started."""
    if seconds is None:
        return never_ran or name != "wait"
    return is_amount(seconds, JOB_DIGITS) and (seconds != 0 or name != "jct")


def _check_keys(line: object, required: Mapping[str, Check], optional: Mapping[str, Check], of: str) -> dict[str, Any]:
    if not isinstance(line, dict):
        raise RecordError(f"is no record ({of} is no mapping)")
    for name in [*required, *line]:
        check = required.get(name) or optional.get(name)
        if check is None or name not in line:
            raise RecordError(f"{of} {'has the unknown key' if check is None else 'lacks'} {show(name)}")
        if not check(line[name]):
            raise RecordError(f"{of}: {name} is {show(line[name])}, which it cannot be")
    return line


def show(value: object) -> str:
    """Return a value for a message, in one short line."""
    text = ascii(value) if not isinstance(value, dict | list) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
