"""A trained policy seen as a scheduler: it goes through the same loop as every heuristic."""

from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from agents.networks import PolicyNetwork
from envs.gpu_cluster import DecisionRules, Deliberation, EnvSpec, Observation
from envs.scheduling import ClusterView
from envs.simulation import SimulationView, State
from envs.types import Allocation, CheckpointError, ClusterSpec, IntArray


def as_tensors(observation: Observation) -> dict[str, torch.Tensor]:
    """Observation arrays as tensors that share their memory."""
    return {name: torch.from_numpy(array) for name, array in observation.items()}


@torch.inference_mode()
def choose(network: PolicyNetwork, observation: Observation, rng: np.random.Generator | None = None) -> IntArray:
    """Joint actions int64[B, num_servers]: the likeliest, or drawn from the policy if an `rng` is given."""
    logits = network.logits(as_tensors(observation))
    if rng is not None:
        noise = rng.gumbel(size=tuple(logits.shape)).astype(np.float32)
        logits = logits + torch.from_numpy(noise)
    actions: IntArray = logits.argmax(-1).numpy()
    return actions


class PolicyScheduler:
    """Plays a policy round by round: the servers negotiate on a copy of the cluster's state, the outcome is the wish.

    Args:
        network: the policy.
        spec: the sizes it was built for.
        rules: the rules it was trained under.
        sampled: draw actions; equal servers share the probability of one choice, so the likeliest of each is mostly
            to pass.
    """

    preemptive: ClassVar[bool] = True
    elastic: ClassVar[bool] = True
    information: ClassVar[str] = "estimate"

    def __init__(self, network: PolicyNetwork, spec: EnvSpec, rules: DecisionRules, *, sampled: bool = True) -> None:
        if isinstance(network, nn.Module):
            network.eval()
        self.network, self.spec, self.rules, self.sampled = network, spec, rules, sampled
        self.counters: dict[str, int] = {}
        self._deliberation: Deliberation | None = None
        self._rng: np.random.Generator | None = None

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode.

        Raises:
            CheckpointError: the network was built for GPU types or node sizes that differ from this cluster's.
        """
        here = EnvSpec.of(cluster, self.rules)
        fixed = ("num_gpu_types", "node_gpus", "num_levels")
        if any(getattr(here, name) != getattr(self.spec, name) for name in fixed):
            raise CheckpointError(
                f"policy was built for {_sizes(self.spec, fixed)}; cluster {cluster.name} has {_sizes(here, fixed)}: "
                "evaluate on a cluster with the same number of GPU types and the same largest node"
            )
        self._rng = rng if self.sampled else None
        self._deliberation = None
        self.counters = {}

    def schedule(self, view: ClusterView) -> Allocation:
        """Negotiate one round."""
        assert isinstance(view, SimulationView), "a policy observes the engine's state through a SimulationView"
        if self._deliberation is None:
            scratch = State.allocate(view.cluster, view.state.jobs.shape[1], scenario=view.scenario)
            self._deliberation = Deliberation(scratch, EnvSpec.of(view.cluster, self.rules), self.rules, view.table)
        deliberation = self._deliberation
        deliberation.begin(view.state)
        while deliberation.observe():
            if deliberation.decide(choose(self.network, deliberation.observation, self._rng)[0]):
                break
        allocation = deliberation.fill(view.allocation(keep_running=True))
        self.counters = deliberation.counters()
        return allocation


def _sizes(spec: EnvSpec, names: tuple[str, ...]) -> str:
    values: dict[str, Any] = asdict(spec)
    return ", ".join(f"{name} {values[name]}" for name in names)
