"""Table of tunings: the batch sizes, and levels of cores and memory, that a job can have on its GPUs.

The tunings of a model are numbered. 0 names nothing: the usual batch size, and as many cores and as much memory as the
world gives. Then come, as far as the scenario lets schedulers choose them:

- half of the cores that saturate a GPU, and all of them; the same for memory. What is named is the job's alone, however
  many other jobs of the node would use it, and is all that the job may use.
- batch sizes, ascending: powers of two for each GPU and the ends of the range that is offered, see
  `envs.performance.batch_size.batch_sizes`, without the usual one.

One thing can be named at a time, and only for a job on at most `EXACT_NODES` nodes. A change of the job's GPUs takes it
back: a resized, moved or restarted job has the usual batch size, and what cores and memory the world gives it.
"""

import weakref
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from envs.options.rules import OptionRules
from envs.performance import DrawnModel, find_throughput, model_profile
from envs.performance.batch_size import batch_sizes
from envs.simulation import Setup, ThroughputTable
from envs.simulation.world.exact import PARTS, ExactThroughputs
from envs.simulation.world.throughput import EXACT_NODES
from envs.types import Configuration, FloatArray, IntArray, PerformanceError, Placement

LEVELS = (0.5, 1.0)  # of cores, then of memory: fractions of what saturates a GPU
FIRST_BATCH = 1 + 2 * len(LEVELS)  # the number of the smallest batch size


class TuningTable(NamedTuple):
    """Contents and throughputs of all tunings; read only.

    Attributes:
        throughputs: float64[num_tunings, num_models, num_gpu_types, max_gpus + 1, EXACT_NODES], samples/s on GPUs of
            one type over one node and more; 0 where the tuning is not offered. Those of number 0 are not filled.
        efficiency: float64[num_tunings, num_models, max_gpus + 1], progress for each sample.
        sample_traffic: float64[num_tunings, num_models, max_gpus + 1], GB that a useful sample sends around the ring;
            0 for that of the usual batch size, and without contention.
        batch_size: int64[num_tunings, num_models, max_gpus + 1], 0 for the usual one.
        usual: int64[num_models, max_gpus + 1], the usual batch size; 0 for a model that the zoo does not know.
        parts: int64[num_tunings, num_models, 2], 64ths of cores and of GB for each GPU; 0 where they are not named.
        saturating: int64[num_models, 2], 64ths of cores and of GB that saturate a GPU of any type.
    """

    throughputs: FloatArray
    efficiency: FloatArray
    sample_traffic: FloatArray
    batch_size: IntArray
    usual: IntArray
    parts: IntArray
    saturating: IntArray


_BUILT: dict[int, TuningTable] = {}  # by the identity of a throughput table


def tuning_table(setup: Setup, table: ThroughputTable) -> TuningTable:
    """Return the tunings for the models of a throughput table; they are priced once for the lifetime of the table."""
    key = id(table)
    if key not in _BUILT:
        _BUILT[key] = _build(setup, table)
        weakref.finalize(table, _BUILT.pop, key, None)
    return _BUILT[key]


def tunings_under(rules: OptionRules, setup: Setup, table: ThroughputTable) -> TuningTable:
    """Return what jobs can be tuned to under these rules: nothing but what is usual where they tune no job.

    Tunings have no figures where throughputs are hidden or drawn.
    """
    is_told = setup.scenario.information.throughput == "exact" and not isinstance(setup.performance, DrawnModel)
    return tuning_table(setup, table) if rules.tune and is_told else _empty(table, 1)


def _empty(table: ThroughputTable, count: int) -> TuningTable:
    num_models, num_types, sizes, _ = table.throughputs.shape
    shape = (count, num_models, sizes)
    return TuningTable(
        throughputs=np.zeros((count, num_models, num_types, sizes, EXACT_NODES) if count > 1 else (1, 1, 1, 1, 1)),
        efficiency=np.ones(shape),
        sample_traffic=np.zeros(shape),
        batch_size=np.zeros(shape, np.int64),
        usual=np.zeros(shape[1:], np.int64),
        parts=np.zeros((count, num_models, 2), np.int64),
        saturating=np.zeros((num_models, 2), np.int64),
    )


def _build(setup: Setup, table: ThroughputTable) -> TuningTable:
    exact, sizes = ExactThroughputs(setup), range(1, table.throughputs.shape[2])
    ladders = [[_ladder(exact, model, gpus) for gpus in sizes] for model in table.models]
    longest = max(len(ladder) for of_model in ladders for ladder in of_model)
    found = _empty(table, FIRST_BATCH + longest)
    for i, model in enumerate(table.models):
        if setup.scenario.cpu_memory == "shared":
            most = table.cpu_memory.saturating[i, :, 1].max(axis=0)
            found.saturating[i] = np.maximum(np.floor(most * PARTS), 1)
            for k, level in enumerate(LEVELS):
                for resource in range(2):
                    number = 1 + resource * len(LEVELS) + k
                    found.parts[number, i, resource] = max(int(found.saturating[i, resource] * level), 1)
        for gpus in sizes:
            found.usual[i, gpus] = _usual(model, gpus)
            for k, size in enumerate(ladders[i][gpus - 1]):
                found.batch_size[FIRST_BATCH + k, i, gpus] = size
            for k in range(1, len(found.batch_size)):
                _price(setup, exact, found, (k, i, gpus), model)
    return found


def _usual(model: str, gpus: int) -> int:
    try:
        return model_profile(model).usual_batch(gpus)
    except PerformanceError:
        return 0


def _ladder(exact: ExactThroughputs, model: str, gpus: int) -> list[int]:
    """Return the batch sizes of a model on so many GPUs, of any type, ascending."""
    found = set[int]()
    for gpu_type in exact.cluster.gpu_types:
        span = exact.batches.offered(model, gpu_type, gpus)
        if span is not None and max(span[0], gpus) <= span[1]:
            found |= set(batch_sizes(model, gpus, *span))
    return sorted(found - {_usual(model, gpus)})


def _price(setup: Setup, exact: ExactThroughputs, found: TuningTable, place: tuple[int, int, int], model: str) -> None:
    """Fill in the throughputs of one tuning of a model on so many GPUs."""
    k, i, gpus = place
    size = int(found.batch_size[place]) or None
    cpus, memory = (float(parts) / PARTS or None for parts in found.parts[k, i])
    if size is None and cpus is None and memory is None:
        return
    if size is not None:
        found.efficiency[place] = exact.batches.efficiency(model, gpus, size)
        if setup.scenario.contention.mode != "off":
            found.sample_traffic[place] = exact.sample_traffic(model, Placement({0: gpus}, batch_size=size))
    for t, gpu_type in enumerate(setup.cluster.gpu_types):
        for nodes in range(1, min(gpus, EXACT_NODES) + 1):
            on = Configuration(gpu_type, gpus, nodes, batch_size=size, cpus_per_gpu=cpus, memory_per_gpu=memory)
            with suppress(PerformanceError):  # it is not offered on this type
                exact.batches.check(model, (gpu_type,), gpus, size)
                found.throughputs[k, i, t, gpus, nodes - 1] = find_throughput(setup.performance, model, on)
