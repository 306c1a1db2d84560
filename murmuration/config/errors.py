"""Errors of the user in one line, whichever layer found them; faults of the code keep their trace."""

import errno
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from hydra import errors
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from envs.types import MurmurationError, as_line, did_you_mean
from murmuration.home import IN_WHEEL
from murmuration.streams import checked_output

NO_ROOM = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EFBIG,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
)  # errors of the operating system, not of the code
AGAIN = 3.0  # seconds until an interrupt that did not arrive is raised again
SOON = 0.05  # seconds until one that could not be raised is tried again
ANSWERS_TO_COMPILER = "_raw_object_cache_"  # how the names of llvmlite's functions begin that LLVM calls
LONGEST = 1400  # characters of a line, whose end says what to do
LEARN_MODULES = ("ray", "safetensors", "torch")  # every other import is a dependency of the base installation
INSTALL_LEARN = "pip install 'murmuration[learn]'" if IN_WHEEL else "pip install -c constraints.txt -e '.[learn]'"


class ChoiceError(MurmurationError):
    """A name or an option that does not exist, or a value that is not allowed."""


class RunFailedError(Exception):
    """A run that was finished and written, but not as it should be; the script says why and exits with 1."""


class SchedulersFailedError(RunFailedError):
    """Schedulers failed in a run that was otherwise finished and written; the message names them and their errors."""


class DifferentResultError(RunFailedError):
    """A repeated run has other figures than the earlier one; the message names the first of them."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Print a user's mistake as one line on stderr and exit with 2; MURMURATION_DEBUG=1 shows the trace."""
    interrupt_on_termination()
    try:
        with checked_output(), interrupts_first():
            yield
    except KeyboardInterrupt as interrupt:
        signal.setitimer(signal.ITIMER_REAL, 0.0)  # it has arrived
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)  # another Ctrl-C shall not break off the way out with a trace
        print("interrupted", *interrupt.args, sep="; ", file=sys.stderr)  # the arguments say how to continue
        sys.exit(130)
    except Exception as error:
        message = explain_error(error)
        if message is None or os.environ.get("MURMURATION_DEBUG") == "1":
            raise
        print(f"error: {message}", file=sys.stderr)
        sys.exit(2)


@contextmanager
def interrupts_first() -> Iterator[None]:
    """Raise an interrupt in place of an error that came of it, such as one while workers are stopped.

    Raises:
        KeyboardInterrupt: the interrupt.
    """
    try:
        yield
    except Exception as error:
        if interrupt := comes_of_interrupt(error):
            raise interrupt from None
        raise


def interrupt_on_termination() -> None:
    """Treat SIGTERM, which Slurm and Docker send, like Ctrl-C, and repeat an interrupt that was lost.

    A library in C may clear an error that comes while it looks for an attribute: NumPy does, for example, where it
    compares an array with a member of an enumeration. So an interrupt is raised again until it is on its way out. It
    waits while Python answers the compiler, which would crash without an answer. Nothing in a thread, and for signals
    that are ignored.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        waits = answers_compiler(frame)
        signal.setitimer(signal.ITIMER_REAL, SOON if waits else AGAIN)
        if not waits:
            raise KeyboardInterrupt

    def repeat(number: int, frame: FrameType | None) -> None:
        if comes_of_interrupt(sys.exc_info()[1]):
            signal.setitimer(signal.ITIMER_REAL, AGAIN)
        else:
            interrupt(number, frame)

    if threading.current_thread() is not threading.main_thread():
        return
    for each in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, interrupt)
            signal.signal(signal.SIGALRM, repeat)


def answers_compiler(frame: FrameType | None) -> bool:
    """Whether a function is running that LLVM has called."""
    while frame is not None:
        if frame.f_code.co_name.startswith(ANSWERS_TO_COMPILER):
            return True
        frame = frame.f_back
    return False


def comes_of_interrupt(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the interrupt in whose handling an error was raised, perhaps the error itself; None without one."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


@contextmanager
def short_errors() -> Iterator[None]:
    """Replace a user's mistake by its explanation, for a process whose errors another process prints.

    Raises:
        ChoiceError: the line that `one_line_errors` prints.
    """
    try:
        yield
    except Exception as error:
        message = explain_error(error)
        if message is None:
            raise
        raise ChoiceError(message) from None  # without causes, which may not pass between processes


def explain_error(error: BaseException) -> str | None:
    """One line that names the thing, the value, what is allowed and the fix; None if it is not the user's mistake."""
    found = _explain(error)
    if found is None:
        return None
    line = as_line(found)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 400]} ... {line[-400:]}"


