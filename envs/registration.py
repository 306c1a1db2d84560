"""Ids of the environments: `import envs.registration`, then `gymnasium.make("murmuration/Options-v0")`.

`gymnasium.make("envs.registration:murmuration/Options-v0")` needs no import. `make` returns one agent that decides
for all nodes; `make_vec` the vectorised environment, which steps all episodes in one call. Options are those of
`OptionVectorEnv` and `BiddingVectorEnv`; setup and source have the same defaults as in the
PettingZoo environments.

PettingZoo has the same ids: `pettingzoo.make("parallel", "murmuration/Options-v0")`, or "aec", with the options of
`OptionEnv` and `BiddingEnv`.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium
import pettingzoo

from envs.bidding.vector import BiddingVectorEnv
from envs.episodes.defaults import default_setup, default_source
from envs.episodes.standard import JointEnv
from envs.options.vector import JointOptionEnv, OptionVectorEnv
from envs.simulation import Setup
from envs.workloads import WorkloadSource

VectorForm = BiddingVectorEnv | OptionVectorEnv

VECTOR_ENVS: Mapping[str, type[BiddingVectorEnv] | type[OptionVectorEnv]] = {
    "murmuration/Bidding-v0": BiddingVectorEnv,
    "murmuration/Options-v0": OptionVectorEnv,
}


def make_joint(
    name: str,
    setup: Setup | None = None,
    source: WorkloadSource | None = None,
    render_mode: str | None = None,
    **options: Any,
) -> JointEnv[Any]:
    """Return an environment of one episode in which one agent decides for all nodes.

    Args:
        name: an id in `VECTOR_ENVS`.
        setup: see `NodeParallelEnv`.
        source: see `NodeParallelEnv`.
        render_mode: see `JointEnv`.
        options: of the vectorised environment.
    """
    vector = make_batched(name, 1, setup, source, **options)
    if isinstance(vector, OptionVectorEnv):
        return JointOptionEnv(vector, render_mode)
    return JointEnv(vector, render_mode)


def make_batched(
    name: str, num_envs: int = 1, setup: Setup | None = None, source: WorkloadSource | None = None, **options: Any
) -> VectorForm:
    """Return a vectorised environment; arguments as for `make_joint`."""
    setup = setup or default_setup()
    return VECTOR_ENVS[name](setup, source or default_source(setup), num_envs, **options)


for _name in VECTOR_ENVS:
    if _name not in gymnasium.registry:
        gymnasium.register(
            _name,
            entry_point="envs.registration:make_joint",
            vector_entry_point="envs.registration:make_batched",
            kwargs={"name": _name},
        )
    if _name not in pettingzoo.parallel_registry:
        _package = "envs.bidding" if VECTOR_ENVS[_name] is BiddingVectorEnv else "envs.options"
        pettingzoo.register("parallel", _name, entry_point=f"{_package}:parallel_env")
        pettingzoo.register("aec", _name, entry_point=f"{_package}:env")
