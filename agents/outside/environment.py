"""The discrete environment in TorchRL's form: several episodes of the joint problem, stepped in one compiled call."""

from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.data import Binary, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase

from envs.gpu_cluster.vector import GpuClusterVectorEnv

OBSERVATION, STATE = "observation", "state"
NODES = "agents"  # TorchRL's usual name for the agents' part
ACTION = (NODES, "action")
MASK = (OBSERVATION, "mask")


class ClusterEnv(EnvBase):
    """Episodes of a `GpuClusterVectorEnv` as one TorchRL environment.

    `observation` has the parts of the joint observation by name, with a leading axis of B; its mask is bool.
    `("agents", "action")` is int64[B, num_nodes]. The reward float32[B, 1] is the team's, scaled. `state` is
    float32[B, S], for mixing networks: the features of the cluster and the means of those of its nodes.

    Args:
        episodes: the episodes; they are begun by `reset`, each by itself where it has ended.
        scale: factor on rewards.
    """

    def __init__(self, episodes: GpuClusterVectorEnv, scale: float) -> None:
        size = torch.Size([episodes.num_envs])
        super().__init__(batch_size=size)
        self.episodes, self.scale = episodes, scale
        spec = episodes.batch.spec
        shapes: Any = episodes.single_observation_space
        parts: dict[str, Any] = {
            name: Binary(shape=(*size, *space.shape), dtype=torch.bool)
            if name == "mask"
            else Unbounded(shape=(*size, *space.shape), dtype=torch.float32)
            for name, space in shapes.items()
        }
        state = Unbounded(shape=(*size, spec.cluster_features + spec.node_features), dtype=torch.float32)
        self.observation_spec = Composite({OBSERVATION: Composite(parts, shape=size), STATE: state}, shape=size)
        action = Categorical(spec.num_actions, shape=(*size, spec.num_nodes), dtype=torch.int64)
        self.action_spec = Composite({NODES: Composite({"action": action}, shape=size)}, shape=size)
        self.reward_spec = Unbounded(shape=(*size, 1), dtype=torch.float32)
        self.done_spec = Binary(shape=(*size, 1), dtype=torch.bool)

    def _reset(self, tensordict: Any = None, **_: Any) -> Any:
        wanted = None if tensordict is None else tensordict.get("_reset", None)
        mask = np.ones(self.episodes.num_envs, bool) if wanted is None else wanted.squeeze(-1).numpy()
        for b in np.flatnonzero(mask).tolist():
            self.episodes.begin(b)
        return self._seen()

    def _step(self, tensordict: Any) -> Any:
        rewards, _, ended = self.episodes.batch.step(tensordict.get(ACTION).numpy())
        found = self._seen()
        found.set("reward", torch.from_numpy(rewards * self.scale).float().unsqueeze(-1))
        done = torch.from_numpy(ended.copy()).unsqueeze(-1)
        found.set("done", done)
        found.set("terminated", done.clone())
        return found

    def _set_seed(self, seed: int | None) -> None:
        self.episodes.seed_episodes(0 if seed is None else seed)

    def _seen(self) -> Any:
        """Return the present observation, which is copied."""
        parts = {
            name: torch.from_numpy(array > 0 if name == "mask" else array.copy())
            for name, array in dict[str, Any](self.episodes.batch.observation).items()
        }
        state = torch.cat([parts["cluster"], parts["nodes"].mean(dim=1)], dim=-1)
        return TensorDict({OBSERVATION: TensorDict(parts, self.batch_size), STATE: state}, self.batch_size)


class OnObservation(torch.nn.Module):
    """A method of a policy network as a module that takes the parts of an observation in turn.

    Args:
        network: the network.
        names: of the parts.
        method: its name, which takes a dictionary of the parts.
        num_nodes: repeat the result [B] for so many nodes, as [B, num_nodes, 1]; 0 to leave it as it is.
    """

    def __init__(self, network: torch.nn.Module, names: list[str], method: str, num_nodes: int = 0) -> None:
        super().__init__()
        self.network, self._names, self._method, self._num_nodes = network, names, method, num_nodes

    def forward(self, *parts: Tensor) -> Tensor:
        """Return what the method returns; leading axes may be several."""
        lead = parts[self._names.index("mask")].shape[:-2]
        flat = {name: part.flatten(0, len(lead) - 1) for name, part in zip(self._names, parts, strict=True)}
        found: Tensor = getattr(self.network, self._method)(flat)
        found = found.unflatten(0, lead)
        return found[..., None, None].expand(*lead, self._num_nodes, 1) if self._num_nodes else found
