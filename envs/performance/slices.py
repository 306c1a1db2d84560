"""Parts of a GPU: slices with memory of their own, and jobs that ask for less than a GPU. Throughputs are modelled.

**Slices.** "A100/4" is one of four parts of an A100. On a type that NVIDIA's Multi-Instance GPU divides, the parts are
those of its profiles (`MIG_PROFILES`); on any other type each of k parts has 1/k of everything, as MPS or a device
plugin for Kubernetes would give it. A cluster has nodes of slices beside nodes of whole GPUs, and everything else
takes a slice for a GPU type of its own. No two jobs share a slice.

**Fractions.** A job of model "resnet50@0.25" has asked for a quarter of a GPU. It gets that much on a whole GPU, and
on a slice of at least as much memory; if the slice has fewer compute units, it gets those. Where jobs may share GPUs
(`scenario.sharing=pairs`), two whose fractions fit one GPU together keep all of their throughput.

The model: two equal jobs on one GPU each keep a part f of their throughput, measured or modelled
(`envs.performance.colocation`). Half a GPU is taken to do the same, and a share s of the compute units to do f **
log2(1 / s): a job that hardly notices another one hardly notices half a GPU either. A part never does less than its
share. What the model cannot know: parts are isolated, while co-located jobs also contend for caches and copies, so
that it is rather too low for halves; below halves nothing was measured.

A job runs on one part of a GPU, since NCCL does not join slices: more of them make it no faster.
"""

import math
from functools import cache

from envs.performance.colocation import equal_jobs_factor

FRACTIONS = (0.25, 0.5, 0.75)
"""The fractions of a GPU that jobs can ask for; any other request is rounded up."""


@cache
def part_factor(model: str, gpu_type: str, compute: float) -> float:
    """Return the fraction of a GPU's throughput that a model has with a share of its compute units, memory aside.

    Args:
        model: zoo name.
        gpu_type: of the whole GPU, one of the zoo's types.
        compute: the share, above 0 and at most 1.
    """
    return max(compute, math.pow(equal_jobs_factor(model, gpu_type), math.log2(1.0 / compute)))
