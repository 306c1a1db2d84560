"""GPU and CPU memory of a training job by execution plan, and whether it fits.

Training is in mixed precision with Adam: half-precision weights and gradients, fp32 master weights and two moments.
Sources: ZeRO (Rajbhandari et al., SC'20, section 3) for model states by stage; ZeRO-Offload (Ren et al., ATC'21) for
the states in CPU memory; Korthikanti et al. (MLSys'23, section 4) for activations. Rubick's own estimate is not public
(its artifact has a table of feasible plans), so this module is a *reconstruction*. It accepts all 535 configurations
that ran in the artifact's measurements and rejects the four that are marked as failed.

Gigabytes are 10^9 bytes.
"""

from dataclasses import dataclass

from envs.performance.rubick.iteration import ModelShape
from envs.types import ExecutionPlan, Gigabytes

GIGA = 1e9
WEIGHT_BYTES = 2.0  # half precision
GRADIENT_BYTES = 2.0
OPTIMIZER_BYTES = 12.0  # fp32 master weight, momentum, variance
OFFLOAD_GRADIENT_BYTES = 4.0  # fp32 gradients in CPU memory


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Memory of one GPU and of its node."""

    gpu: Gigabytes = 80.0  # A800
    cpu: Gigabytes = 1600.0  # CPU memory of one node (Rubick's testbed)
    gpus_per_node: int = 8
    usable: float = 0.92  # share of GPU memory that tensors can fill; allocator and fragmentation take the rest (guess)
    reserved: Gigabytes = 1.5  # CUDA context, communication buffers (guess)
    cpu_reserved: Gigabytes = 1.0  # CPU memory per GPU: data loading, process image (artifact: 1.2-2 GB for plain jobs)


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Memory of one GPU by purpose, and the CPU memory for it."""

    weights: Gigabytes
    gradients: Gigabytes
    optimizer: Gigabytes
    activations: Gigabytes
    reserved: Gigabytes
    cpu: Gigabytes  # CPU memory per GPU

    @property
    def gpu(self) -> Gigabytes:
        """Memory of one GPU in total."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.reserved


def memory_need(
    shape: ModelShape, plan: ExecutionPlan, batch: int | None = None, device: DeviceMemory | None = None
) -> MemoryNeed:
    """Estimate the memory of the fullest GPU of a plan at a global batch size (the model's usual one if None).

    With d replicas, P parameters on t x p GPUs: ZeRO stage 1 divides optimizer states by d, stage 2 gradients too,
    stage 3 weights too. Offload keeps weights on the GPU, and gradients and optimizer states, divided by d, in CPU
    memory; gradients pass through a bucket on the GPU.
    """
    device = device or DeviceMemory()
    size = shape.parameters / (plan.tensor * plan.pipeline) / GIGA
    stage = max(plan.zero_stage, 2) if plan.offload else plan.zero_stage
    weights = WEIGHT_BYTES * size / (plan.data if stage >= 3 else 1)
    if plan.offload:
        bucket = min(WEIGHT_BYTES * size, 1.0)
        cpu = (OPTIMIZER_BYTES + OFFLOAD_GRADIENT_BYTES) * size / plan.data
        gradients, optimizer = bucket, 0.0
    else:
        cpu = 0.0
        gradients = GRADIENT_BYTES * size / (plan.data if stage >= 2 else 1)
        optimizer = OPTIMIZER_BYTES * size / (plan.data if stage >= 1 else 1)
    samples = (batch or shape.batch) / (plan.data * plan.accumulation)
    return MemoryNeed(
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        activations=activation_memory(shape, plan, samples),
        reserved=device.reserved,
        cpu=cpu + device.cpu_reserved,
    )


def activation_memory(shape: ModelShape, plan: ExecutionPlan, samples: float) -> Gigabytes:
    """Estimate the activations that one GPU keeps for the backward pass, for micro-batches of `samples`.

    A layer keeps s h (10 + 24/t + 5 a s / (h t)) bytes per sample in half precision (Korthikanti et al., equation 2;
    s sequence, h hidden, a heads, t tensor degree). With checkpointing it keeps only its input of 2 s h bytes, and one
    layer at a time is complete. A pipeline stage holds the micro-batches in progress: min(micro-batches, stages). The
    output layer's logits, in half and single precision, are on the last stage, which has one micro-batch in progress.
    The result is the larger of the first and the last stage.
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
    """Return the gigabytes by which a plan exceeds a GPU and its share of CPU memory; 0.0 if it fits.

    Args:
        shape: the model.
        plan: the plan.
        batch: global batch size; the model's usual one if None.
        memory_per_gpu: CPU memory for each GPU of the job; if None, the node's memory divided by the GPUs that the job
            has there when packed on the fewest nodes.
        device: GPU and node; an A800 node if None.
    """
    device = device or DeviceMemory()
    need = memory_need(shape, plan, batch, device)
    cpu = device.cpu / min(plan.num_gpus, device.gpus_per_node) if memory_per_gpu is None else memory_per_gpu
    return max(need.gpu - device.gpu * device.usable, 0.0), max(need.cpu - cpu, 0.0)
