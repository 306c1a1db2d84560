"""The schema of `policy.json`: types and bounds, checked before anything that the file names is imported."""

import dataclasses
import json
import math
import re
import stat
import typing
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from agents.networks import Blueprint
from envs.bidding import BiddingRules, BiddingSpec
from envs.bidding.columns import BID_BATCH, BID_COLUMNS
from envs.evaluation.files import whole_file
from envs.options import OptionRules, OptionSpec
from envs.types import CheckpointError, MurmurationError

WEIGHTS, DESCRIPTION = "weights.safetensors", "policy.json"  # the files of a checkpoint
NO_DESCRIPTION, NO_WEIGHTS = "is not a policy description", "does not contain this network's weights"
LARGEST_FILE = 1_000_000  # bytes
LARGEST: Mapping[str, int] = {  # of the numbers in `rules`
    "num_candidates": 100_000,
    "max_starts": 1_000_000,
    "max_decisions": 1_000_000,
    "subrounds": 1_000_000,
    "decisions_per_gpu": 1_000_000,
    "at_once_per_node": 1_000_000,
    "patience": 1_000_000,
    "candidates_per_node": 1000,
    "contenders": 1000,
}
LEAST: Mapping[str, int] = {"contenders": 0}  # of whole numbers that need not be positive
BID_COUNTS = (BID_BATCH, len(BID_COLUMNS))  # without and with bids for batch sizes
LARGEST_OPTION = 65_536  # magnitude of a number among the network's options
LARGEST_OPTIONS: Mapping[str, int] = {
    "layers": 64,
    "width": 8192,
    "heads": 256,
    "rounds": 64,
}  # of the networks of this project
NUM_OPTIONS = 100  # values among the network's options
LONGEST_TEXT = 200  # characters of a name
DEEPEST_OPTION = 4  # levels of the market's options
LARGEST_NUMBER = 10**12  # magnitude of a number among the market's options
OPTION_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")  # no name of a class such as `_target_`
PLAIN_TEXT = re.compile(rf"[\w .,:/+-]{{0,{LONGEST_TEXT}}}")  # in particular without `${` and `???`


def write_policy(folder: Path, network: nn.Module, description: Mapping[str, Any]) -> None:
    """Write a network's weights and a description into a folder; each file is replaced as a whole."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    with whole_file(folder / DESCRIPTION) as text, whole_file(folder / WEIGHTS) as numbers:
        save_file(weights, str(numbers))
        text.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Read a description.

    Raises:
        CheckpointError: it is too large, is no JSON object, or has numbers that JSON does not know.
        OSError: it cannot be read.
        ValueError: it is no JSON.
    """
    require_file(path)
    if path.stat().st_size > LARGEST_FILE:
        raise CheckpointError(f"it has {path.stat().st_size:,} bytes, at most {LARGEST_FILE:,} are read")

    def refuse(constant: str) -> None:
        raise CheckpointError(f"{constant} is no JSON number")

    try:
        found = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    except RecursionError as error:
        raise CheckpointError("it is nested too deeply") from error
    if not isinstance(found, dict) or "format" not in found:
        raise CheckpointError("it is no JSON object with a format")
    return found


