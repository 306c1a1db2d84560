"""Read a `slurm.conf` (man slurm.conf): what the scheduler goes by; the names of other settings are kept."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from baselines.slurm.settings import Partition, SlurmSettings
from envs.types import MurmurationError, Seconds, did_you_mean
from envs.types.units import DAY

_PAIR = re.compile(r"""\s*([A-Za-z0-9_./]+)\s*=\s*("[^"]*"|'[^']*'|\S*)""", re.ASCII)
_TIME = re.compile(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,4}))?(?::(\d{1,4}))?", re.ASCII)
_RESETS = {"NONE": 0.0, "NOW": 0.0, "DAILY": DAY, "WEEKLY": 7 * DAY, "MONTHLY": 30 * DAY, "QUARTERLY": 91 * DAY}
_RESETS["YEARLY"] = 365 * DAY
MODES = ("OFF", "REQUEUE", "CANCEL", "SUSPEND")
Convert = Callable[[str], Any]  # raises ValueError with what is allowed


def read_time(text: str) -> Seconds:
    """Return a time of slurm.conf, such as 90 (minutes) or 1-12:00:00, in seconds; infinite for UNLIMITED.

    Raises:
        ValueError: it has another form; the message says which are allowed.
    """
    if text.upper() in ("UNLIMITED", "INFINITE", "-1"):
        return math.inf
    parts = _TIME.fullmatch(text)
    if parts is None:
        raise ValueError("a time: minutes, minutes:seconds, hours:minutes:seconds, days-hours, or UNLIMITED")
    days, *others = (None if part is None else int(part) for part in parts.groups())
    first, second, third = (0 if part is None else part for part in others)
    if days is not None:
        return days * DAY + first * 3600.0 + second * 60.0 + third
    if others[2] is not None:
        return first * 3600.0 + second * 60.0 + third
    return first * 60.0 + second


def _number(low: float = 0.0, high: float = 1e12, factor: float = 1.0) -> Convert:
    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise ValueError(f"a number from {low:g} to {high:g}")
        return value * factor

    return convert


def _whole(low: int = 0, high: int = 10**9) -> Convert:
    def convert(text: str) -> int:
        if not re.fullmatch(r"\d{1,10}", text, re.ASCII) or not low <= int(text) <= high:
            raise ValueError(f"a whole number from {low:,} to {high:,}")
        return int(text)

    return convert


def _one_of(choices: Mapping[str, Any]) -> Convert:
    def convert(text: str) -> Any:
        known = {name.lower(): value for name, value in choices.items()}
        if text.lower() not in known:
            raise ValueError(f"one of {', '.join(choices)}")
        return known[text.lower()]

    return convert


def _flags(text: str) -> frozenset[str]:
    flags = frozenset(flag.strip().upper() for flag in text.split(",") if flag.strip())
    return flags | {"NO_FAIR_TREE"} if "DEPTH_OBLIVIOUS" in flags else flags  # man slurm.conf: it enables that


def _mode(text: str) -> str:
    words = [word for word in text.upper().split(",") if word not in ("GANG", "WITHIN")]
    if len(words) > 1 or any(word not in MODES for word in words):
        raise ValueError(f"one of {', '.join(MODES)}")
    return words[0] if words else "OFF"


