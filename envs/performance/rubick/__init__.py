"""Rubick's performance model: throughput by execution plan and placement, for seven models on A800.

| module | content |
|---|---|
| `iteration` | time of an iteration by plan, placement and fitted figures |
| `memory` | GPU and CPU memory of a plan |
| `plans` | the fastest plan that fits |
| `model` | a `PerformanceModel` made of the modules above |
| `data` | the public measurements |
| `measured` | a `PerformanceModel` of the measurements alone |
| `fitting` | fits the figures to measurements |
| `validation` | compares predictions with measurements; no scheduler imports it |
"""

from envs.performance.rubick.iteration import even_shares
from envs.performance.rubick.measured import MeasuredModel
from envs.performance.rubick.model import GPU_TYPE, RUBICK_NAMES, RubickModel
from envs.performance.rubick.plans import BestPlan

__all__ = ["GPU_TYPE", "RUBICK_NAMES", "BestPlan", "MeasuredModel", "RubickModel", "even_shares"]
