"""The door of scripts/ablate.py, see `murmuration.config.describe`."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from omegaconf import DictConfig, OmegaConf

from murmuration.config.describe import compose_training, settings_of
from murmuration.config.descriptions import AblationRun, TrainingVariant
from murmuration.config.errors import ChoiceError
from murmuration.config.plain import KEY, shorten
from murmuration.config.recall import resumed_folder
from murmuration.config.settings import AblationSettings

ALONE = "variant"  # the factor of variants that are given one by one


def describe_ablation(cfg: DictConfig) -> AblationRun:
    """Describe an ablation: every combination of the levels of its factors, or the variants that are given.

    Raises:
        ChoiceError: there are no two variants, a level is no text, an option does not exist, or the
            resumed folder does not.
    """
    if cfg.resume:
        resumed_folder(cfg)
    if not cfg.error > 0:
        raise ChoiceError(f"error={cfg.error}: must be above 0; 0.02 is 2 %")
    key = "variants" if cfg.variants else "factors"
    given: Any = OmegaConf.to_container(cfg[key], resolve=True)
    factors = {ALONE: given} if cfg.variants else given
    check_levels(factors, key)
    variants = {}
    for names in product(*factors.values()):  # the first one has the first level of each factor
        levels = dict(zip(factors, names, strict=True))
        options = " ".join([cfg.options, *(factors[factor][level] for factor, level in levels.items())]).split()
        training, _ = compose_training([*options, "evaluate=true"])  # so that it trusts the classes that it names
        variants["+".join(names)] = TrainingVariant(levels, options, replace(training.seeds[0], schedulers={}))
    if len(variants) < 2:
        raise ChoiceError(f"{key} is {shorten(given)}; there must be two variants at least, to be compared")
    return AblationRun(**settings_of(AblationSettings, cfg), variants=variants)


def check_levels(factors: Mapping[str, Mapping[str, Any]], key: str) -> None:
    """Check that all levels of all factors are texts under names from which folders can be named.

    Raises:
        ChoiceError: one of them is not; it names `key`.
    """
    for factor, levels in factors.items():
        for level, options in levels.items():
            if not isinstance(level, str) or not KEY.fullmatch(level):
                raise ChoiceError(f"{key}: {factor} {shorten(level)} is no name; give it one of letters and digits")
            if not isinstance(options, str):
                raise ChoiceError(
                    f"{key}: {factor} {level} is {shorten(options)}; it must be options of scripts/train.py, separated "
                    'by spaces, such as "agent=options env.rules.ranks=true"'
                )