_SWITCH = _one_of({"YES": True, "NO": False, "TRUE": True, "FALSE": False, "1": True, "0": False})
_KEYS: dict[str, tuple[str, Convert]] = {
    "PriorityType": ("multifactor", _one_of({"priority/multifactor": True, "priority/basic": False})),
    "PriorityWeightAge": ("weight_age", _number()),
    "PriorityWeightFairshare": ("weight_fairshare", _number()),
    "PriorityWeightJobSize": ("weight_job_size", _number()),
    "PriorityWeightPartition": ("weight_partition", _number()),
    "PriorityWeightQOS": ("weight_qos", _number()),
    "PriorityMaxAge": ("max_age", lambda text: max(read_time(text), 1.0)),
    "PriorityDecayHalfLife": ("half_life", read_time),
    "PriorityCalcPeriod": ("calc_period", _number(1, 1e6, 60.0)),
    "PriorityUsageResetPeriod": ("usage_reset", _one_of(_RESETS)),
    "PriorityFavorSmall": ("favor_small", _SWITCH),
    "PriorityFlags": ("flags", _flags),
    "FairShareDampeningFactor": ("dampening", _number(1)),
    "SchedulerType": ("backfill", _one_of({"sched/backfill": True, "sched/builtin": False})),
    "PreemptType": (
        "preempt_type",
        _one_of({f"preempt/{name}": name for name in ("none", "qos", "partition_prio")}),
    ),
    "PreemptMode": ("preempt_mode", _mode),
}
_PARAMETERS: dict[str, tuple[str, Convert]] = {  # of SchedulerParameters
    "bf_window": ("bf_window", _number(1, 43200, 60.0)),
    "bf_resolution": ("bf_resolution", _number(1, 3600)),
    "bf_interval": ("bf_interval", _number(1, 10800)),
    "bf_window_linear": ("bf_window_linear", _number()),
    "bf_max_job_test": ("bf_max_job_test", _whole(1, 1_000_000)),
    "bf_max_job_user": ("bf_max_job_user", _whole()),
    "bf_max_job_part": ("bf_max_job_part", _whole()),
    "bf_job_part_count_reserve": ("bf_job_part_count_reserve", _whole(0, 100_000)),
    "default_queue_depth": ("default_queue_depth", _whole()),
    "sched_interval": ("sched_interval", _number(1)),
}
_OF_PARTITION: dict[str, tuple[str, Convert]] = {
    "PriorityTier": ("tier", _whole(0, 65533)),
    "PriorityJobFactor": ("job_factor", _number(0, 65533)),
    "Default": ("default", _SWITCH),
    "MaxTime": ("max_time", read_time),
    "DefaultTime": ("default_time", read_time),
    "PreemptMode": ("preempt_mode", _mode),
    "LLN": ("lln", _SWITCH),
}
_OF_PARTITION["MaxNodes"] = "max_nodes", lambda text: math.inf if read_time(text) == math.inf else _whole(1)(text)
# Settings of daemons, files, accounts and start-up, which change no decision.
_UNRELATED = re.compile(
    r"(?:ClusterName|Slurm\w*|Auth\w*|Cred\w*|State\w*|\w*(?:Log|Pid)File|\w*Debug\w*|Proctrack\w*|TaskPlugin\w*|Mpi\w*|"
    r"Switch\w*|JobAcct\w*|JobComp\w*|Accounting\w*|GresTypes|Communication\w*|ReturnToService|KillWait|InactiveLimit|"
    r"MinJobAge|\w*Timeout|\w*(?:Prolog|Epilog)\w*|MailProg|PluginDir|LaunchParameters|RebootProgram|TmpFS|CryptoType)",
    re.IGNORECASE,
)
_UNSAID = ("nodes", "state", "partitionname")  # of partitions: the cluster's pools say which nodes they have


def _find(table: Mapping[str, Any], key: str) -> str:
    return next((name for name in table if name.lower() == key.lower()), "")


