"""A check of a network's outputs on made-up observations, before anything is trained or evaluated with it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from agents.networks.decisions import Decisions
from envs.options import OptionSpec
from envs.types import MurmurationError

BATCHES = (2, 1)  # evaluation has a batch of one, where a `squeeze` without an axis goes wrong


class NetworkError(MurmurationError):
    """A network whose method is missing, fails, or returns another shape than it must."""


def name_of(network: nn.Module) -> str:
    """Return the import path of a network's class."""
    return f"{type(network).__module__}.{type(network).__qualname__}"


def describe_result(value: object) -> str:
    """Describe a result in a few words: a tensor's type and shape, or the class."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return type(value).__name__


def _called(network: nn.Module, method: str, given: Any, shape: tuple[int, ...], axes: str) -> Tensor:
    """Call a method of a network; return its result if that is a finite float32 tensor of this shape."""
    place = f"network {name_of(network)}: {method}"
    expected = f"float32{list(shape)} ({axes})"
    call: Callable[[Any], object] | None = getattr(network, method, None)
    if not callable(call):
        raise NetworkError(f"{place} is missing; add a method {method} that returns {expected}")
    try:
        result = call(given)
    except Exception as error:  # a user's code may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise NetworkError(f"{place} must return {expected} but failed ({reason})") from error
    if not isinstance(result, Tensor) or result.dtype != torch.float32 or tuple(result.shape) != shape:
        raise NetworkError(f"{place} must return {expected} but returned {describe_result(result)}")
    wrong = result[~torch.isfinite(result)]
    if len(wrong):
        raise NetworkError(
            f"{place} must return finite numbers, {expected}, but {len(wrong)} of {result.numel()} are not "
            f"(the first is {float(wrong[0])}); check empty queues and nodes"
        )
    return result


def check_bid_network(network: nn.Module, observation: dict[str, Tensor], num_bids: int) -> None:
    """Check that a network keeps to `BidNetwork` on an observation of two episodes.

    Raises:
        NetworkError: `bids` is missing or fails, or its result has a wrong type, shape or value.
    """
    was_training = network.training
    network.eval()
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            for count in BATCHES:
                rows = {name: array[:count] for name, array in observation.items()}
                shape = (*rows["pair_jobs"].shape, num_bids)
                bids = _called(network, "bids", rows, shape, "batch, nodes, pairs, bids")
                if bool((bids.abs() > 1).any()):
                    raise NetworkError(
                        f"network {name_of(network)}: bids must lie in -1 to 1 but reaches "
                        f"{float(bids.abs().max()):.3g}; end with torch.tanh"
                    )
    finally:
        network.train(was_training)


def check_option_network(network: nn.Module, spec: OptionSpec) -> None:
    """Check that a network scores the options of two decisions and of one.

    In the last decision no job is there, and the only option is waiting. The network's mode and torch's random state
    stay as they are.

    Raises:
        NetworkError: `scores` is missing or fails, or its result has a wrong type, shape or value.
    """
    was_training = network.training
    network.eval()
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            for count in BATCHES:
                decisions = made_up_decisions(spec, count)
                _called(network, "scores", decisions, (len(decisions.options),), "options of all decisions")
    finally:
        network.train(was_training)


def made_up_decisions(spec: OptionSpec, count: int) -> Decisions:
    """Make up decisions on two nodes: waiting and four options about two jobs; in the last of several only waiting."""
    num_options, num_jobs = [5] * count, [2] * count
    if count > 1:
        num_options[-1], num_jobs[-1] = 1, 0
    jobs_before = [sum(num_jobs[:d]) for d in range(count)]
    job_of = [-1 if i == 0 else jobs_before[d] + (i - 1) // 2 for d in range(count) for i in range(num_options[d])]
    node_of = [-1 if i == 0 else 2 * d + (i - 1) % 2 for d in range(count) for i in range(num_options[d])]
    every = torch.arange(count)
    return Decisions(
        options=torch.randn(sum(num_options), spec.option_features),
        decision_of=torch.repeat_interleave(every, torch.tensor(num_options)),
        job_of=torch.tensor(job_of),
        node_of=torch.tensor(node_of),
        choice_of=torch.repeat_interleave(every, torch.tensor(num_options)),
        choice_decision=every,
        first=torch.tensor([sum(num_options[:d]) for d in range(count)]),
        jobs=torch.randn(sum(num_jobs), spec.job_features),
        job_decision=torch.repeat_interleave(every, torch.tensor(num_jobs)),
        nodes=torch.randn(2 * count, spec.node_features),
        node_decision=torch.repeat_interleave(every, 2),
        cluster=torch.randn(count, spec.cluster_features),
    )
