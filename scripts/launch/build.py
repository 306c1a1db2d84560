"""One object out of a config node: what its `_target_` makes of its options and of what the script gives it besides."""

from functools import partial
from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig

from launch.names import ChoiceError
from launch.signature import check_missing, check_options


def build(node: DictConfig, **given: object) -> Any:
    """Call the node's `_target_` with its options and with what is given, passed on as it is.

    Hydra's `instantiate` alone would turn dataclasses among what is given into configs.

    Raises:
        ChoiceError: a class that cannot be imported, an option that its signature does not have, or lacks, or whose
            value is of another type; here or in a node below.
    """
    key = str(node._get_full_key(None))
    if "_target_" not in node:
        raise ChoiceError(f"{key}: has no _target_; choose a file of conf/{key} or name a class to build")
    check_options(node, given)
    made = instantiate(node, _convert_="all", _partial_=True)
    assert isinstance(made, partial)
    check_missing(key, made, given)
    return made(**given)
