"""A user's mistake in one line, whatever layer found it."""

import re
from collections.abc import Iterator

from hydra import errors
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from envs.types import MurmurationError
from launch.extras import missing
from launch.names import near


def explained(error: BaseException) -> str | None:
    """One line that names the thing, the value, what is allowed and the fix; None if it is not the user's mistake."""
    said = [missing(link) for link in chain(error)]
    said += [str(link) for link in chain(error) if isinstance(link, MurmurationError)]
    if found := next(filter(None, said), None):
        return found
    if isinstance(error, errors.MissingConfigException):
        return unknown_choice(error)
    if isinstance(error, errors.ConfigCompositionException):
        return unknown_key(error)
    if isinstance(error, errors.OverrideParseException):
        return f"{error.override!r} is no override; write key=value, in quotes if the shell could read it otherwise"
    if isinstance(error, errors.InstantiationException):
        return None  # options are checked before: what a constructor then raises is a fault, with a trace
    return first_line(error) if isinstance(error, errors.HydraException | OmegaConfBaseException) else None


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what caused it, outermost first; OmegaConf raises its own in place of a resolver's."""
    while error is not None:
        yield error
        error = error.__cause__ or (error.__context__ if isinstance(error, OmegaConfBaseException) else None)


def unknown_choice(error: errors.MissingConfigException) -> str:
    """A group's file that does not exist."""
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    if not group or not error.options:
        return first_line(error)
    return f"{group}={name}: no such {group}{near(name, error.options)}; there are: {', '.join(error.options)}"


def unknown_key(error: errors.ConfigCompositionException) -> str:
    """An override of a key that the config does not have."""
    found, cause = re.search(r"Could not override '([^']+)'", str(error)), error.__cause__
    if not found or not isinstance(cause, OmegaConfBaseException):
        return first_line(error)
    keys = sorted(map(str, cause.parent_node)) if isinstance(cause.parent_node, DictConfig) else []
    keys = [key for key in keys if key != "hydra"]
    return f"{found.group(1)}: no such key{near(found.group(1).rpartition('.')[2], keys)}; there are: {', '.join(keys)}"


def first_line(error: BaseException) -> str:
    """The first line of a message."""
    return (str(error).splitlines() or [type(error).__name__])[0]
