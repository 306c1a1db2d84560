"""Which GPU types, and which numbers of GPUs and nodes, the constraints of a job allow."""

from functools import lru_cache

from envs.performance.gpus import MIG_TYPES, find_gpu_type, find_parts
from envs.types import Configuration, Constraints, constraints_of, features_of, plain_type, pools_of

EXACT_NODES = 8  # the world tells node counts up to here apart; above, 9 to 16, 17 to 32, ... count alike
OPEN_NODES = 64  # all counts above do, too


@lru_cache(maxsize=1 << 14)
def allows_type(constraints: Constraints, gpu_type: str) -> bool:
    """Return whether a job may run on the nodes of a GPU type.

    Args:
        constraints: the job's.
        gpu_type: with the pools and features of its nodes, see `envs.types.name_of_nodes`.

    Raises:
        PerformanceError: memory is asked for, and the memory of the type is unknown.
    """
    gpu = plain_type(gpu_type)
    if constraints.gpu_types and gpu not in constraints.gpu_types:
        return False
    if constraints.pools and not set(constraints.pools) & set(pools_of(gpu_type)):
        return False
    if not set(constraints.features) <= set(features_of(gpu_type)):
        return False
    if constraints.mig_profile and constraints.mig_profile != mig_profile(gpu):
        return False
    return constraints.gpu_memory <= 0 or find_gpu_type(gpu).memory_gb >= constraints.gpu_memory


def mig_profile(gpu_type: str) -> str:
    """Return the profile of a slice, such as 1g.10gb for A100/7; empty for what is none."""
    if "/" not in gpu_type or gpu_type.partition("/")[0] not in MIG_TYPES:
        return ""
    return f"{find_parts(gpu_type).compute * 7:.0f}g.{find_gpu_type(gpu_type).memory_gb:.0f}gb"


def allows_shape(constraints: Constraints, num_gpus: int, num_nodes: int) -> bool:
    """Return whether a job may run on so many GPUs over so many nodes, in some division.

    Above `EXACT_NODES` nodes it allows what some number of nodes that counts alike would allow.
    """
    low = high = num_nodes
    if num_nodes > EXACT_NODES:
        high = 1 << (num_nodes - 1).bit_length() if num_nodes <= OPEN_NODES else num_gpus
        low = max(min(high, 2 * OPEN_NODES) // 2, EXACT_NODES) + 1
    each = constraints.gpus_per_node
    return any(
        (not constraints.max_nodes or nodes <= constraints.max_nodes)
        and (not constraints.num_nodes or nodes == constraints.num_nodes)
        and (not each or nodes * each == num_gpus)
        for nodes in range(low, min(high, num_gpus) + 1)
    )


def allows(model: str, configuration: Configuration) -> bool:
    """Return whether the constraints in a model's name allow GPUs of a type over so many nodes."""
    constraints = constraints_of(model)
    return not constraints or (
        allows_type(constraints, configuration.gpu_type)
        and allows_shape(constraints, configuration.num_gpus, configuration.num_nodes)
    )
