"""Experiments: those of the papers, one package for each, and comparisons of the performance model with measurements.

`scripts/reproduce.py` and `scripts/validate_performance.py` run them. The library imports none,
as import-linter holds.
"""
