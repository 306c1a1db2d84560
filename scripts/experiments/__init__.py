"""Experiments: those of the papers, one package for each, and comparisons of the performance model with measurements,
and of beliefs about throughputs with the truth.

`scripts/reproduce.py`, `scripts/validate_performance.py` and `scripts/calibrate_estimators.py` run them. The library
imports none, as import-linter holds.
"""
