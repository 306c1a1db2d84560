"""Rubick's performance model: iteration time of a job by execution plan and placement (MLSys'25, section 4).

One training iteration consists of a forward pass, a backward pass that overlaps with the synchronisation of gradients,
traffic of ZeRO-Offload, the optimizer step, and traffic of tensor and pipeline parallelism. Overlaps are p-norms.

Sources:

- *Published*: the parts, the seven parameters, the p-norm overlaps, volumes of gradient and tensor traffic, as in the
  public artifact.
- *Reconstruction* (ours): the forward time as a function of plan and batch (the artifact measures it for every plan);
  the pipeline bubble of one-forward-one-backward schedules; ZeRO's all-gather of updated parameters after the step; the
  bandwidth between nodes as that of the network cards that a job's GPUs use, shared by the tensor ranks of a node. Each
  is explained in its function below; `papers.rubick_model` compares the model with 535 measured iterations.

Units: milliseconds; sizes in M, that is 2^20 parameters or elements; bandwidths in M bytes per millisecond (1 is
1.05 GB/s). All arithmetic is over arrays with one element per (plan, placement) point.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from envs.types import ExecutionPlan, FloatArray, PerformanceError

MEGA = 1024.0 * 1024.0

POINT = np.dtype(
    [
        ("data", np.float64),  # d, data-parallel replicas
        ("tensor", np.float64),  # t, tensor-parallel ranks of a replica
        ("pipeline", np.float64),  # p, pipeline stages of a replica
        ("zero_stage", np.int64),
        ("offload", np.bool_),
        ("accumulation", np.float64),  # a, micro-batches of an iteration
        ("checkpointing", np.bool_),
        ("batch", np.float64),  # B, samples of an iteration, all replicas together
        ("cpus", np.float64),  # c, CPU threads per GPU
        ("num_nodes", np.float64),
        ("smallest", np.float64),  # fewest GPUs that the job has on any of its nodes
        ("straddles", np.bool_),  # a tensor group lies on two nodes: t does not divide the GPUs of some node
    ]
)
"""A plan on a placement as one row of an array."""

Points: TypeAlias = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The size and structure of a model, without timings."""

    name: str
    parameters: float  # count
    layers: int  # transformer blocks; encoder and decoder together
    hidden: int
    sequence: int  # tokens (patches for images) of a sample
    heads: int
    vocabulary: int  # width of the output: tokens or classes
    batch: int  # usual global batch, samples
    min_batch: int
    max_batch: int
    model_parallel: bool = True  # whether tensor- and pipeline-parallel runs were measured; if not, no such plans

    @property
    def mega_params(self) -> float:
        """Parameters in M."""
        return self.parameters / MEGA


@dataclass(frozen=True, slots=True)
class PerfParams:
    """Rubick's seven fitted parameters, in the order of the artifact."""

    k_bwd: float  # backward time over forward time
    k_sync: float  # overlap of backward pass and gradient synchronisation: 1 none (sum), large full (max)
    k_opt: float  # optimizer step on the GPU, ms per M parameters
    k_opt_off: float  # optimizer step on the CPUs, ms x threads per M parameters
    k_const: float  # constant part of every iteration, ms
    k_off: float  # overlap of compute and gradient offload, as k_sync
    k_swap: float  # overlap of the CPU optimizer step and return of parameters, as k_sync


@dataclass(frozen=True, slots=True)
class Forward:
    """Forward time of one micro-batch of n samples on t tensor ranks: `fixed + per_sample * n / t`, ms.

    Reconstruction: the artifact divides the one-GPU time by d (and by 1.8^log2 d for BERT); an affine law covers both.
    `model_parallel` is the ratio of the forward time in the code for tensor and pipeline parallelism to that in the
    code for data parallelism. It is not 1 because the Megatron and DeepSpeed versions of a model differ (2.5-fold for
    T5).
    """

    fixed: float  # ms: kernel launches and other work that does not shrink with the batch
    per_sample: float  # ms
    model_parallel: float = 1.0


@dataclass(frozen=True, slots=True)
class Links:
    """Effective bandwidths of one model in M bytes per ms; they depend on its message sizes and number formats."""

    intra: float  # GPU to GPU within a node
    inter: float  # one network card
    pcie: float  # GPU to CPU memory


