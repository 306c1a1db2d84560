"""The environments of tasks: for Gymnasium and PettingZoo by id, or as functions.

```python
from murmuration.environments import parallel_env

nodes = parallel_env(task="shared-16 workload.load=0.6")  # each node is an agent
alone = gymnasium.make("murmuration.environments:murmuration/Options-v0", task="shared-16")  # one decides for all
```

`task` is the name of a task and options of the command line after it; without one, a small cluster with drawn jobs is
played. Neither library loads plug-ins by itself (Gymnasium does no more since version 1), so the id names the module;
`pettingzoo.make("parallel", "murmuration/Options-v0", task="shared-16")` works once it is imported.
"""

import shlex
from typing import Any

from murmuration.home import open_home

open_home()

import gymnasium  # noqa: E402
import pettingzoo  # noqa: E402

from envs import bidding, options  # noqa: E402
from envs.episodes.standard import JointEnv  # noqa: E402
from envs.registration import VECTOR_ENVS, VectorForm, make_batched, make_joint  # noqa: E402

IDS = tuple(VECTOR_ENVS)
"""The ids, the same for both libraries."""
_OPTIONS, _BIDDING = "murmuration/Options-v0", "murmuration/Bidding-v0"
_PACKAGES = {_OPTIONS: options, _BIDDING: bidding}


def parallel_env(
    task: str | None = None, *, name: str = _OPTIONS, **given: Any
) -> pettingzoo.ParallelEnv[Any, Any, Any]:
    """Return an environment in which every node is an agent (PettingZoo's parallel form).

    Args:
        task: a task and options, such as "shared-16 workload.load=0.6"; None for a small cluster with drawn jobs.
        name: one of `IDS`.
        given: of `OptionEnv` or `BiddingEnv`, such as `rules`, `split` and `seed`.

    Raises:
        ChoiceError: there is no such task or option.
    """
    return _PACKAGES[name].parallel_env(**_world(task), **given)


def env(task: str | None = None, *, name: str = _OPTIONS, **given: Any) -> pettingzoo.AECEnv[Any, Any, Any]:
    """Return the same with nodes that act one after another (PettingZoo's AEC); arguments as for `parallel_env`."""
    return _PACKAGES[name].env(**_world(task), **given)


def make_alone(name: str, task: str | None = None, **given: Any) -> JointEnv[Any]:
    """Return an environment of one episode in which one agent decides for all nodes; see `envs.registration`."""
    return make_joint(name, **_world(task), **given)


def make_many(name: str, num_envs: int = 1, task: str | None = None, **given: Any) -> VectorForm:
    """Return the environment that steps all episodes in one call; see `envs.registration`."""
    return make_batched(name, num_envs, **_world(task), **given)


def _world(task: str | None) -> dict[str, Any]:
    """Return setup and source of a task; nothing without one."""
    if task is None:
        return {}
    from murmuration.library import make_task  # it composes configurations

    made = make_task(*shlex.split(task))
    return {"setup": made.setup, "source": made.source}


for _name in IDS:  # the ids of `envs.registration`, which knows no tasks
    del gymnasium.registry[_name]
    gymnasium.register(
        _name,
        entry_point=f"{__name__}:make_alone",
        vector_entry_point=f"{__name__}:make_many",
        kwargs={"name": _name},
    )
    del pettingzoo.parallel_registry[_name], pettingzoo.aec_registry[_name]
    pettingzoo.register("parallel", _name, f"{__name__}:parallel_env", kwargs={"name": _name})
    pettingzoo.register("aec", _name, f"{__name__}:env", kwargs={"name": _name})
