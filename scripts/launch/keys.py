"""Top-level keys that the user adds: those that a script reads, schedulers of one's own, and no others."""

import re
from typing import cast

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from launch.names import CONF, ChoiceError, near


def check_keys(cfg: DictConfig, config_name: str, *, own: bool) -> None:
    """Assert that nothing was added that nobody reads, as `+foo=3` would be. To be asked within a run of Hydra.

    Args:
        cfg: what was composed.
        config_name: the primary config, which has a key for all that is read.
        own: whether further keys with a `_target_` are schedulers of the user's own.

    Raises:
        ChoiceError: names the key.
    """
    known = known_keys(config_name)
    for option in HydraConfig.get().overrides.task:
        found = re.match(r"\+{1,2}(\w+)[.=]", option)
        name = found.group(1) if found else ""
        if name not in cfg or name in known:
            continue
        node = cfg._get_node(name)
        if not (own and isinstance(node, DictConfig) and "_target_" in node):
            hint = f"; a scheduler of your own is +{name}._target_=<module>.<class>" if own else ""
            raise ChoiceError(f"{name}: no such key{near(name, known)}; there are: {', '.join(known)}{hint}")


def known_keys(config_name: str) -> list[str]:
    """Keys of a primary config, those of its groups included."""
    primary = cast(DictConfig, OmegaConf.load(CONF / f"{config_name}.yaml"))
    entries = [entry for entry in primary.pop("defaults", []) if isinstance(entry, DictConfig)]
    groups = {str(group) for entry in entries for group in entry}
    return sorted({*map(str, primary), *(group for group in groups if " " not in group)})  # "optional ..." has no key
