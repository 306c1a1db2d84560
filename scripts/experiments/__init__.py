"""Experiments of papers, one package each, and comparisons of models and beliefs with measurements.

`scripts/reproduce.py`, `scripts/validate_performance.py`, `scripts/calibrate_estimators.py` and
`scripts/calibrate_predictors.py` run them. The library
imports none, as import-linter holds.
"""
