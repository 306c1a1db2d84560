"""GPU and host memory of a training job by execution plan, and whether it fits.

Mixed-precision training with Adam: half-precision weights and gradients, fp32 master weights and two moments. Sources:
ZeRO (Rajbhandari et al., SC'20, section 3) for model states by stage; ZeRO-Offload (Ren et al., ATC'21) for what moves
to the host; Korthikanti et al. (MLSys'23, section 4) for activations. Rubick's own estimate is not public (its artifact
has a table of feasible plans), so that the whole is a *reconstruction*; it accepts all 535 configurations that ran in
the artifact's measurements and refuses the four that are marked as failed.

Gigabytes are 10^9 bytes.
"""

from dataclasses import dataclass

from envs.performance.rubick import ModelShape, describe
from envs.types import ExecutionPlan, Gigabytes, PerformanceError

GIGA = 1e9
WEIGHT_BYTES = 2.0  # half precision
GRADIENT_BYTES = 2.0
OPTIMIZER_BYTES = 12.0  # fp32 master weight, momentum, variance
OFFLOAD_GRADIENT_BYTES = 4.0  # fp32 gradients on the host


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """What one GPU and its node have."""

    gpu: Gigabytes = 80.0  # A800
    host: Gigabytes = 1600.0  # of one node (Rubick's testbed)
    gpus_per_node: int = 8
    usable: float = 0.92  # share of GPU memory that tensors can fill; allocator and fragmentation take the rest (guess)
    reserved: Gigabytes = 1.5  # CUDA context, communication buffers (guess)
    host_reserved: Gigabytes = 1.0  # per GPU: data loading, process image (artifact: 1.2-2 GB for plain jobs)


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Gigabytes that one GPU holds, by what it holds, and what its share of the host must hold."""

    weights: Gigabytes
    gradients: Gigabytes
    optimizer: Gigabytes
    activations: Gigabytes
    reserved: Gigabytes
    host: Gigabytes  # per GPU

    @property
    def gpu(self) -> Gigabytes:
        """All that one GPU holds."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.reserved


def memory_need(
    shape: ModelShape, plan: ExecutionPlan, batch: int | None = None, device: DeviceMemory | None = None
) -> MemoryNeed:
    """Memory of the fullest GPU of a plan at a global batch size (the model's usual one if None).

    With d replicas, P parameters on t x p GPUs: ZeRO stage 1 divides optimizer states by d, stage 2 gradients too,
    stage 3 weights too. Offload keeps weights on the GPU and has gradients and optimizer states, divided by d, on the
    host; gradients pass through a bucket on the GPU.
    """
    device = device or DeviceMemory()
    size = shape.parameters / (plan.tensor * plan.pipeline) / GIGA
    stage = max(plan.zero_stage, 2) if plan.offload else plan.zero_stage
    weights = WEIGHT_BYTES * size / (plan.data if stage >= 3 else 1)
    if plan.offload:
        bucket = min(WEIGHT_BYTES * size, 1.0)
        host = (OPTIMIZER_BYTES + OFFLOAD_GRADIENT_BYTES) * size / plan.data
        gradients, optimizer = bucket, 0.0
    else:
        host = 0.0
        gradients = GRADIENT_BYTES * size / (plan.data if stage >= 2 else 1)
        optimizer = OPTIMIZER_BYTES * size / (plan.data if stage >= 1 else 1)
    samples = (batch or shape.batch) / (plan.data * plan.accumulation)
    return MemoryNeed(
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        activations=activation_memory(shape, plan, samples),
        reserved=device.reserved,
        host=host + device.host_reserved,
    )


def activation_memory(shape: ModelShape, plan: ExecutionPlan, samples: float) -> Gigabytes:
    """Activations that one GPU keeps for the backward pass, in half precision, for micro-batches of `samples`.

    A layer keeps s h (10 + 24/t + 5 a s / (h t)) bytes per sample (Korthikanti et al., equation 2; s sequence,
    h hidden, a heads, t tensor degree); with checkpointing its input of 2 s h, and one layer at a time is whole. A
    pipeline stage holds as many micro-batches as are under way: min(micro-batches, stages). The output layer's logits,
    in half and single precision, stand on the last stage, which has one micro-batch under way; the fuller stage counts.
    """
    s, h, t = float(shape.sequence), float(shape.hidden), plan.tensor
    layer = s * h * (10.0 + 24.0 / t + 5.0 * shape.heads * s / (h * t)) * samples
    layers = shape.layers / plan.pipeline
    whole = 2.0 * s * h * samples * layers if plan.checkpointing else layer * layers
    extra = layer if plan.checkpointing else 0.0
    logits = 6.0 * s * shape.vocabulary / t * samples
    under_way = min(plan.accumulation, plan.pipeline)
    if plan.pipeline == 1:
        return (whole + extra + logits) / GIGA
    return max(whole * under_way + extra, whole + extra + logits) / GIGA


def excess(
    shape: ModelShape,
    plan: ExecutionPlan,
    batch: int | None = None,
    *,
    memory_per_gpu: Gigabytes | None = None,
    device: DeviceMemory | None = None,
) -> tuple[Gigabytes, Gigabytes]:
    """By how many gigabytes a plan exceeds a GPU, and its share of the host; 0.0 where it fits.

    Args:
        shape: the model.
        plan: the plan.
        batch: global batch size; the model's usual one if None.
        memory_per_gpu: host memory for each GPU of the job; if None all of a node's, over the GPUs that the job has
            there when packed on as few nodes as hold it.
        device: GPU and node; an A800 server if None.
    """
    device = device or DeviceMemory()
    need = memory_need(shape, plan, batch, device)
    host = device.host / min(plan.num_gpus, device.gpus_per_node) if memory_per_gpu is None else memory_per_gpu
    return max(need.gpu - device.gpu * device.usable, 0.0), max(need.host - host, 0.0)


def check_fits(
    shape: ModelShape,
    plan: ExecutionPlan,
    batch: int | None = None,
    *,
    memory_per_gpu: Gigabytes | None = None,
    device: DeviceMemory | None = None,
) -> None:
    """Raise where a plan does not fit, saying by how much.

    Raises:
        PerformanceError: GPU or host memory is exceeded.
    """
    device = device or DeviceMemory()
    gpu, host = excess(shape, plan, batch, memory_per_gpu=memory_per_gpu, device=device)
    name = f"model {shape.name}: plan {describe(plan)}"
    if gpu > 0:
        raise PerformanceError(
            f"{name}: exceeds GPU memory by {gpu:.1f} GB of {device.gpu * device.usable:.1f} GB usable; "
            "shard it further, offload, checkpoint or accumulate"
        )
    if host > 0:
        raise PerformanceError(
            f"{name}: exceeds host memory by {host:.1f} GB per GPU; give it more memory or more GPUs"
        )
