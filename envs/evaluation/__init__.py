"""Comparison of schedulers: runs, paired statistics, tables of numbers.

Pictures are in `envs.pictures`, reports in `murmuration.reports`: computing results loads neither rich nor matplotlib.
"""

from envs.evaluation.compare import compare_schedulers
from envs.evaluation.comparison import Comparison
from envs.evaluation.playing import ProgressCallback
from envs.evaluation.statistics import Estimate, MeanEstimator, block_length, method_for, t_interval

__all__ = ["Comparison", "Estimate", "MeanEstimator", "ProgressCallback", "block_length", "compare_schedulers"]
__all__ += ["method_for", "t_interval"]