def require_file(path: Path) -> None:
    """Check that a path is no pipe or device, which may have no end.

    Raises:
        CheckpointError: it is one, or a folder.
        OSError: there is nothing.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise CheckpointError("it is no file")


def check_blueprint(description: Mapping[str, Any], networks: Collection[str]) -> None:
    """Check the network that a description names, and its options.

    Raises:
        CheckpointError: names the field, its value, and what is allowed.
    """
    network = _mapping(description, "network")
    target = network.get("target")
    if not isinstance(target, str) or target not in networks:
        raise CheckpointError(
            f"network.target is {_short(target)}, which is no network of this project; if it is your own and you trust "
            f"it, add trust=[{_short(target).strip(chr(39))}]"
        )
    _check_options(_mapping(network, "options", "network."))


def check_bidding_description(description: Mapping[str, Any], networks: Collection[str]) -> None:
    """Check types and bounds of the description of a bidding policy.

    Args:
        description: the content of `policy.json`.
        networks: import paths of the network classes that it may name.

    Raises:
        CheckpointError: names the field, its value, and what is allowed.
    """
    check_blueprint(description, networks)
    if description.get("num_bids") not in BID_COUNTS:
        raise CheckpointError(f"num_bids is {_short(description.get('num_bids'))}; it must be one of {BID_COUNTS}")
    check_fields("rules", _mapping(description, "rules"), BiddingRules)
    check_market(_mapping(description, "market"))
    _mapping(description, "notes")


def check_option_description(description: Mapping[str, Any], networks: Collection[str]) -> None:
    """Check types and bounds of the description of a policy that chooses options.

    Args:
        description: the content of `policy.json`.
        networks: import paths of the network classes that it may name.

    Raises:
        CheckpointError: names the field, its value, and what is allowed.
    """
    check_blueprint(description, networks)
    check_fields("rules", _mapping(description, "rules"), OptionRules)
    notes = _mapping(description, "notes")
    temperature = notes.get("temperature", 0.0)
    if isinstance(temperature, bool) or not isinstance(temperature, int | float) or not 0 <= temperature <= 100:
        raise CheckpointError(f"notes.temperature is {_short(temperature)}; it must be a number from 0 to 100")


def check_market(market: Mapping[str, Any]) -> None:
    """Check the market that a description names, and that its options are plain data.

    Whoever builds the market may hand its options to libraries that interpret texts, such as OmegaConf.

    Raises:
        CheckpointError: names the field, its value, and what is allowed.
    """
    if not isinstance(market.get("name"), str) or len(market["name"]) > LONGEST_TEXT:
        raise CheckpointError(f"market.name is {_short(market.get('name'))}; it must be the name of a market")
    pending: list[tuple[str, Any, int]] = [("market.options", _mapping(market, "options", "market."), 0)]
    for seen, (name, value, depth) in enumerate(pending):
        if seen > NUM_OPTIONS or depth > DEEPEST_OPTION:
            raise CheckpointError(
                f"market.options has more than {NUM_OPTIONS} values or is nested more than {DEEPEST_OPTION} levels deep"
            )
        if isinstance(value, Mapping):
            for key, each in value.items():  # visited by this loop
                if not isinstance(key, str) or not OPTION_NAME.fullmatch(key):
                    raise CheckpointError(f"{name} has no option {_short(key)}; names have letters, digits and _")
                pending.append((f"{name}.{key}", each, depth + 1))
        elif isinstance(value, list):
            if any(isinstance(each, Mapping) for each in value):
                raise CheckpointError(f"{name} is {_short(value)}; a list may not contain objects")
            pending += [(name, each, depth + 1) for each in value]
        else:
            _check_plain(name, value)


def _check_plain(name: str, value: Any) -> None:
    """Check that a value is true or false, null, a finite number, or a short text that nothing interprets.

    Raises:
        CheckpointError: it is not.
    """
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int | float):
        if not abs(value) <= LARGEST_NUMBER:
            raise CheckpointError(f"{name} is {_short(value)}; it must lie between plus and minus {LARGEST_NUMBER:,}")
    elif not isinstance(value, str) or not PLAIN_TEXT.fullmatch(value):
        raise CheckpointError(
            f"{name} is {_short(value)}; a text may have letters, digits, spaces and .,:/+- and at most {LONGEST_TEXT} "
            "characters"
        )


def check_network_size(blueprint: Blueprint, spec: BiddingSpec | OptionSpec, weights: Mapping[str, Tensor]) -> None:
    """Check that a network has no more numbers than its weights, before memory is allocated for it.

    The network is built without memory, on torch's device `meta`. A network that cannot be built there is not checked:
    the project's own can.

    Raises:
        CheckpointError: it has more.
    """
    there = sum(each.numel() for each in weights.values())
    try:
        with torch.device("meta"):
            needed = sum(each.numel() for each in blueprint.build(spec).state_dict().values())
    except Exception:  # a user's network may do anything; building it for real gives the error
        return
    if needed > there:
        raise CheckpointError(
            f"network.options {_short(blueprint.options)} are those of a network of {needed:,} numbers, and its "
            f"weights have {there:,}"
        )


@contextmanager
def explaining_damage(path: Path, what: str) -> Iterator[None]:
    """Turn whatever reading or building raises into one error.

    Args:
        path: the file that is to blame.
        what: what is wrong with it.

    Raises:
        CheckpointError: names the file and the reason.
    """
    try:
        yield
    except MurmurationError as error:
        raise CheckpointError(f"{path} {what} ({error}); copy it again or train anew") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
        # torch lists all names that do not fit.
        reason = " ".join(" ".join(f"{type(error).__name__}: {error}".splitlines()[:2]).split())
        raise CheckpointError(f"{path} {what} ({reason}); copy it again or train anew") from error


def _mapping(values: Mapping[str, Any], name: str, where: str = "") -> Mapping[str, Any]:
    found = values.get(name)
    if not isinstance(found, Mapping):
        raise CheckpointError(f"{where}{name} is {_short(found)}; it must be an object")
    return found


def check_fields(part: str, values: Mapping[str, Any], cls: type) -> None:
    """Check that all fields of a data class have the types of its hints and lie within bounds."""
    hints = typing.get_type_hints(cls)
    for each in dataclasses.fields(cls):
        if each.name not in values and each.default is dataclasses.MISSING:
            raise CheckpointError(f"{part}.{each.name} is missing")
    for name, value in values.items():
        if name not in hints:
            raise CheckpointError(f"{part}.{_short(name)} is no field of it; there are: {', '.join(hints)}")
        hint, most = hints[name], LARGEST.get(name, 0)
        if typing.get_origin(hint) is typing.Literal:
            if value not in typing.get_args(hint):
                allowed = ", ".join(map(str, typing.get_args(hint)))
                raise CheckpointError(f"{part}.{name} is {_short(value)}; it must be one of {allowed}")
        elif hint is bool:
            if not isinstance(value, bool):
                raise CheckpointError(f"{part}.{name} is {_short(value)}; it must be true or false")
        else:
            least = LEAST.get(name, 1) if hint is int else 0
            accepted = int if hint is int else (int, float)
            if isinstance(value, bool) or not isinstance(value, accepted) or not least <= value <= most:
                what = "a whole number" if hint is int else "a number"
                raise CheckpointError(f"{part}.{name} is {_short(value)}; it must be {what} from {least} to {most:,}")


def _check_options(options: Mapping[str, Any]) -> None:
    """Check the keyword arguments of the network: few, plain and small."""
    pending: list[tuple[str, Any]] = list(options.items())
    for seen, (name, value) in enumerate(pending):
        if seen >= NUM_OPTIONS:
            raise CheckpointError(f"network.options has more than {NUM_OPTIONS} values")
        if isinstance(value, list):
            pending += [(name, each) for each in value]  # visited by this loop
        elif isinstance(value, bool) or value is None:
            continue
        elif isinstance(value, int | float):
            most = LARGEST_OPTIONS.get(name, LARGEST_OPTION)
            if not (math.isfinite(value) and abs(value) <= most):
                raise CheckpointError(f"network.options.{name} is {_short(value)}; it may be at most {most:,}")
        elif not isinstance(value, str) or len(value) > LONGEST_TEXT:
            raise CheckpointError(f"network.options.{name} is {_short(value)}; it must be a number, a name or a list")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
