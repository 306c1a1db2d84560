"""How fast a job runs on given GPUs, CPUs, memory and plan, beside given neighbours, and what a change costs it.

`default_model()` answers for 31 models on seven GPU types. What is behind an answer (`TableModel.provenance`):

Measured. One-GPU speeds by batch size and scaling over GPUs and nodes of Gavel (K80, P100, V100), ElasticFlow and
Pollux (A100, T4), Rubick (A800), Muri and Synergy (V100), in `tables/measured.csv`; the surface passes through them.
Synergy's sensitivity to CPU and memory; Gavel's pairs on one GPU; Muri's stages. Iteration times of Rubick's plans.

Modelled. Between and beyond the measured points: a step time linear in six parameters, fitted for each model and GPU
type (`step_time`). On Gavel, half of the points predict the other half with a median error of 8 %; on ElasticFlow's
A100 the points on one node predict those on up to 64 GPUs with one of 5 %. Execution plans: Rubick's model, on A800
(`rubick_model`). More is never slower (`envelope`). `scripts/validate_performance.py` prints the errors.

Guessed. GPU types on which a model was not measured, all of H100 above all: scaled from another type by datasheet
figures (`scaling`), a rule that misses the measured types by 22 % in the median and by a factor of up to four at worst.
Memory by a rule of thumb (`memory_fit`); parameters marked "estimated" in `tables/models.csv`; which CPU and memory
sensitivity a model has that Synergy did not measure (`cpu_memory.stand_in`); restart times (`reconfiguration`).
"""

from envs.performance.batch_size import BatchChoice, StatisticalEfficiency, best_batch
from envs.performance.contention import Contention
from envs.performance.cpu_memory import Sensitivity, sensitivity_of
from envs.performance.heterogeneous import equal_shares, mixed_speed, mixed_throughput, proportional_shares
from envs.performance.model import IdealModel, PerformanceModel, speed_sources
from envs.performance.reconfiguration import (
    CostBySize,
    CostByTable,
    ReconfigurationCost,
    no_cost,
    rubick_cost,
    sia_cost,
)
from envs.performance.rubick_model import RubickModel
from envs.performance.table_model import TableModel, default_model
from envs.performance.zoo import ALIASES, ModelProfile, model_profile, zoo, zoo_name

__all__ = [
    "ALIASES",
    "BatchChoice",
    "Contention",
    "CostBySize",
    "CostByTable",
    "IdealModel",
    "ModelProfile",
    "PerformanceModel",
    "ReconfigurationCost",
    "RubickModel",
    "Sensitivity",
    "StatisticalEfficiency",
    "TableModel",
    "best_batch",
    "default_model",
    "equal_shares",
    "mixed_speed",
    "mixed_throughput",
    "model_profile",
    "no_cost",
    "proportional_shares",
    "rubick_cost",
    "sensitivity_of",
    "sia_cost",
    "speed_sources",
    "zoo",
    "zoo_name",
]
