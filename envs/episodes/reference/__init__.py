"""Reference implementation, in plain Python, of what both environments' features are made of."""

from envs.episodes.reference.coupling import Coupling

__all__ = ["Coupling"]
