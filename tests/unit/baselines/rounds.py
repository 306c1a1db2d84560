"""Views of real rounds, reached by playing a workload up to a given time."""

from collections.abc import Mapping, Sequence

import numpy as np

from envs.performance import IdealModel, PerformanceModel
from envs.scheduling import ClusterView
from envs.simulation import Information, Rounds, Scenario, Simulator
from envs.types import ClusterSpec, JobId, JobSpec, NodeId, NodeSpec, Placement, Seconds
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
    """The round at `time`, after placements made by hand at earlier rounds; rounds fall at every second."""
    scenario = Scenario(
        restart_delay=restart_delay,
        rounds=Rounds(on_events=True, interval=1.0),
        information=information or Information(),
    )
    simulator = Simulator(workload, cluster, performance or IdealModel(), scenario)
    wishes = dict(place)
    for view in simulator.rounds():
        if view.time == time:
            return view
        wish = view.allocation(keep_running=True)
        for job, gpus in wishes.get(view.time, {}).items():
            wish.place(job, Placement(gpus))
        simulator.apply(wish)
    raise AssertionError(f"no round at {time}")


CROWDED = ClusterSpec(
    tuple(
        NodeSpec(kind, size)
        for kind, size in [("old", 4), ("new", 8), ("new", 2), ("small", 4), ("old", 2), ("new", 4)]
    )
)


def busy_round(seed: int, cluster: ClusterSpec = CROWDED, *, restart_delay: Seconds = 0.0) -> ClusterView:
    """A round at t = 1 with up to 40 rigid jobs of all sizes and two models, some of them placed at random at t = 0.

    GPUs are left idle here and there, some of them "small" ones, on which the model "large" does not run.
    """
    rng = np.random.default_rng(seed)
    models = [str(model) for model in rng.choice(["any", "large"], int(rng.integers(2, 41)))]
    sizes = rng.choice([1, 1, 2, 3, 4, 6, 8, 12, 16], len(models)).tolist()
    specs = [
        JobSpec(i, 0.0, size, size * float(rng.integers(2, 200)), model)
        for i, (size, model) in enumerate(zip(sizes, models, strict=True))
    ]
    first = round_at(0, Workload.of(specs), cluster, performance=Curved())
    wish = first.allocation()
    crowd = rng.uniform(0.1, 0.8)
    for job in rng.permutation(len(specs)).tolist():
        if rng.random() < crowd:
            wish.pack(job, scatter=bool(rng.random() < 0.3))
    running = {job: place.gpus for job in range(len(specs)) if (place := wish.placement(job))}
    return round_at(
        1, Workload.of(specs), cluster, place=[(0, running)], performance=Curved(), restart_delay=restart_delay
    )
