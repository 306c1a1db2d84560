"""A check of a network's outputs on made-up observations, before anything is trained or evaluated with it."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from agents.networks.protocol import MASKED, NetworkError, critic_of, describe_result, name_of, sharpness_of
from envs.gpu_cluster import EnvSpec
from envs.gpu_cluster.columns import EFFECT_PRESENT, JOB_PRESENT, PASS

BATCHES = (2, 1)  # evaluation has a batch of one, where a `squeeze` without an axis goes wrong


def check_network(network: nn.Module, spec: EnvSpec) -> None:
    """Check that a network keeps to `PolicyNetwork` and, where it has them, to the optional protocols.

    It is called on random features and on an empty cluster and queue. Its mode (training or evaluation) and torch's
    random state stay as they are.

    Raises:
        NetworkError: a method is missing or fails, or its result has a wrong type, shape or value.
    """
    critic_of(network)
    sharpness_of(network)
    was_training = network.training
    network.eval()
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            for batch in BATCHES:
                _check_batch(network, spec, probe(spec, batch))
    finally:
        network.train(was_training)


def probe(spec: EnvSpec, batch: int) -> dict[str, Tensor]:
    """Make up a batch of observations; the last of several has no job, and every node can only pass."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Tensor:
        return torch.from_numpy(rng.normal(size=(batch, *shape)).astype(np.float32))

    observation = {
        "nodes": draw(spec.num_nodes, spec.node_features),
        "slots": draw(spec.num_nodes, spec.num_slots, spec.slot_features),
        "queue": draw(spec.num_candidates, spec.job_features),
        "cluster": draw(spec.cluster_features),
        "mask": torch.from_numpy(rng.integers(0, 2, (batch, spec.num_nodes, spec.num_actions), np.int8)),
    }
    observation["mask"][..., PASS] = 1
    for name in ("slots", "queue"):
        observation[name][..., JOB_PRESENT] = 1.0
    if spec.effects:
        observation["effects"] = draw(spec.num_nodes, spec.num_choices, spec.effect_features)
        observation["effects"][..., EFFECT_PRESENT] = 1.0
    if batch > 1:
        for name in {"slots", "queue", "effects", "mask"} & observation.keys():
            observation[name][-1] = 0
        observation["mask"][-1, :, PASS] = 1
    return observation


def _check_batch(network: nn.Module, spec: EnvSpec, observation: dict[str, Tensor]) -> None:
    batch = len(observation["mask"])
    logits = _called(network, "logits", observation, (batch, spec.num_nodes, spec.num_actions), "batch, nodes, actions")
    _called(network, "value", observation, (batch,), "batch")
    chance = logits.softmax(-1)[observation["mask"] == 0]
    if bool((chance > 0).any()):
        raise NetworkError(
            f"network {name_of(network)}: PolicyNetwork.logits gives masked actions a probability of up to "
            f"{float(chance.max()):.3g}; set logits to agents.networks.MASKED ({MASKED:g}) where mask is 0"
        )


def _called(
    network: nn.Module,
    method: str,
    observation: dict[str, Tensor],
    shape: tuple[int, ...],
    axes: str,
    protocol: str = "PolicyNetwork",
) -> Tensor:
    """Call a method of a protocol; return its result if that is a finite float32 tensor of this shape."""
    place = f"network {name_of(network)}: {protocol}.{method}"
    expected = f"float32{list(shape)} ({axes})"
    call: Callable[[dict[str, Tensor]], object] | None = getattr(network, method, None)
    if not callable(call):
        raise NetworkError(f"{place} is missing; add a method {method}(observation) that returns {expected}")
    try:
        result = call(observation)
    except Exception as error:  # a user's code may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise NetworkError(f"{place} must return {expected} for a batch of {shape[0]} but failed ({reason})") from error
    if not isinstance(result, Tensor) or result.dtype != torch.float32 or tuple(result.shape) != shape:
        raise NetworkError(f"{place} must return {expected} but returned {describe_result(result)}")
    wrong = result[~torch.isfinite(result)]
    if len(wrong):
        raise NetworkError(
            f"{place} must return finite numbers, {expected}, but {len(wrong)} of {result.numel()} are not "
            f"(the first is {float(wrong[0])}); check empty queues and nodes, and use agents.networks.MASKED "
            "for masked actions"
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
                bids = _called(network, "bids", rows, shape, "batch, nodes, pairs, bids", protocol="BidNetwork")
                if bool((bids.abs() > 1).any()):
                    raise NetworkError(
                        f"network {name_of(network)}: BidNetwork.bids must lie in -1 to 1 but reaches "
                        f"{float(bids.abs().max()):.3g}; end with torch.tanh"
                    )
    finally:
        network.train(was_training)
