"""Policies that choose options: how they play, what is recorded of it, and their checkpoints."""
