"""Rubick's performance model: iteration time of a job by execution plan and placement (MLSys'25, section 4).

One training iteration is a forward pass, a backward pass that overlaps with the synchronisation of gradients, traffic
of ZeRO-Offload, the optimizer step, and what tensor and pipeline parallelism send. Overlaps are p-norms.

What is what:

- *Published*: the parts, the seven parameters, the p-norm overlaps, volumes of gradient and tensor traffic; read in the
  public artifact (see `envs.performance.rubick_artifact`, which keeps the artifact's own form).
- *Reconstruction*, ours: the forward time as a function of plan and batch (the artifact takes it from a measurement of
  every single plan); the pipeline bubble of one-forward-one-backward schedules; ZeRO's all-gather of updated
  parameters after the step; the bandwidth between nodes as that of the network cards that a job's GPUs reach, shared by
  the tensor ranks of a node. Each stands in its function below, and `rubick_validation` holds all against 535
  measured iterations.

Units: milliseconds; sizes in M, that is 2^20 parameters or elements; bandwidths in M bytes per millisecond (1 is
1.05 GB/s). The arithmetic is over arrays: one element a (plan, placement) point.
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
        ("cpus", np.float64),  # c, host threads per GPU
        ("num_nodes", np.float64),
        ("smallest", np.float64),  # fewest GPUs that the job has on any of its nodes
        ("straddles", np.bool_),  # a tensor group lies on two nodes: t does not divide the GPUs of some node
    ]
)
"""A plan on a placement, as a row of an array: what the model needs to know of it."""

Points: TypeAlias = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What a model is, apart from how fast it runs."""

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
    model_parallel: bool = True  # tensor- and pipeline-parallel runs were measured; if not it has no such plans

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
    k_opt_off: float  # optimizer step on the host, ms x threads per M parameters
    k_const: float  # what every iteration costs besides, ms
    k_off: float  # overlap of compute and gradient offload, as k_sync
    k_swap: float  # overlap of host optimizer step and return of parameters, as k_sync


@dataclass(frozen=True, slots=True)
class Forward:
    """Forward time of one micro-batch of n samples on t tensor ranks: `fixed + per_sample * n / t`, ms.

    Reconstruction: the artifact divides the one-GPU time by d (and by 1.8^log2 d for BERT); an affine law does both.
    `model_parallel` is the ratio of forward times in the code base that runs tensor and pipeline parallelism to that
    which runs data parallelism: DeepSpeed and Megatron versions of one model differ (2.5-fold for T5).
    """

    fixed: float  # ms: kernel launches and other work that does not shrink with the batch
    per_sample: float  # ms
    model_parallel: float = 1.0


@dataclass(frozen=True, slots=True)
class Links:
    """Effective bandwidths in M bytes per ms; a model's own, since they depend on message sizes and number formats."""

    intra: float  # GPU to GPU within a node
    inter: float  # one network card
    pcie: float  # GPU to host


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything numerical that is known of one model's speed on one GPU type."""

    params: PerfParams
    forward: Forward
    links: Links


@dataclass(frozen=True, slots=True)
class Hardware:
    """The node that the figures hold for: an A800 server of Rubick's testbed."""

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
    """`(x^k + y^k)^(1/k)`: the time of two activities that overlap (Pollux, OSDI'21): k=1 sum, k to infinity maximum.

    Both are non-negative. Scaled by the larger one, so that no power overflows.
    """
    large = np.maximum(x, y)
    small = np.minimum(x, y)
    ratio = np.divide(small, large, out=np.zeros(np.broadcast(x, y).shape), where=np.asarray(large > 0))
    return np.asarray(large * (1.0 + ratio**k) ** (1.0 / k), dtype=np.float64)


def pipeline_bubble(stages: int, micro_batches: int) -> float:
    """Share of time that a stage idles in a one-forward-one-backward pipeline: (p - 1) / (a + p - 1)."""
    return (stages - 1) / (micro_batches + stages - 1)


def points(rows: Iterable[tuple[ExecutionPlan, Sequence[int], float, float]]) -> Points:
    """Rows of (plan, GPUs on each node, global batch, host threads per GPU) as an array of `POINT`.

    Raises:
        PerformanceError: plan and placement differ in GPUs, or batch or threads are not positive.
    """
    table = [_point(*row) for row in rows]
    return np.array(table, dtype=POINT)


