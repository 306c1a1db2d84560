"""Several schedulers on one command line, said in Hydra's words."""

from collections.abc import Sequence

from launch.experiments import brings_schedulers
from launch.names import ChoiceError, choices, near
from launch.sets import EVERYTHING, FAST, GPUS_ALONE

GROUP = "scheduler"


def with_schedulers(typed: Sequence[str], default: str) -> list[str]:
    """The command line with each chosen scheduler as a group choice of its own, under `schedulers`.

    `scheduler=all`, `scheduler=fast`, `scheduler=fifo`, `scheduler=[fifo,srtf]` choose, `scheduler=[]` none, for
    the user's own alone. `scheduler.backfill=skip` goes to the only one chosen. What is chosen joins the schedulers of
    an experiment that names its own; if nothing is typed, those are all.

    Args:
        typed: the arguments.
        default: what is chosen if nothing is typed.

    Raises:
        ChoiceError: no such scheduler, or an option for a single scheduler where several were chosen.
    """
    values = [argument.partition("=")[2].strip() for argument in typed if argument.startswith(f"{GROUP}=")]
    value = values[-1] if values else "" if any(map(brings_schedulers, typed)) else default
    names = selected(value)
    rest = [for_the_only(argument, names) for argument in typed if not argument.startswith(f"{GROUP}=")]
    optional = ["++optional=true"] if value in (EVERYTHING, GPUS_ALONE) else []
    return [f"+{GROUP}@schedulers.{name}={name}" for name in names] + optional + rest


def selected(value: str) -> list[str]:
    """Names out of `all`, `fast`, `name` or `[name,name]`, in the order given, each once."""
    known = choices(GROUP)
    inside = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    wanted = [name for name in inside.replace(" ", "").split(",") if name]
    if wanted == [EVERYTHING]:
        return known
    if wanted == [GPUS_ALONE]:
        return list(FAST)
    for name in wanted:
        if name not in known:
            there = ", ".join([EVERYTHING, GPUS_ALONE, *known])
            raise ChoiceError(f"scheduler={name}: no such scheduler{near(name, known)}; there are: {there}")
    return list(dict.fromkeys(wanted))


def for_the_only(argument: str, names: Sequence[str]) -> str:
    """`scheduler.key=value` as an option of the only scheduler chosen; anything else as it is."""
    option = argument.lstrip("+")
    if not option.startswith(f"{GROUP}."):
        return argument
    key = option.removeprefix(f"{GROUP}.")
    if len(names) != 1:
        some = names[0] if names else "<name>"
        raise ChoiceError(f"{option}: {len(names)} schedulers are chosen; say which, as in schedulers.{some}.{key}")
    return f"schedulers.{names[0]}.{key}"
