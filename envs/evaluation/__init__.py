"""Schedulers against each other: runs, paired statistics, tables of numbers.

`envs.evaluation.report` (tables for people, files to keep) and `envs.evaluation.plots`, `envs.evaluation.gantt`
(pictures) are imported by those who show results, so that whoever only computes them loads neither rich nor matplotlib.
"""

from envs.evaluation.compare import Progress, compare
from envs.evaluation.comparison import Comparison, overall
from envs.evaluation.statistics import Estimate, MeanEstimator, block_length, method_for, t_interval

__all__ = [
    "Comparison",
    "Estimate",
    "MeanEstimator",
    "Progress",
    "block_length",
    "compare",
    "method_for",
    "overall",
    "t_interval",
]