def iteration_time(shape: ModelShape, figures: Figures, rows: Points, hardware: Hardware | None = None) -> Breakdown:
    """Parts of one training iteration on each point, in ms.

    Args:
        shape: the model.
        figures: its seven parameters, forward profile and links.
        rows: `POINT`[num_points].
        hardware: the node; an A800 server if None.
    """
    k, links = figures.params, figures.links
    d, t, p, a = rows["data"], rows["tensor"], rows["pipeline"], rows["accumulation"]
    size = shape.mega_params / (t * p)  # M parameters of one GPU
    samples = rows["batch"] / (d * a)  # of one micro-batch
    forward = _stage_forward(figures.forward, rows, samples)
    backward = k.k_bwd * forward
    # A stage works for a micro-batches and idles for p - 1 of them: the bubble. The gradients of the last micro-batch
    # are synchronised while its backward pass runs through the p stages.
    fill = a + p - 1
    sync = _sync_time(size, rows, links, hardware or Hardware())
    zero = (rows["zero_stage"] > 0) | rows["offload"]
    half = np.where(zero, 0.5, 1.0)  # ZeRO: reduce-scatter here, all-gather after the step; plain: all-reduce here
    repeats = np.where(t * p > 1, 1.0, a)  # data-parallel runs synchronise every micro-batch (artifact: alpha_c = a)
    compute = overlap(p * backward, half * repeats * sync, k.k_sync)
    offload = np.where(rows["offload"], 4.0 * size / d / links.pcie, 0.0)  # each rank's share of gradients, to the host
    compute = np.where(rows["offload"], overlap(compute, offload, k.k_off), compute)
    compute = compute + (a - 1) * backward + np.where(rows["checkpointing"], fill * forward, 0.0)
    optimizer = _optimizer_time(k, size, links, rows) + np.where(zero & ~rows["offload"], 0.5 * sync, 0.0)
    tensor, pipeline = _activation_time(shape, rows, samples, links)
    total = fill * forward + compute + optimizer + tensor + pipeline + k.k_const
    return Breakdown(fill * forward, compute, optimizer, tensor, pipeline, total)


