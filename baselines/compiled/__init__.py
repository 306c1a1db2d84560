"""Compiled forms of schedulers, which play whole episodes inside the engine and leave the same log."""
