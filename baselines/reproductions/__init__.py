"""Reproductions of published experiments, one package per paper; `scripts/reproduce.py` runs them.

Each reads what it needs from the scheduler of its paper. No scheduler imports them: import-linter holds this.
"""
