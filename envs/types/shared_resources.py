"""The resources that jobs on one node share, as arrays."""

from typing import NamedTuple

from envs.types.units import FloatArray


class ResourceTables(NamedTuple):
    """Effects of cores, memory and links on jobs, by model, in a form that compiled code takes; read only.

    Attributes:
        cpu_grid: float64[c], cores per GPU at scale 1.
        memory_grid: float64[m], GB per GPU.
        factor: float64[num_models, num_gpu_types, widths, c, m], fraction of the throughput that is kept with so many
            cores and GB for each GPU; a width is the number of GPUs on a node, and the last one stands for all above.
        saturating: float64[num_models, num_gpu_types, widths, 2], cores and GB per GPU beyond which nothing is gained.
        scale: float64[num_models, num_gpu_types], cores of a GPU of the type that stand for one core of `cpu_grid`.
        traffic: float64[num_models, sizes], GB that a sample sends around the ring of so many GPUs.
        cpu_stage: float64[num_models], fraction of a step that uses the CPUs.
    """

    cpu_grid: FloatArray
    memory_grid: FloatArray
    factor: FloatArray
    saturating: FloatArray
    scale: FloatArray
    traffic: FloatArray
    cpu_stage: FloatArray


class SharedResources(NamedTuple):
    """Effects of shared cores, memory and links on jobs, by model; read only. The rules are in `docs/world.md`.

    Attributes:
        mode: how co-located jobs slow each other: "off", "measured", "worst_case" or "max_min".
        divides: whether cores and memory are shared.
        models: names of the models, in the order of the tables' first axis.
        tables: the effects.
    """

    mode: str
    divides: bool
    models: tuple[str, ...]
    tables: ResourceTables
