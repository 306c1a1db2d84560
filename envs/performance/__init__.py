"""Throughput of a job by GPUs, CPUs, memory, plan and co-located jobs, and the cost of changing its allocation.

`default_model()` knows 33 models on seven GPU types. An answer is measured, interpolated, modelled or guessed
(`TableModel.provenance`):

Measured: `tables/measured.csv` holds throughputs by batch size, GPUs and nodes, of Gavel (K80, P100, V100), ElasticFlow
(A100), Pollux and Sia (T4, V100, A100), Rubick (A800), Muri and Synergy (V100). All points of a model are of one
program. The surface passes through them within 3 %, but for points that contradict the others (`concave`). Other tables
hold Synergy's sensitivity to CPU and memory, Gavel's pairs of jobs on one GPU, Muri's stages and the iteration times of
Rubick's plans.

Interpolated and modelled: between and beyond the measured points, a step time that is linear in six parameters, fitted
for each model and GPU type (`step_time`). On Gavel, half of the points predict the other half with a median error of
6 %. On ElasticFlow's A100, the points on one node predict those on up to 64 GPUs with a median error of 5 %. On
Pollux's T4 with slow links, six points predict the others with a median error of 17 %. Execution plans follow Rubick's
model, on A800 (`rubick.model`). A job uses all of its GPUs, and more of them can make it slower.
`scripts/validate_performance.py` prints the errors.

Two jobs on one GPU keep what Gavel measured, or what a model fitted to the measured pairs says (`colocation`;
`TableModel.pair_provenance` returns which). Where one of the two models was held out, its median error is 0.10 of the
throughput alone, and 0.12 where both were, or the GPU type was.

Also modelled: parts of a GPU, which are slices of it or fractions that jobs ask for (`slices`). Nothing was measured on
them.

Guessed: GPU types on which a model was not measured, above all every model on H100. Their throughput is scaled from
another type by datasheet figures (`scaling`). On the measured types, the median error of this rule is 25 % and the
largest a factor of four; for most models no error can be measured (`experiments.performance.known`). Also guessed:
memory by a rule of thumb (`memory_fit`), also that of two jobs on one GPU; that jobs with little work for the GPU
hardly meet on it (`colocation`); parameters marked "estimated" in `tables/models.csv`; the CPU and memory
sensitivity of models that Synergy did not measure (`cpu_memory.stand_in`); restart times (`reconfiguration`).
"""

from envs.performance.constrained import allows, allows_type
from envs.performance.contention import Contention
from envs.performance.cpu_memory import Sensitivity, sensitivity_of
from envs.performance.drawn import DrawnModel
from envs.performance.model import (
    IdealModel,
    PerformanceModel,
    counts_links,
    cpu_scale,
    find_throughput,
    throughput_sources,
)
from envs.performance.pairs import find_pair_factor
from envs.performance.reconfiguration import (
    CostBySize,
    CostByTable,
    ReconfigurationCost,
    no_cost,
    rubick_cost,
    sia_beliefs,
    sia_simulated,
)
from envs.performance.rubick.model import RubickModel
from envs.performance.slices import FRACTIONS
from envs.performance.statistical_efficiency import (
    EFFICIENCY_SETTINGS,
    BatchSizes,
    EfficiencySetting,
    StatisticalEfficiency,
    efficiency_notes,
    noise_scales,
)
from envs.performance.table_model import TableModel, default_model
from envs.performance.zoo import (
    ALIASES,
    ModelProfile,
    batch_range,
    model_profile,
    name_of_draw,
    name_of_fraction,
    plain_model,
    without_draw,
    zoo,
    zoo_name,
)

__all__ = ["ALIASES", "EFFICIENCY_SETTINGS", "FRACTIONS", "BatchSizes", "Contention", "CostBySize", "CostByTable"]
__all__ += ["DrawnModel", "EfficiencySetting", "IdealModel", "ModelProfile", "PerformanceModel", "ReconfigurationCost"]
__all__ += ["RubickModel", "Sensitivity", "StatisticalEfficiency", "TableModel", "allows", "allows_type", "batch_range"]
__all__ += ["counts_links", "cpu_scale", "default_model", "efficiency_notes", "find_pair_factor", "find_throughput"]
__all__ += ["model_profile", "name_of_draw", "name_of_fraction", "no_cost", "noise_scales", "plain_model"]
__all__ += ["rubick_cost", "sensitivity_of", "sia_beliefs", "sia_simulated", "throughput_sources", "without_draw"]
__all__ += ["zoo", "zoo_name"]