@dataclass(frozen=True, slots=True)
class Figures:
    """All fitted figures of one model on one GPU type."""

    params: PerfParams
    forward: Forward
    links: Links


@dataclass(frozen=True, slots=True)
class Hardware:
    """The node for which the figures hold: an A800 node of Rubick's testbed."""

    gpus_per_node: int = 8
    network_cards: int = 4  # 4 x 100 Gbit/s; two GPUs share a card. Inferred from the measured points, see `_inter`


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Parts of an iteration, float64[num_points] each, in ms; `total` is their sum."""

    forward: FloatArray  # forward pass, recomputation not included
    compute: FloatArray  # recomputation, backward, gradient synchronisation, offload (the artifact's Tcc)
    optimizer: FloatArray  # optimizer step, parameter swap or all-gather (the artifact's Topt)
    tensor: FloatArray  # all-reduces of activations, not overlapped
    pipeline: FloatArray  # activations from stage to stage, not overlapped
    total: FloatArray


def overlap(x: npt.ArrayLike, y: npt.ArrayLike, k: float) -> FloatArray:
    """Return `(x^k + y^k)^(1/k)`, the time of two overlapping activities (Pollux, OSDI'21).

    Sum for k = 1, maximum for k to infinity. Both times are at least 0. The larger one is factored out so that no power
    overflows.
    """
    large = np.maximum(x, y)
    small = np.minimum(x, y)
    ratio = np.divide(small, large, out=np.zeros(np.broadcast(x, y).shape), where=np.asarray(large > 0))
    return np.asarray(large * (1.0 + ratio**k) ** (1.0 / k), dtype=np.float64)


def points(rows: Iterable[tuple[ExecutionPlan, Sequence[int], float, float]]) -> Points:
    """Convert rows of (plan, GPUs on each node, global batch, CPU threads per GPU) to an array of `POINT`.

    Raises:
        PerformanceError: plan and placement differ in GPUs, or batch or threads are not positive.
    """
    table = [_point(*row) for row in rows]
    return np.array(table, dtype=POINT)


def iteration_time(shape: ModelShape, figures: Figures, rows: Points, hardware: Hardware | None = None) -> Breakdown:
    """Compute the parts of one training iteration for each point, in ms.

    Args:
        shape: the model.
        figures: its seven parameters, forward profile and links.
        rows: `POINT`[num_points].
        hardware: the node; an A800 node if None.
    """
    k, links = figures.params, figures.links
    d, t, p, a = rows["data"], rows["tensor"], rows["pipeline"], rows["accumulation"]
    size = shape.mega_params / (t * p)  # M parameters of one GPU
    samples = rows["batch"] / (d * a)  # of one micro-batch
    forward = _stage_forward(figures.forward, rows, samples)
    backward = k.k_bwd * forward
    # A stage works on a micro-batches and idles for the time of p - 1, the bubble. The gradients of the last
    # micro-batch are synchronised while its backward pass runs through the p stages.
    fill = a + p - 1
    sync = _sync_time(size, rows, links, hardware or Hardware())
    zero = (rows["zero_stage"] > 0) | rows["offload"]
    half = np.where(zero, 0.5, 1.0)  # ZeRO: reduce-scatter here, all-gather after the step; plain: all-reduce here
    repeats = np.where(t * p > 1, 1.0, a)  # data-parallel runs synchronise every micro-batch (artifact: alpha_c = a)
    compute = overlap(p * backward, half * repeats * sync, k.k_sync)
    # Each rank sends its share of the gradients to CPU memory.
    offload = np.where(rows["offload"], 4.0 * size / d / links.pcie, 0.0)
    compute = np.where(rows["offload"], overlap(compute, offload, k.k_off), compute)
    compute = compute + (a - 1) * backward + np.where(rows["checkpointing"], fill * forward, 0.0)
    optimizer = _optimizer_time(k, size, links, rows) + np.where(zero & ~rows["offload"], 0.5 * sync, 0.0)
    tensor, pipeline = _activation_time(shape, rows, samples, links)
    total = fill * forward + compute + optimizer + tensor + pipeline + k.k_const
    return Breakdown(fill * forward, compute, optimizer, tensor, pipeline, total)


def check_layout(shape: ModelShape, plan: ExecutionPlan, num_gpus: int, num_nodes: int = 1, batch: int = 0) -> None:
    """Check that a plan can be laid out on the GPUs; memory is not checked.

    Raises:
        PerformanceError: a degree does not divide the GPUs, the layers or the batch; a tensor group exceeds a node; or
            two techniques exclude each other.
    """
    name = f"model {shape.name}: plan {describe(plan)}"
    batch = batch or shape.batch
    if plan.num_gpus != num_gpus:
        raise PerformanceError(
            f"{name}: data x tensor x pipeline is {plan.num_gpus}, the GPUs are {num_gpus}; they must be equal"
        )
    if shape.layers % plan.pipeline:
        raise PerformanceError(
            f"{name}: pipeline degree {plan.pipeline} does not divide the {shape.layers} layers; choose a divisor"
        )
    smallest = min(even_shares(num_gpus, num_nodes))
    if plan.tensor > smallest:
        raise PerformanceError(
            f"{name}: tensor degree {plan.tensor} exceeds the {smallest} GPUs on one of the job's {num_nodes} nodes; "
            "choose a tensor degree that fits on one node"
        )
    if plan.tensor * plan.pipeline > 1 and not shape.model_parallel:
        raise PerformanceError(
            f"{name}: no tensor- or pipeline-parallel run of this model was measured; set both degrees to 1"
        )
    if batch % (plan.data * plan.accumulation):
        raise PerformanceError(
            f"{name}: batch {batch} does not divide into {plan.data} replicas x {plan.accumulation} micro-batches; "
            "choose degrees whose product divides it"
        )
    if (plan.zero_stage or plan.offload) and plan.tensor * plan.pipeline > 1:
        raise PerformanceError(
            f"{name}: ZeRO and offload need plain data parallelism, but tensor x pipeline is "
            f"{plan.tensor * plan.pipeline}; set both to 1, or zero_stage=0 and offload=False"
        )
    if plan.zero_stage == 3:
        raise PerformanceError(f"{name}: ZeRO stage 3 was not measured; use 0, 1 or 2")


def describe(plan: ExecutionPlan) -> str:
    """Format a plan in a few characters, for messages and tables: `d4-t2-p1`, `d8-zero2-offload-ga2-gc`."""
    words = [f"d{plan.data}"]
    if plan.tensor * plan.pipeline > 1:
        words += [f"t{plan.tensor}", f"p{plan.pipeline}"]
    words += [f"zero{plan.zero_stage}"] if plan.zero_stage else []
    words += ["offload"] if plan.offload else []
    words += [f"ga{plan.accumulation}"] if plan.accumulation > 1 else []
    words += ["gc"] if plan.checkpointing else []
    return "-".join(words)


def even_shares(num_gpus: int, num_nodes: int) -> tuple[int, ...]:
    """Return the GPUs on each node when they are spread evenly, larger shares first.

    Raises:
        PerformanceError: fewer GPUs than nodes, or counts below one.
    """
    if not 1 <= num_nodes <= num_gpus:
        raise PerformanceError(f"{num_gpus} GPUs on {num_nodes} nodes; use at least one node, and a GPU on each node")
    share, rest = divmod(num_gpus, num_nodes)
    return (share + 1,) * rest + (share,) * (num_nodes - rest)


def _point(plan: ExecutionPlan, shares: Sequence[int], batch: float, cpus: float) -> tuple[object, ...]:
    if plan.num_gpus != sum(shares):
        raise PerformanceError(
            f"plan {describe(plan)} needs {plan.num_gpus} GPUs, its placement {tuple(shares)} has {sum(shares)}"
        )
    if not (cpus > 0 and batch > 0):
        raise PerformanceError(f"plan {describe(plan)}: batch {batch} and CPU threads {cpus} must be positive numbers")
    return (
        *(plan.data, plan.tensor, plan.pipeline, plan.zero_stage, plan.offload, plan.accumulation),
        *(plan.checkpointing, batch, cpus, len(shares), min(shares), any(share % plan.tensor for share in shares)),
    )


def _stage_forward(forward: Forward, rows: Points, samples: FloatArray) -> FloatArray:
    """Return the forward time of one micro-batch on one pipeline stage, ms."""
    t, p = rows["tensor"], rows["pipeline"]
    ratio = np.where(t * p > 1, forward.model_parallel, 1.0)
    return np.asarray(ratio * (forward.fixed + forward.per_sample * samples / t) / p)


def _sync_time(size: FloatArray, rows: Points, links: Links, hardware: Hardware) -> FloatArray:
    """Return the time of a ring all-reduce of fp32 gradients over d replicas, ms: 4 bytes x 2 (d - 1) / d x size."""
    d, t, p = rows["data"], rows["tensor"], rows["pipeline"]
    per_node = d * t * p / rows["num_nodes"]
    # Ranks are numbered tensor first, then data, then pipeline (Megatron-LM): a stage is d x t consecutive GPUs.
    crosses = d * t > per_node
    bandwidth = np.where(crosses, _inter(rows, per_node, links, hardware), links.intra)
    return np.asarray(8.0 * size * (d - 1) / d / bandwidth)


def _inter(rows: Points, per_node: FloatArray, links: Links, hardware: Hardware) -> FloatArray:
    """Return the bandwidth of one ring that crosses nodes.

    A ring uses the network cards of its GPUs on the node where it has the fewest GPUs; the t rings of a node share
    them. The measurements show this: data-parallel GPT-2 on eight GPUs takes 0.82 s as 4+4 and 0.85 s as 3+5, but 1.08
    s as 2+6 and 1.09 s as 2+2+2+2.
    """
    gpus_per_card = hardware.gpus_per_node / hardware.network_cards
    cards = np.clip(np.ceil(rows["smallest"] / gpus_per_card), 1, hardware.network_cards)
    rings = np.minimum(rows["tensor"], per_node)
    return np.asarray(np.minimum(links.inter * cards / rings, links.intra))


def _optimizer_time(k: PerfParams, size: FloatArray, links: Links, rows: Points) -> FloatArray:
    """Return the time of the optimizer step, ms: on the GPU, or on the CPUs with the return of half-precision weights.

    The CPUs step the d shards in parallel, but all weights return to every GPU, so the return does not shrink with d.
    Reconstruction (the artifact divides the return by d and adds a constant): measured optimizer times with offload
    have a part in proportion to 1/d and, for all models, a constant near 0.25 ms per M parameters, which is 2 bytes at
    8 M bytes per ms.
    """
    d = rows["data"]
    on_gpu = k.k_opt * size / np.where(rows["zero_stage"] > 0, d, 1.0)  # ZeRO: each rank steps its share
    on_cpu = k.k_opt_off * size / (d * rows["cpus"])
    return np.where(rows["offload"], overlap(on_cpu, 2.0 * size / links.pcie, k.k_swap), on_gpu)


def _activation_time(
    shape: ModelShape, rows: Points, samples: FloatArray, links: Links
) -> tuple[FloatArray, FloatArray]:
    """Return the times of tensor-parallel and of pipeline-parallel traffic, ms.

    Tensor: four all-reduces per layer (two forward, two backward, and two more if the forward pass is recomputed) of
    n x s x h half-precision elements; through one network card if a tensor group straddles two nodes. Pipeline: the
    same elements once in each direction over every stage boundary. Stages send a micro-batch while they work on the
    next one, so only p of the a transfers take extra time.
    """
    t, p, a = rows["tensor"], rows["pipeline"], rows["accumulation"]
    elements = samples * shape.sequence * shape.hidden / MEGA
    again = np.where(rows["checkpointing"], 1.5, 1.0)
    bandwidth = np.where(rows["straddles"], min(links.inter, links.intra), links.intra)
    tensor = again * 16.0 * elements * (t - 1) / t * shape.layers / p * (a + p - 1) / bandwidth
    pipeline = np.where(p > 1, 4.0 * elements / t * p / links.inter, 0.0)
    return np.asarray(tensor), np.asarray(pipeline)