def check_layout(shape: ModelShape, plan: ExecutionPlan, num_gpus: int, num_nodes: int = 1, batch: int = 0) -> None:
    """Whether a plan can be laid out on GPUs at all, whatever its memory.

    Raises:
        PerformanceError: a degree does not divide the GPUs, the layers or the batch, a tensor group exceeds a node, or
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
            "tensor groups belong within a node"
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
            f"{name}: ZeRO and offload go with data parallelism only, tensor x pipeline is "
            f"{plan.tensor * plan.pipeline}; set both to 1 or zero_stage=0, offload=False"
        )
    if plan.zero_stage == 3:
        raise PerformanceError(f"{name}: ZeRO stage 3 gathers weights layer by layer and has no figures; use 0, 1 or 2")


def describe(plan: ExecutionPlan) -> str:
    """A plan in a few characters, for messages and tables: `d4-t2-p1`, `d8-zero2-offload-ga2-gc`."""
    words = [f"d{plan.data}"]
    if plan.tensor * plan.pipeline > 1:
        words += [f"t{plan.tensor}", f"p{plan.pipeline}"]
    words += [f"zero{plan.zero_stage}"] if plan.zero_stage else []
    words += ["offload"] if plan.offload else []
    words += [f"ga{plan.accumulation}"] if plan.accumulation > 1 else []
    words += ["gc"] if plan.checkpointing else []
    return "-".join(words)


def even_shares(num_gpus: int, num_nodes: int) -> tuple[int, ...]:
    """GPUs on each node when spread evenly, larger shares first.

    Raises:
        PerformanceError: fewer GPUs than nodes, or counts below one.
    """
    if not 1 <= num_nodes <= num_gpus:
        raise PerformanceError(
            f"{num_gpus} GPUs on {num_nodes} nodes: need 1 <= num_nodes <= num_gpus; give each node a GPU"
        )
    share, rest = divmod(num_gpus, num_nodes)
    return (share + 1,) * rest + (share,) * (num_nodes - rest)


def _point(plan: ExecutionPlan, shares: Sequence[int], batch: float, cpus: float) -> tuple[object, ...]:
    if plan.num_gpus != sum(shares):
        raise PerformanceError(
            f"plan {describe(plan)} needs {plan.num_gpus} GPUs, its placement {tuple(shares)} has {sum(shares)}"
        )
    if not (cpus > 0 and batch > 0):
        raise PerformanceError(f"plan {describe(plan)}: batch {batch} and host threads {cpus} must be positive numbers")
    return (
        *(plan.data, plan.tensor, plan.pipeline, plan.zero_stage, plan.offload, plan.accumulation),
        *(plan.checkpointing, batch, cpus, len(shares), min(shares), any(share % plan.tensor for share in shares)),
    )


def _stage_forward(forward: Forward, rows: Points, samples: FloatArray) -> FloatArray:
    """Forward time of one micro-batch on one pipeline stage, ms."""
    t, p = rows["tensor"], rows["pipeline"]
    ratio = np.where(t * p > 1, forward.model_parallel, 1.0)
    return np.asarray(ratio * (forward.fixed + forward.per_sample * samples / t) / p)


def _sync_time(size: FloatArray, rows: Points, links: Links, hardware: Hardware) -> FloatArray:
    """Ring all-reduce of fp32 gradients over the d replicas of each shard, ms: 4 bytes x 2 (d - 1) / d x size."""
    d, t, p = rows["data"], rows["tensor"], rows["pipeline"]
    per_node = d * t * p / rows["num_nodes"]
    # Ranks are numbered tensor first, then data, then pipeline (Megatron-LM): a stage is d x t neighbouring GPUs.
    crosses = d * t > per_node
    bandwidth = np.where(crosses, _inter(rows, per_node, links, hardware), links.intra)
    return np.asarray(8.0 * size * (d - 1) / d / bandwidth)


def _inter(rows: Points, per_node: FloatArray, links: Links, hardware: Hardware) -> FloatArray:
    """Bandwidth of one ring that crosses nodes.

    A ring uses the network cards that its GPUs reach on the node where it has fewest; the t rings of a node share them.
    The measurements show it: data-parallel GPT-2 on eight GPUs takes 0.82 s as 4+4, 0.85 s as 3+5 but 1.08 s as 2+6 and
    1.09 s as 2+2+2+2.
    """
    gpus_per_card = hardware.gpus_per_node / hardware.network_cards
    cards = np.clip(np.ceil(rows["smallest"] / gpus_per_card), 1, hardware.network_cards)
    rings = np.minimum(rows["tensor"], per_node)
    return np.asarray(np.minimum(links.inter * cards / rings, links.intra))


def _optimizer_time(k: PerfParams, size: FloatArray, links: Links, rows: Points) -> FloatArray:
    """Optimizer step, ms: on the GPU, or on the host with the return of half-precision weights.

    The host steps the d shards side by side, but all weights come back to every GPU, so that this part does not shrink
    with d. Reconstruction (the artifact divides it by d and adds a constant): measured optimizer times with offload are
    a share of 1/d and a constant near 0.25 ms per M parameters for all models, which is 2 bytes at 8 M bytes per ms.
    """
    d = rows["data"]
    on_gpu = k.k_opt * size / np.where(rows["zero_stage"] > 0, d, 1.0)  # ZeRO: each rank steps its share
    on_host = k.k_opt_off * size / (d * rows["cpus"])
    return np.where(rows["offload"], overlap(on_host, 2.0 * size / links.pcie, k.k_swap), on_gpu)


def _activation_time(
    shape: ModelShape, rows: Points, samples: FloatArray, links: Links
) -> tuple[FloatArray, FloatArray]:
    """Traffic of tensor and of pipeline parallelism, ms.

    Tensor: four all-reduces a layer (two forward, two backward, two again if the forward is recomputed) of n x s x h
    half-precision elements; where a tensor group straddles two nodes, through one network card. Pipeline: the same
    elements once each way over every stage boundary. Stages pass a micro-batch on while they work on the next one, so
    that only p of the a transfers are in the way.
    """
    t, p, a = rows["tensor"], rows["pipeline"], rows["accumulation"]
    elements = samples * shape.sequence * shape.hidden / MEGA
    again = np.where(rows["checkpointing"], 1.5, 1.0)
    bandwidth = np.where(rows["straddles"], min(links.inter, links.intra), links.intra)
    tensor = again * 16.0 * elements * (t - 1) / t * shape.layers / p * (a + p - 1) / bandwidth
    pipeline = np.where(p > 1, 4.0 * elements / t * p / links.inter, 0.0)
    return np.asarray(tensor), np.asarray(pipeline)
