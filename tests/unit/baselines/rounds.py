"""Views of real rounds, reached by playing a workload up to a given time."""

from collections.abc import Mapping, Sequence

from envs.performance import IdealModel, PerformanceModel
from envs.scheduling import ClusterView
from envs.simulation import Information, Rounds, Scenario, Simulator
from envs.types import ClusterSpec, JobId, NodeId, Placement, Seconds
from envs.workloads import Workload


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
