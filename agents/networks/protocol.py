"""The interface between training and networks: one required protocol, two optional ones.

| protocol | required | used by training for |
|---|---|---|
| `PolicyNetwork` | yes | sampling, imitation, PPO, evaluation |
| `SeparateCritic` | no | a separate learning rate for the critic, and a warm-up that trains only the critic |
| `AdjustableSharpness` | no | sharper logits after imitation |

`check_network` raises an error if a network breaks a protocol. `missing_protocols` describes what training does if an
optional one is missing.
"""

from typing import Protocol

from torch import Tensor, nn

from envs.types import MurmurationError

MASKED = -1e9  # logit of an action that is not allowed; finite, since infinite logits make gradients NaN


class NetworkError(MurmurationError):
    """A network that breaks a protocol of `agents.networks.protocol`."""


class PolicyNetwork(Protocol):
    """The two methods that a network must have; it must also be a `torch.nn.Module` that is built as `target(spec)`.

    `observation` holds float32 tensors `nodes` [B, N, F_node], `slots` [B, N, R, F_slot], `queue` [B, K, F_job],
    `cluster` [B, F_cluster] and int8 `mask` [B, N, A], and float32 `effects` [B, N, choices, F_effect] if
    `EnvSpec.effects` is true. `EnvSpec` gives the sizes, `envs.gpu_cluster.columns` explains the features. Both methods
    must work for any batch size, one included.
    """

    def logits(self, observation: dict[str, Tensor]) -> Tensor:
        """Return float32 scores [B, N, A] of every node's actions, `MASKED` where they are not allowed."""
        ...

    def value(self, observation: dict[str, Tensor]) -> Tensor:
        """Return a float32 central value estimate [B] of the joint observation, in normalised units."""
        ...


class SeparateCritic(Protocol):
    """Optional: `value` uses the weights of one submodule, `critic`, and `logits` uses none of them.

    Training then gives the critic its own Adam with learning rate `ppo.critic_lr`. During `ppo.critic_warmup` only the
    critic's weights change, because only the value loss counts. Without this protocol all weights learn with `ppo.lr`,
    and from the first update the value loss changes every weight that `value` uses.
    """

    critic: nn.Module


class AdjustableSharpness(Protocol):
    """Optional: a registered buffer `sharpness`, one float that `logits` multiplies all its scores by.

    After imitation, training sets it to `imitation.sharpness`, since an imitating policy sampled at 1 performs far
    worse than its arg-max. Without this protocol the policy starts PPO with the logits that imitation has left.
    """

    sharpness: Tensor


def critic_of(network: nn.Module) -> nn.Module | None:
    """Return the submodule of `SeparateCritic`; None if the network does not have it.

    Raises:
        NetworkError: its attribute `critic` is not a module.
    """
    critic = getattr(network, "critic", None)
    if critic is not None and not isinstance(critic, nn.Module):
        raise NetworkError(
            f"network {name_of(network)}: SeparateCritic.critic must be a torch.nn.Module but is a "
            f"{type(critic).__name__}; make it a module or rename it"
        )
    return critic


def sharpness_of(network: nn.Module) -> Tensor | None:
    """Return the buffer of `AdjustableSharpness`; None if the network does not have it.

    Raises:
        NetworkError: its attribute `sharpness` is not a buffer of one float.
    """
    sharpness = getattr(network, "sharpness", None)
    if sharpness is None:
        return None
    if not any(sharpness is buffer for buffer in network.buffers()) or not is_one_float(sharpness):
        raise NetworkError(
            f"network {name_of(network)}: AdjustableSharpness.sharpness must be a buffer of one float but is a "
            f"{describe_result(sharpness)}; call register_buffer or rename it"
        )
    found: Tensor = sharpness
    return found


def is_one_float(tensor: Tensor) -> bool:
    """Whether a tensor holds one floating-point number."""
    return tensor.numel() == 1 and tensor.is_floating_point()


def missing_protocols(network: nn.Module, *, imitates: bool, learns_values: bool) -> list[str]:
    """Describe the optional protocols that a network lacks, and what training does instead.

    Args:
        network: a `PolicyNetwork`.
        imitates: whether the run begins with imitation; sharpness is not used otherwise.
        learns_values: whether PPO learns a value function; group advantages do not.
    """
    found = []
    if learns_values and critic_of(network) is None:
        found.append(
            "SeparateCritic (submodule `critic`), so all weights learn with ppo.lr, ppo.critic_lr is ignored, and "
            "ppo.critic_warmup does not protect weights that `logits` and `value` share"
        )
    if imitates and sharpness_of(network) is None:
        found.append("AdjustableSharpness (buffer `sharpness`), so imitation.sharpness is ignored")
    return found


def name_of(network: nn.Module) -> str:
    """Return the import path of a network's class."""
    return f"{type(network).__module__}.{type(network).__qualname__}"


def describe_result(value: object) -> str:
    """Describe a result in a few words: a tensor's type and shape, or the class."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return type(value).__name__
