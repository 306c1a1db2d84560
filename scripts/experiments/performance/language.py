"""Language models of held-out sources beside those of the zoo, converted by the work of a training step.

A token costs 6 P + 12 L d s floating-point operations forward and backward: P parameters, L layers of width d,
sequences of s tokens (Chowdhery et al., PaLM, JMLR 2023, appendix B). The throughput of another model or
sequence length is converted to that of the zoo's model at equal operations per second, which large matrices nearly
have.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

ZOO_TOKENS = 2048  # of a sample of the zoo's MPT models


class Shape(NamedTuple):
    """The shape of a transformer."""

    millions: float  # parameters
    layers: int
    width: int

    def operations(self, tokens: float) -> float:
        """Return the floating-point operations, forward and backward, of a sequence of so many tokens, in 10^6."""
        return tokens * (6 * self.millions + 12e-6 * self.layers * self.width * tokens)


SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        "MPT-125M": Shape(125.3, 12, 768),
        "MPT-350M": Shape(356.0, 24, 1024),
        "MPT-760M": Shape(760.5, 24, 1536),
        "MPT-1B": Shape(1316.0, 24, 2048),
        "MPT-3B": Shape(2651.8, 32, 2560),
        "MPT-7B": Shape(6658.9, 32, 4096),
        "MPT-13B": Shape(12854.0, 40, 5120),
        "MPT-30B": Shape(29975.2, 48, 7168),
        "MPT-70B": Shape(64862.4, 80, 8192),
        "GPT3-5B": Shape(5000.0, 24, 4096),
        "GPT3-20B": Shape(20000.0, 44, 6144),
        "Llama-2-7B": Shape(6738.0, 32, 4096),
        "Llama-2-13B": Shape(13016.0, 40, 5120),
        "Llama-2-70B": Shape(68977.0, 80, 8192),
        "Llama-3-8B": Shape(8030.0, 32, 4096),
        "Llama-3.1-8B": Shape(8030.0, 32, 4096),
        "Llama-3-70B": Shape(70554.0, 80, 8192),
        "Llama-3.1-70B": Shape(70554.0, 80, 8192),
    }
)
"""By the names of the held-out table: llm-foundry's configurations, GPT-3's by NeMo's, Llama's papers."""


def _counterpart(model: str) -> str:
    """Return the MPT model that is nearest in size."""
    size = SHAPES[model].millions
    sizes = {name: shape.millions for name, shape in SHAPES.items() if name.startswith("MPT")}
    return min(sizes, key=lambda name: max(sizes[name] / size, size / sizes[name]))


def nearest_zoo_model(model: str) -> str:
    """Return the zoo's model that is nearest in size to one of `SHAPES`."""
    return _counterpart(model).lower().replace("-", "_")


def zoo_samples(model: str, tokens: float) -> float:
    """Return how many samples of the zoo's model have the operations of one sequence of so many tokens."""
    return SHAPES[model].operations(tokens) / SHAPES[_counterpart(model)].operations(ZOO_TOKENS)
