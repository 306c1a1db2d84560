"""Compiled twins of schedulers, which play whole episodes inside the engine; they leave the same log."""
