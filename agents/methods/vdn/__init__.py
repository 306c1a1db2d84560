"""Value decomposition on options, from random weights."""

from agents.methods.vdn.settings import VDNSettings

__all__ = ["VDNSettings"]
