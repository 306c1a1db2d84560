"""The reference environment of options: plain Python, with which the compiled environment is compared."""

from envs.options.reference.changes import Option
from envs.options.reference.environment import ReferenceOptions

__all__ = ["Option", "ReferenceOptions"]
