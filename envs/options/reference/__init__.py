"""The reference environment of options: plain Python, with which the compiled environment is compared."""

from envs.options.reference.environment import ReferenceOptions
from envs.options.reference.plan import Option

__all__ = ["Option", "ReferenceOptions"]
