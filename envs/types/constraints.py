"""Where a job may run: its constraints, and the names under which the world keeps what follows from them.

A model name such as "resnet50 where types=A100 pools=batch" stands for the jobs of a model with the same constraints:
one class of jobs. It has throughputs of its own, which are 0 where the constraints forbid a placement. So everything
that reads throughputs by model, compiled code included, sees no forbidden placement as possible. A GPU type such as
"A100:batch+debug#nvlink" stands for the A100 of nodes that are in two pools and have a feature; everything else takes
it for a GPU type of its own, like a slice of a GPU.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from envs.types.errors import ClusterError, MurmurationError
from envs.types.units import Gigabytes

WHERE = " where "  # between the name of a model and its constraints
POOL, FEATURE, AND = ":", "#", "+"
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,64}", re.ASCII)
_TYPE = re.compile(r"[A-Za-z0-9_.\-/]{1,64}", re.ASCII)
_PROFILE = re.compile(r"[1-7]g\.[0-9]{1,3}gb", re.ASCII)
_KEYS = {
    "types": "gpu_types",
    "gpu_gb": "gpu_memory",
    "mig": "mig_profile",
    "nodes": "num_nodes",
    "per_node": "gpus_per_node",
}  # fields of `Constraints` that have a shorter name in the names of models
_SHORT = {full: short for short, full in _KEYS.items()}


@dataclass(frozen=True, slots=True)
class Constraints:
    """What the user of a job requires of its nodes. Without arguments, every node is allowed.

    Raises:
        MurmurationError: a name has other characters than letters, digits, ".", "-" and "_", or a number is negative.
    """

    gpu_types: tuple[str, ...] = ()  # one of these, without pools and features; any if empty
    pools: tuple[str, ...] = ()  # the nodes are in one of these pools, Slurm's partitions; any if empty
    features: tuple[str, ...] = ()  # the nodes have all of these
    gpu_memory: Gigabytes = 0.0  # at least this much memory for each GPU, or slice of one
    mig_profile: str = ""  # slices of this profile, such as 1g.10gb
    max_nodes: int = 0  # at most so many nodes; 0 for any number
    num_nodes: int = 0  # exactly so many nodes
    gpus_per_node: int = 0  # exactly so many GPUs on each of its nodes
    exclusive: bool = False  # no other job on its nodes

    def __post_init__(self) -> None:
        for name, form in (("gpu_types", _TYPE), ("pools", _NAME), ("features", _NAME)):
            given = getattr(self, name)
            texts = (given,) if isinstance(given, str) else tuple(given)
            for text in texts:
                if not form.fullmatch(str(text)):
                    raise MurmurationError(
                        f"constraints.{name} has {str(text)[:64]!r}; use letters, digits, '.', '-' and '_'"
                    )
            object.__setattr__(self, name, tuple(sorted(dict.fromkeys(map(str, texts)))))
        for name in ("gpu_memory", "max_nodes", "num_nodes", "gpus_per_node"):
            value = getattr(self, name)
            whole = name == "gpu_memory" or int(value) == value
            if not (0 <= value < 1e9 and whole):
                raise MurmurationError(f"constraints.{name} is {value}; it must be 0, for none, or a positive number")
        if self.mig_profile and not _PROFILE.fullmatch(self.mig_profile):
            raise MurmurationError(
                f"constraints.mig_profile is {self.mig_profile[:64]!r}; it must be a profile such as 1g.10gb"
            )

        object.__setattr__(self, "gpu_memory", float(self.gpu_memory))
        if self.num_nodes == 1:  # exactly one node is at most one, which more schedulers honour
            object.__setattr__(self, "num_nodes", 0)
            object.__setattr__(self, "max_nodes", 1)

    def __bool__(self) -> bool:
        return self != NO_CONSTRAINTS

    def __str__(self) -> str:
        """Return what is asked for, as in the name of a model: each constraint once, in one order."""
        return " ".join(
            _SHORT.get(each.name, each.name) + ("" if value is True else f"={_text(value)}")
            for each in fields(self)
            if (value := getattr(self, each.name))
        )

    @property
    def shapes(self) -> bool:
        """Whether it asks for a division among nodes that consolidated placements need not have."""
        return bool(self.num_nodes or self.gpus_per_node or self.exclusive)

    def demand_nodes(self, num_gpus: int) -> int:
        """Return the number of nodes on which so many GPUs must be; 0 if there is none."""
        return self.num_nodes or (-(-num_gpus // self.gpus_per_node) if self.gpus_per_node else 0)


NO_CONSTRAINTS = Constraints()


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return AND.join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def constrain(model: str, constraints: Constraints) -> str:
    """Return the name of a model's jobs with some constraints, in place of those that the name has."""
    plain = without_constraints(model)
    return f"{plain}{WHERE}{constraints}" if constraints else plain


def without_constraints(model: str) -> str:
    """Return the name of a model without the constraints of its jobs."""
    return model.partition(WHERE)[0]


@lru_cache(maxsize=1 << 14)
def constraints_of(model: str) -> Constraints:
    """Return the constraints in the name of a model; those of `Constraints()` if it has none.

    Raises:
        MurmurationError: they cannot be read.
    """
    _, mark, text = model.partition(WHERE)
    if not mark:
        return NO_CONSTRAINTS
    forms: dict[str, Any] = {each.name: type(each.default) for each in fields(Constraints)}
    given: dict[str, Any] = {}
    for word in text.split():
        key, _, value = word.partition("=")
        name = _KEYS.get(key, key)
        if name not in forms or name in given:
            known = ", ".join(_SHORT.get(each, each) for each in forms)
            raise MurmurationError(f"model {model[:200]!r}: {word[:64]!r} is no constraint; known: {known}")
        form = forms[name]
        try:
            given[name] = tuple(value.split(AND)) if form is tuple else True if form is bool else form(value)
        except ValueError:
            raise MurmurationError(f"model {model[:200]!r}: {word[:64]!r} must be a number") from None
    return Constraints(**given)


def name_of_nodes(gpu_type: str, pools: Iterable[str] = (), features: Iterable[str] = ()) -> str:
    """Return the GPU type of nodes in some pools and with some features.

    Raises:
        ClusterError: a pool or a feature has another name than letters, digits, ".", "-" and "_".
    """
    name = gpu_type
    for mark, labels in ((POOL, tuple(pools)), (FEATURE, tuple(features))):
        for label in labels:
            if not _NAME.fullmatch(str(label)):
                what = "pool" if mark == POOL else "feature"
                raise ClusterError(
                    f"nodes of {gpu_type}: {what} {str(label)[:64]!r}; use letters, digits, '.', '-' and '_'"
                )
        if chosen := sorted({str(label) for label in labels}):
            name += mark + AND.join(chosen)
    return name


def plain_type(gpu_type: str) -> str:
    """Return a GPU type without the pools and features of its nodes."""
    return gpu_type.partition(FEATURE)[0].partition(POOL)[0]


def pools_of(gpu_type: str) -> tuple[str, ...]:
    """Return the pools of the nodes of a GPU type."""
    return _labels(gpu_type.partition(FEATURE)[0].partition(POOL)[2])


def features_of(gpu_type: str) -> tuple[str, ...]:
    """Return the features of the nodes of a GPU type."""
    return _labels(gpu_type.partition(FEATURE)[2])


def _labels(text: str) -> tuple[str, ...]:
    return tuple(text.split(AND)) if text else ()
