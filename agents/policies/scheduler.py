"""A trained policy as a scheduler, which runs in the same loop as every heuristic."""

from typing import ClassVar

import numpy as np
import torch
from torch import nn

from agents.networks import PolicyNetwork
from agents.policies.gpu_types import TypeOrder, check_types
from envs.gpu_cluster import DecisionRules, EnvSpec, NegotiatedRound, Observation
from envs.scheduling import ClusterView
from envs.simulation import SimulationView
from envs.types import Allocation, CheckpointError, ClusterSpec, IntArray


def as_tensors(observation: Observation) -> dict[str, torch.Tensor]:
    """Return observation arrays as tensors that share their memory."""
    return {name: torch.from_numpy(array) for name, array in observation.items()}


@torch.inference_mode()
def choose_actions(
    network: PolicyNetwork, observation: Observation, rng: np.random.Generator | None = None
) -> IntArray:
    """Return joint actions int64[B, num_nodes]: the likeliest, or sampled from the policy if an `rng` is given."""
    tensors, noise = as_tensors(observation), None
    if rng is not None:
        noise = torch.from_numpy(rng.gumbel(size=tuple(tensors["mask"].shape)).astype(np.float32))
    logits = network.logits(tensors)
    actions: IntArray = (logits if noise is None else logits + noise).argmax(-1).numpy()
    return actions


class PolicyScheduler:
    """A policy as a scheduler. In each round the nodes negotiate on a copy of the state; the result is the allocation.

    Args:
        network: the policy.
        spec: the sizes for which it was built.
        rules: the rules with which it was trained.
        gpu_types: names of the GPU types that it knows, in the order of its features; a cluster may list them in any
            other order.
        sampled: whether actions are sampled. Equal nodes share the probability of one choice, so the likeliest action
            of each is usually to pass.

    Raises:
        CheckpointError: the number of names differs from the number of types that the network knows.
    """

    preemptive: ClassVar[bool] = True
    elastic: ClassVar[bool] = True
    information: ClassVar[str] = "estimate"

    def __init__(
        self,
        network: PolicyNetwork,
        spec: EnvSpec,
        rules: DecisionRules,
        gpu_types: tuple[str, ...],
        *,
        sampled: bool = True,
    ) -> None:
        check_types(gpu_types, spec)
        if isinstance(network, nn.Module):
            network.eval()
        self.network, self.spec, self.rules, self.gpu_types, self.sampled = network, spec, rules, gpu_types, sampled
        self.counters: dict[str, int] = {}
        self._negotiated: NegotiatedRound | None = None
        self._order: TypeOrder | None = None
        self._rng: np.random.Generator | None = None

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode.

        Raises:
            CheckpointError: the network was built for GPU types or node sizes that differ from this cluster's.
        """
        here = EnvSpec.of(cluster, self.rules)
        same_nodes = _fixed_sizes(here) == _fixed_sizes(self.spec)
        if not same_nodes or set(cluster.gpu_types) != set(self.gpu_types):
            raise CheckpointError(
                f"policy was built for {_described(self.spec, self.gpu_types)}; cluster {cluster.name} has "
                f"{_described(here, cluster.gpu_types)}: evaluate on a cluster with the same GPU types and the same "
                "largest node"
            )
        self._order = None if cluster.gpu_types == self.gpu_types else TypeOrder(cluster, self.gpu_types)
        self._rng = rng if self.sampled else None
        self._negotiated = None
        self.counters = {}

    def schedule(self, view: ClusterView) -> Allocation:
        """Negotiate one round and return its allocation."""
        assert isinstance(view, SimulationView), "a policy observes a snapshot of the compiled engine"
        if self._negotiated is None:
            self._negotiated = NegotiatedRound(EnvSpec.of(view.cluster, self.rules), self.rules)
        negotiated = self._negotiated
        negotiated.begin(view)
        while negotiated.observe():
            observation = negotiated.observation
            if self._order is not None:
                observation = self._order.apply(observation)
            if negotiated.decide(choose_actions(self.network, observation, self._rng)[0]):
                break
        allocation = negotiated.fill(view.allocation(keep_running=True))
        self.counters = negotiated.counters()
        return allocation


def _fixed_sizes(spec: EnvSpec) -> tuple[int, bool]:
    """Return what a network cannot be used with other values of."""
    return spec.node_gpus, spec.effects


def _described(spec: EnvSpec, gpu_types: tuple[str, ...]) -> str:
    return f"{', '.join(gpu_types)} with up to {spec.node_gpus} GPUs a node"
