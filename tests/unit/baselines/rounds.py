"""Views of real rounds, obtained by playing a workload up to a given time."""

from collections.abc import Mapping, Sequence

import numpy as np

from envs.performance import IdealModel, PerformanceModel
from envs.scheduling import ClusterView
from envs.simulation import Information, Rounds, Scenario, Setup, Simulator
from envs.types import (
    BoolArray,
    ClusterSpec,
    Constraints,
    IntArray,
    JobId,
    JobSpec,
    NodeId,
    NodeSpec,
    Placement,
    Seconds,
    constrain,
)
from envs.types.allocation import consolidated
from envs.types.limits import find_shaped
from envs.workloads import Workload
from tests.conformance.worlds import Curved


def round_at(
    time: Seconds,
    workload: Workload,
    cluster: ClusterSpec,
    *,
    place: Sequence[tuple[Seconds, Mapping[JobId, Mapping[NodeId, int]]]] = (),
    performance: PerformanceModel | None = None,
    restart_delay: Seconds = 0.0,
    information: Information | None = None,
) -> ClusterView:
    """Return the round at `time`, after placements made by hand at earlier rounds; there is a round every second."""
    scenario = Scenario(
        restart_delay=restart_delay,
        rounds=Rounds(on_events=True, interval=1.0),
        information=information or Information(),
    )
    simulator = Simulator(workload, Setup(cluster, performance or IdealModel(), scenario))
    placements = dict(place)
    for view in simulator.rounds():
        if view.time == time:
            return view
        allocation = view.allocation(keep_running=True)
        for job, gpus in placements.get(view.time, {}).items():
            allocation.place(job, Placement(gpus))
        simulator.apply(allocation)
    raise AssertionError(f"no round at {time}")


CROWDED = ClusterSpec(
    tuple(
        NodeSpec(gpu_type, size)
        for gpu_type, size in [("old", 4), ("new", 8), ("new", 2), ("small", 4), ("old", 2), ("new", 4)]
    )
)


def busy_round(
    seed: int, cluster: ClusterSpec = CROWDED, *, restart_delay: Seconds = 0.0, shapes: bool = False
) -> ClusterView:
    """Return a round at t = 1 with up to 40 rigid jobs of many sizes and two models, some placed at random at t = 0.

    Some GPUs are idle, also some of type "small", on which the model "large" does not run. With `shapes` and odd seeds,
    constraints of half of the jobs demand numbers of nodes, GPUs on each, or whole nodes.
    """
    rng = np.random.default_rng(seed)
    models = [str(model) for model in rng.choice(["any", "large"], int(rng.integers(2, 41)))]
    sizes = rng.choice([1, 1, 2, 3, 4, 6, 8, 12, 16], len(models)).tolist()
    if shapes and seed % 2:
        models = [_shaped(rng, model, size, cluster) for model, size in zip(models, sizes, strict=True)]
    specs = [
        JobSpec(i, 0.0, size, size * float(rng.integers(2, 200)), model)
        for i, (size, model) in enumerate(zip(sizes, models, strict=True))
    ]
    first = round_at(0, Workload.of(specs), cluster, performance=Curved())
    allocation = first.allocation()
    crowd = rng.uniform(0.1, 0.8)
    for job in rng.permutation(len(specs)).tolist():
        if rng.random() < crowd:
            allocation.pack(job, scatter=bool(rng.random() < 0.3))
    running = {job: place.gpus for job in range(len(specs)) if (place := allocation.placement(job))}
    return round_at(
        1, Workload.of(specs), cluster, place=[(0, running)], performance=Curved(), restart_delay=restart_delay
    )


def _shaped(rng: np.random.Generator, model: str, size: int, cluster: ClusterSpec) -> str:
    """Constrain a model's job to nodes of some type that can hold it so; half of the jobs stay as they are."""
    asked = Constraints(
        max_nodes=int(rng.choice([0, 0, 1, 2])),
        num_nodes=int(rng.choice([0, 2, 3])),
        gpus_per_node=int(rng.choice([0, 0, 1, 2])),
        exclusive=bool(rng.random() < 0.5),
    )
    types = [t for t, name in enumerate(cluster.gpu_types) if (model, name) != ("large", "small")]
    fits = [find_shaped(asked, cluster.node_gpus, cluster, size, t, consolidated) for t in types]
    return constrain(model, asked) if any(fits) and rng.random() < 0.5 else model


def runs_on_one_type(view: ClusterView, jobs: IntArray) -> BoolArray:
    """bool[len(jobs)]: whether a job runs, with some number of GPUs in its range, on nodes of one type."""
    least, most = view.min_gpus[jobs], view.max_gpus[jobs]
    throughputs = [view.throughputs(job).max(axis=0) for job in jobs.tolist()]
    return np.array(
        [
            bool((throughput[low : high + 1] > 0).any())
            for throughput, low, high in zip(throughputs, least, most, strict=True)
        ],
        dtype=np.bool_,
    )
