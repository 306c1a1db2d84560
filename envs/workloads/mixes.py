"""Named job mixes, by what limits their models: GPUs, cores, memory or the network.

Each class has a rule on what its models need by `envs.performance`; `tests/unit/workloads/test_mixes.py` checks it. The
proportional share is that of Synergy's nodes (OSDI'22): 3 cores and 62.5 GB for each GPU.
"""

from collections.abc import Mapping
from types import MappingProxyType

from envs.types import TraceError
from envs.workloads.mix import DEFAULT_MIX, JobMix

CLASSES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # at least the proportional cores to saturate, at most the proportional memory (Synergy's matrices)
        "cpu_hungry": ("resnet18", "resnet50", "mobilenet", "deepspeech2"),
        # more than the proportional memory to saturate (Synergy's matrices)
        "memory_hungry": ("alexnet", "shufflenet", "m5"),
        # less than the proportional share of both; at the speed of 8 V100 of a node, two nodes send more than 10 Gb/s
        "network_heavy": ("gnmt", "lm", "bert", "bert_large", "roberta"),
        # less than the proportional share of both, and at most 10 Gb/s (Synergy's, Gavel's)
        "indifferent": ("transformer", "recommendation", "vae"),
    }
)
"""Synergy's twelve measured models, with two of Gavel's and two of Rubick's."""

DOMAINS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "image": ("alexnet", "shufflenet", "resnet18", "mobilenet", "resnet50"),
        "language": ("gnmt", "transformer", "lm"),
        "speech": ("m5", "deepspeech2"),
    }
)
"""The models that Synergy's simulator draws, by domain."""


LANGUAGE_2026: Mapping[str, tuple[int, int, float]] = MappingProxyType(
    {
        "vit": (1, 4, 1.0),
        "mpt_125m": (1, 4, 1.0),
        "mpt_350m": (1, 4, 1.0),
        "mpt_760m": (1, 8, 1.0),
        "mpt_1b": (1, 16, 1.0),
        "mpt_3b": (4, 16, 1.0),
        "mpt_7b": (8, 64, 2.0),
        "mpt_13b": (8, 128, 1.0),
        "mpt_30b": (16, 256, 1.0),
        "mpt_70b": (32, 256, 1.0),
        "gpt_oss_120b": (64, 256, 1.0),
    }
)
"""Least and most GPUs, and weight, of the models of mix "llm_2026"; made for the suite.

Small models are tried out on up to a node, models of 7 and 13 billion parameters are mostly fine-tuned on one or two
nodes, larger ones are trained on 64 GPUs and more, and one is a mixture of experts.
"""


def equal_within(groups: Mapping[str, tuple[str, ...]], weights: Mapping[str, float]) -> JobMix:
    """Return a mix that divides the weight of each group equally among its models."""
    shares = {model: weights[group] / len(models) for group, models in groups.items() for model in models}
    return JobMix(tuple(shares), tuple(shares.values()))


MIXES: Mapping[str, JobMix] = MappingProxyType(
    {
        "gavel": DEFAULT_MIX,
        "synergy": equal_within(DOMAINS, {"image": 20.0, "language": 70.0, "speech": 10.0}),
        "resources": equal_within(CLASSES, dict.fromkeys(CLASSES, 25.0)),
        "llm_2026": JobMix(
            models=tuple(LANGUAGE_2026),
            weights=tuple(weight for _, _, weight in LANGUAGE_2026.values()),
            sizes=tuple((least, most) for least, most, _ in LANGUAGE_2026.values()),
        ),
    }
)
"""Job mixes by name:

- "gavel": Gavel's five models in equal shares; the default. Jobs of 2018 to 2020.
- "synergy": 20 % image, 70 % language and 10 % speech models, as in the validation run of Synergy's artifact. Jobs of
  2016 to 2020.
- "resources": the four `CLASSES` in equal shares. Jobs of 2016 to 2020, with BERT.
- "llm_2026": language models from 125 million to 120 billion parameters and ViT, at the sizes of `LANGUAGE_2026`. Jobs
  of 2023 to 2026; for stream "llm".
"""


def mix_named(name: str) -> JobMix:
    """Return a job mix by name.

    Raises:
        TraceError: no mix has that name.
    """
    if name not in MIXES:
        raise TraceError(f"workload.mix is {name!r}; choose one of {', '.join(MIXES)}, or give a JobMix")
    return MIXES[name]
