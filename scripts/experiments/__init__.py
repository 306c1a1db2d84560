"""Experiments of papers, one package each, and comparisons of models and beliefs with measurements.

`scripts/reproduce.py`, `scripts/validate_performance.py` and `scripts/calibrate_estimators.py` run them. The library
imports none, as import-linter holds.
"""
