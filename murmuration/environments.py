"""The ids of Gymnasium and PettingZoo: importing this module registers them.

```python
gymnasium.make("murmuration.environments:murmuration/Options-v0")
```

Neither library loads plug-ins by itself (Gymnasium does no more since version 1), so the module has to be named.
`pettingzoo.make("parallel", "murmuration/Options-v0")` works once it is imported.
"""

from murmuration.home import open_home

open_home()

from envs.registration import VECTOR_ENVS  # noqa: E402

IDS = tuple(VECTOR_ENVS)
"""The ids, the same for both libraries."""