class ConfReader:
    """Settings as they are read, line by line; `settings` is the outcome."""

    def __init__(self) -> None:
        self.settings = SlurmSettings()
        self._partition_defaults: dict[str, Any] = {}
        self._node_defaults: dict[str, str] = {}
        self._left_out: dict[str, None] = {}

    def read(self, path: Path) -> None:
        """Read a file.

        Raises:
            MurmurationError: a line is wrong; the message names the file, the line and what is allowed.
        """
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            reason = error.strerror or error
            raise MurmurationError(f"{path}: cannot be read ({reason}); set scheduler.conf to a slurm.conf") from error
        for number, line in whole_lines(text):
            self._read_line(f"{path}:{number}", line)
        self._leave_out()

    def set(self, values: Mapping[str, Any]) -> None:
        """Set values by Slurm's names, as the scheduler's argument `settings` has them.

        Raises:
            MurmurationError: a name is unknown, or a value is wrong.
        """
        known = [*_KEYS, *_PARAMETERS, "PriorityWeightTRES", "SchedulerParameters", "SelectTypeParameters"]
        for key, value in values.items():
            if not _find(dict.fromkeys(known), key):
                raise MurmurationError(
                    f"scheduler.settings: {key} is no setting that is modelled{did_you_mean(key, known)}; there are: "
                    f"{', '.join(known)}"
                )
            text = ("YES" if value else "NO") if isinstance(value, bool) else str(value)
            if name := _find(_PARAMETERS, key):
                self._set("scheduler.settings", _PARAMETERS, name, text)
            else:
                self._top("scheduler.settings", key, text)
        self._leave_out()

    def set_partitions(self, partitions: Mapping[str, Mapping[str, Any]]) -> None:
        """Add or change partitions by the names of their settings in a `PartitionName` line."""
        for name, values in partitions.items():
            self._partition(f"scheduler.partitions.{name}", [("PartitionName", name), *_texts(values)])
        self._leave_out()

    def _read_line(self, place: str, line: str) -> None:
        if line.split(maxsplit=1)[0].lower() == "include":
            self._left_out["Include"] = None
            return
        pairs = pairs_of(place, line)
        if pairs[0][0].lower() == "partitionname":
            self._partition(place, pairs)
        elif pairs[0][0].lower() == "nodename":
            self._nodes(place, pairs)
        else:
            for key, value in pairs:
                self._top(place, key, value)

    def _top(self, place: str, key: str, value: str) -> None:
        """Apply one setting of the whole cluster."""
        lower = key.lower()
        if lower == "schedulerparameters":
            for each in filter(None, (part.strip() for part in value.split(","))):
                self._parameter(place, *each.partition("=")[::2])
        elif lower == "selecttypeparameters":
            self.settings = replace(self.settings, lln="CR_LLN" in _flags(value))
        elif lower == "priorityweighttres":
            for each in value.split(","):
                name, _, weight = each.partition("=")
                if name.lower() != "gres/gpu":
                    self._left_out[f"PriorityWeightTRES={name}"] = None
                    continue
                self._set(place, {"PriorityWeightTRES": ("weight_gpus", _number())}, "PriorityWeightTRES", weight)
        elif lower == "selecttype" and value in ("select/cons_tres", "select/cons_res"):
            return
        elif name := _find(_KEYS, key):
            self._set(place, _KEYS, name, value)
            if name == "PriorityFlags":
                self._left_out |= {f"PriorityFlags={flag}": None for flag in sorted(_flags(value) - {"NO_FAIR_TREE"})}
        elif not _UNRELATED.fullmatch(key):
            self._left_out[key] = None

    def _parameter(self, place: str, key: str, value: str) -> None:
        if key.lower() == "bf_continue":  # calculating takes no simulated time, so no plan is ever interrupted
            self.settings = replace(self.settings, bf_continue=True)
        elif key.lower() == "bf_interval" and value == "-1":
            self.settings = replace(self.settings, backfill=False)
        elif key.lower() == "sched_interval" and value == "-1":
            self.settings = replace(self.settings, sched_interval=math.inf)
        elif name := _find(_PARAMETERS, key):
            self._set(place, _PARAMETERS, name, value)
        else:
            self._left_out[f"SchedulerParameters={key}"] = None

    def _set(self, place: str, table: Mapping[str, tuple[str, Convert]], key: str, value: str) -> None:
        self.settings = replace(self.settings, **{table[key][0]: _converted(place, key, table[key][1], value)})

    def _partition(self, place: str, pairs: list[tuple[str, str]]) -> None:
        values: dict[str, Any] = {}
        for key, value in pairs[1:]:
            if name := _find(_OF_PARTITION, key):
                values[_OF_PARTITION[name][0]] = _converted(place, name, _OF_PARTITION[name][1], value)
            elif key.lower() not in _UNSAID:
                if place.startswith("scheduler."):
                    raise MurmurationError(f"{place}: {key} is not modelled; there are: {', '.join(_OF_PARTITION)}")
                self._left_out[key] = None
        if pairs[0][1].upper() == "DEFAULT":
            self._partition_defaults |= values
            return
        known = dict(self.settings.partitions)
        for name in filter(None, pairs[0][1].split(",")):
            before = known.get(name, Partition(name, **self._partition_defaults))
            known[name] = replace(before, **values)
        self.settings = replace(self.settings, partitions=known)

    def _nodes(self, place: str, pairs: list[tuple[str, str]]) -> None:
        """Keep the weight of nodes by their GPU type; all else about them is the cluster's."""
        own = {key.lower(): value for key, value in pairs}
        if own["nodename"].upper() == "DEFAULT":
            self._node_defaults |= own
            return
        own = self._node_defaults | own
        if "weight" not in own:
            return
        weight = _converted(place, "Weight", _number(), own["weight"])
        found = re.search(r"gpu:([A-Za-z][^:,]*)", own.get("gres", ""))
        gpu_type = found[1].lower() if found else ""
        if self.settings.weights.get(gpu_type, weight) != weight:
            self._left_out["different Weight of nodes of one GPU type"] = None
        weights = {gpu_type: weight} | dict(self.settings.weights)
        self.settings = replace(self.settings, weights=weights)

    def _leave_out(self) -> None:
        self.settings = replace(self.settings, not_modelled=tuple(self._left_out))


def pairs_of(place: str, line: str) -> list[tuple[str, str]]:
    """Return the settings of a line, (name, value) each; none of a line that includes another file.

    Raises:
        MurmurationError: it has something else.
    """
    pairs: list[tuple[str, str]] = []
    end = 0
    if line.split(maxsplit=1)[0].lower() == "include":
        return pairs
    while match := _PAIR.match(line, end):
        pairs.append((match[1], match[2].strip("\"'")))
        end = match.end()
    if not pairs or line[end:].strip():
        raise MurmurationError(f"{place}: {line.strip()[:80]!r} is no setting; write Name=value, or # before it")
    return pairs


def whole_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that say something with their numbers: without comments, and joined where they go on."""
    start, held = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        said = re.sub(r"(?<!\\)#.*", "", line).rstrip()
        start = start or number
        held += said[:-1] if said.endswith("\\") else said
        if not said.endswith("\\"):
            if held.strip():
                yield start, held
            start, held = 0, ""
    if held.strip():
        yield start, held


def _texts(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return values of YAML as texts; YAML reads YES and NO as truth values."""
    return [(key, ("YES" if v else "NO") if isinstance(v, bool) else str(v)) for key, v in values.items()]


def _converted(place: str, key: str, convert: Convert, value: str) -> Any:
    try:
        return convert(value)
    except ValueError as allowed:
        raise MurmurationError(f"{place}: {key} is {value[:60]!r}; it must be {allowed}") from None
