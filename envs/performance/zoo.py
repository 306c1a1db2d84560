"""The model zoo: the profile of each model, and its names in traces and papers."""

import csv
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from envs.performance.names import describe_unknown
from envs.types import Gigabytes, PerformanceError, without_constraints
from envs.types.constraints import WHERE

ALIASES: dict[str, str] = {
    # Gavel
    "ResNet-18": "resnet18",
    "ResNet-50": "resnet50",
    "Transformer": "transformer",
    "LM": "lm",
    "Recommendation": "recommendation",
    "A3C": "a3c",
    "CycleGAN": "cyclegan",
    # Muri
    "shufflenet_v2_x1_0": "shufflenet",
    # Synergy
    "res18": "resnet18",
    "res50": "resnet50",
    "lstm": "lm",
    "deepspeech": "deepspeech2",
    # Pollux and Sia, and ElasticFlow's T4 table
    "cifar10": "resnet18_cifar10",
    "imagenet": "resnet50_imagenet",
    # Rubick
    "llama7": "llama7b",
    "llama-7b": "llama7b",
    "llama7B": "llama7b",
    "llama30": "llama30b",
    "llama-30b": "llama30b",
    "llama30B": "llama30b",
}
"""Names used elsewhere -> zoo names. If two sources use one name for different models, see `SOURCE_ALIASES`."""

SOURCE_ALIASES: dict[str, dict[str, str]] = {
    "rubick": {"bert": "bert_large", "gpt2": "gpt2_xl"},
    "pollux": {"bert": "bert_squad"},
}
"""Names with a meaning that depends on the source: Rubick's BERT has 336 M parameters, ElasticFlow's 110 M."""

ARCHITECTURES: dict[str, str] = {"resnet18_cifar10": "resnet18", "resnet50_imagenet": "resnet50"}
"""Zoo names of models whose throughputs are those of another program than of the model of the same architecture.

Noise scales, stages, and needs of cores and memory follow from the architecture and its data, so both share them.
"""

DRAW = "~"  # between the name of a model and the number of a draw around its curves
FRACTION = "@"  # between the name of a model and the fraction of a GPU that a job has asked for, before a draw

CHECKPOINT_BYTES = {"sgd": 8, "adam": 12}
"""Bytes of a checkpoint per parameter: 4 for the weight, and 4 (momentum) or 8 (Adam) for the optimizer."""

STATE_BYTES = {"sgd": 12, "adam": 16}
"""Bytes in training per parameter: the checkpoint's, and 4 for the gradient (Rajbhandari et al., SC'20)."""


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """Profile of one model; a row of `tables/models.csv`."""

    name: str
    domain: str  # image, language, speech, recommendation, reinforcement
    params_millions: float
    optimizer: str  # sgd (with momentum) or adam
    scaling: str  # weak: `batch` is per GPU and the global batch grows with GPUs; strong: `batch` is global
    batch: int
    min_batch: int  # global batch sizes, both ends included, within which the source trains to the same accuracy
    max_batch: int
    plans: str  # dp: replicas only; sharded: ZeRO, offload, tensor and pipeline parallelism where they help
    min_gpus: int  # fewest GPUs on which the source could run it
    gpu_share: float  # share of a one-GPU step that the GPU works; the rest is CPU work and does not scale with the GPU
    working_gb: Gigabytes  # activations of one micro-batch and the framework's own, on one GPU (estimated)
    source: str

    @property
    def checkpoint_gb(self) -> Gigabytes:
        """Size of a full training checkpoint: weights and optimizer states in single precision."""
        return self.params_millions * CHECKPOINT_BYTES[self.optimizer] / 1000.0

    @property
    def state_gb(self) -> Gigabytes:
        """Size of weights, gradients and optimizer states in training."""
        return self.params_millions * STATE_BYTES[self.optimizer] / 1000.0

    @property
    def gradient_gb(self) -> Gigabytes:
        """Bytes that plain data parallelism reduces in one step, in single precision."""
        return self.params_millions * 4 / 1000.0

    def usual_batch(self, num_gpus: int) -> int:
        """Return the global batch size that the source uses on a number of GPUs, limited to the range."""
        wanted = self.batch * num_gpus if self.scaling == "weak" else self.batch
        return min(max(wanted, self.min_batch), self.max_batch)

    def check_batch(self, batch_size: int) -> int:
        """Return the batch size if it is within the range.

        Raises:
            PerformanceError: the batch size is out of range.
        """
        if not self.min_batch <= batch_size <= self.max_batch:
            raise PerformanceError(
                f"model {self.name}: batch_size {batch_size} is out of range; "
                f"use {self.min_batch} to {self.max_batch}, or None for the usual one"
            )
        return batch_size