def _explain(error: BaseException) -> str | None:
    explanations = [explain_missing_extra(link) for link in _chain(error)]
    explanations += [str(link) for link in _chain(error) if isinstance(link, MurmurationError)]
    if found := next(filter(None, explanations), None):
        return found
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return f"{error.filename or 'a file of the run'}: cannot be written ({error.strerror}); make room and run again"
    if isinstance(error, MemoryError):
        return f"there is not enough memory ({error or 'an allocation failed'}); choose smaller or fewer workloads"
    if isinstance(error, errors.MissingConfigException):
        return _explain_unknown_choice(error)
    if isinstance(error, errors.ConfigCompositionException):
        return _explain_unknown_key(error)
    if isinstance(error, errors.OverrideParseException):
        return _explain_syntax(str(error.override))
    if isinstance(error, errors.InstantiationException):
        return None  # options are checked earlier, so an exception of a constructor is a fault and keeps its trace
    return _first_line(error) if isinstance(error, errors.HydraException | OmegaConfBaseException) else None


def explain_missing_extra(error: BaseException) -> str | None:
    """One line for an import that failed because an extra is not installed; None for any other error."""
    if not isinstance(error, ModuleNotFoundError):
        return None
    module = (error.name or "").partition(".")[0]
    if module in LEARN_MODULES:
        return f"{error.name} is not installed; training and trained policies need it: {INSTALL_LEARN}"
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and its causes, outermost first; OmegaConf raises its own error in place of a resolver's."""
    while error is not None:
        yield error
        error = error.__cause__ or (error.__context__ if isinstance(error, OmegaConfBaseException) else None)


def _explain_unknown_choice(error: errors.MissingConfigException) -> str:
    """A group has no file of this name."""
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    if not group or not error.options:
        return _first_line(error)
    hint = did_you_mean(name, error.options, lead=", ")
    return f"{group}={name}: no such {group}{hint}; there are: {', '.join(error.options)}"


def _explain_syntax(option: str) -> str:
    """Hydra cannot read an option: it is no key=value, or its value has letters that need quotes."""
    key, _, value = option.partition("=")
    if value.strip() and value[0] not in "[{(" and re.fullmatch(r"[+\w./@-]+", key):
        return f"{option!r}: the value has letters that need quotes; write {quote_value(key, value)}"
    return f"{option!r} is no override; write key=value, in quotes if the shell could read it otherwise"


def quote_value(key: str, value: str) -> str:
    """Return key=value with quotes for Hydra around the value, and quotes for the shell around all of it."""
    inner = value.strip("\"'").replace('"', '\\"')
    return shlex.quote(f'{key}="{inner}"')


def _explain_unknown_key(error: errors.ConfigCompositionException) -> str:
    """An override sets a key that the config does not have."""
    cause = error.__cause__
    if found := re.match(r"Error merging override (\+*([^=]+)=.*)", str(error).splitlines()[0]):
        return f"{found[1]}: {found[2]} is a group of options; set one of them, as in {found[2]}.<option>=<value>"
    if found := re.match(r"Ambiguous value for argument '\+*([^=]+)=(.*)'$", str(error).strip().splitlines()[0]):
        return (
            f"{found[1]}={found[2]}: commas separate the values of --multirun; for a text write "
            f"{quote_value(found[1], found[2])}, for a list {found[1]}=[<value>,<value>]"
        )
    if not re.search(r"Could not override '", str(error)) or not isinstance(cause, OmegaConfBaseException):
        return _first_line(error)
    keys = sorted(map(str, cause.parent_node)) if isinstance(cause.parent_node, DictConfig) else []
    keys = [key for key in keys if key != "hydra"]
    return f"{cause.full_key}: no such key{did_you_mean(str(cause.key), keys, lead=', ')}; there are: {', '.join(keys)}"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