def _number(name: str, column: str, text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise PerformanceError(f"model table: {name}: {column} is {text}; it must be finite and not negative")
    return value


def _profile(row: dict[str, str]) -> ModelProfile:
    name = row["name"]
    return ModelProfile(
        name=name,
        domain=row["domain"],
        params_millions=_number(name, "params_millions", row["params_millions"]),
        optimizer=row["optimizer"],
        scaling=row["scaling"],
        batch=int(row["batch"]),
        min_batch=int(row["min_batch"]),
        max_batch=int(row["max_batch"]),
        plans=row["plans"],
        min_gpus=int(row["min_gpus"]),
        gpu_share=_number(name, "gpu_share", row["gpu_share"]),
        working_gb=_number(name, "working_gb", row["working_gb"]),
        source=row["source"],
    )


@cache
def zoo() -> dict[str, ModelProfile]:
    """Read all models by zoo name from `tables/models.csv`."""
    text = (files("envs.performance") / "tables" / "models.csv").read_text(encoding="utf-8")
    return {profile.name: profile for profile in map(_profile, csv.DictReader(text.splitlines()))}


def name_of_draw(model: str, draw: int) -> str:
    """Return the name of a model whose curves are drawn around the measured ones; see `envs.performance.DrawnModel`."""
    return f"{model}{DRAW}{draw}"


def without_draw(name: str) -> str:
    """Return the name of the model around whose curves those of `name` are drawn; `name` itself if it is no draw.

    The constraints of its jobs remain.
    """
    plain, where, constraints = name.partition(WHERE)
    return plain.partition(DRAW)[0] + where + constraints


def plain_model(name: str) -> str:
    """Return the name of a model without a draw, and without the constraints of its jobs."""
    return without_constraints(name).partition(DRAW)[0]


def number_of_draw(name: str) -> int | None:
    """Return the number of a draw; None for a name without one.

    Raises:
        PerformanceError: it is not a whole number.
    """
    _, mark, number = without_constraints(name).partition(DRAW)
    if not mark:
        return None
    if not (number.isascii() and number.isdigit()):
        raise PerformanceError(f"model {name!r}: {number!r} is no number of a draw; use a whole number from 0")
    return int(number)


def name_of_fraction(model: str, fraction: float) -> str:
    """Return the name of a model whose jobs ask for a fraction of one GPU; see `envs.performance.slices`."""
    return f"{model}{FRACTION}{fraction:g}"


def fraction_of(name: str) -> float:
    """Return the fraction of a GPU that jobs of a model ask for; 1 for a name that states none.

    Raises:
        PerformanceError: it is no number above 0 and at most 1.
    """
    _, mark, text = plain_model(name).partition(FRACTION)
    if not mark:
        return 1.0
    try:
        fraction = float(text)
    except ValueError:
        fraction = 0.0
    if not 0.0 < fraction <= 1.0:
        raise PerformanceError(f"model {name!r}: {text!r} is no fraction of a GPU; use a number such as 0.25")
    return fraction


def zoo_name(name: str, source: str = "") -> str:
    """Return the zoo's name for a model that a source calls `name`.

    Args:
        name: a zoo name or an alias, also with a fraction of a GPU and the number of a draw.
        source: the trace or paper that uses the name, a key of `SOURCE_ALIASES`; other values have no effect.

    Raises:
        PerformanceError: the name is unknown.
    """
    return _zoo_name(plain_model(name).partition(FRACTION)[0], source)


@cache
def _zoo_name(name: str, source: str) -> str:
    own = SOURCE_ALIASES.get(source, {}).get(name) or ALIASES.get(name, name)
    if own not in zoo():
        raise PerformanceError(describe_unknown("model", name, zoo()))
    return own


def model_profile(name: str) -> ModelProfile:
    """Return the profile of a model by its zoo name or an alias.

    Raises:
        PerformanceError: the name is unknown.
    """
    return zoo()[zoo_name(name)]


def architecture(name: str) -> str:
    """Return the zoo name of the model of the same architecture, whose other figures hold for this one too.

    Raises:
        PerformanceError: the name is unknown.
    """
    found = zoo_name(name)
    return ARCHITECTURES.get(found, found)


def batch_range(model: str, low: int = 0, high: int = 0) -> tuple[int, int] | None:
    """Return the range of batch sizes that may be requested for a job: its own range within its model's.

    A model that is not in the zoo is limited by the job's own range alone; the simulator checks no more.

    Args:
        model: zoo name or alias, or a name that only another performance model knows.
        low: the job's own lower end; 0 uses the profile's.
        high: the job's own upper end; 0 uses the profile's.

    Returns:
        Both ends, or None if no range is known or the range is empty.
    """
    try:
        profile = model_profile(model)
    except PerformanceError:
        pass
    else:
        low, high = max(low, profile.min_batch), min(high or profile.max_batch, profile.max_batch)
    return (low, high) if 1 <= low <= high else None
