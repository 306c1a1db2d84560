"""Small worlds for tests of schedulers: clusters, workloads and rules, drawn by hypothesis."""

from dataclasses import dataclass

from hypothesis import strategies as st

from envs.simulation import Information, Rounds, Scenario
from envs.types import ClusterSpec, Configuration, JobSpec, NodeSpec
from envs.workloads import Workload

HOMOGENEOUS = ClusterSpec(tuple(NodeSpec("new", 4) for _ in range(3)), "homogeneous")
HETEROGENEOUS = ClusterSpec(
    (NodeSpec("old", 4), NodeSpec("new", 4), NodeSpec("new", 2), NodeSpec("small", 2), NodeSpec("old", 2)), "mixed"
)
CLUSTERS = {cluster.name: cluster for cluster in (HOMOGENEOUS, HETEROGENEOUS)}
HORIZON = 1e7  # the same for agents and scheduler
SCENARIOS = {
    "plain": Scenario(restart_delay=2.0, horizon=HORIZON),
    "free": Scenario(restart_delay=0.0, horizon=HORIZON),
    "intervals": Scenario(1.0, 2.0, horizon=HORIZON, rounds=Rounds(on_events=False, interval=10.0)),
    "both": Scenario(0.0, 1.0, horizon=HORIZON, rounds=Rounds(interval=25.0)),
    "hidden": Scenario(restart_delay=2.0, horizon=HORIZON, information=Information("none")),
    "cut off": Scenario(restart_delay=2.0, horizon=45.0),
    "equal shares": Scenario(restart_delay=2.0, horizon=HORIZON, worker_shares="equal"),
}


@dataclass(frozen=True)
class Curved:
    """Less than linear scaling, a penalty for several nodes, three GPU types; "large" does not run on "small" GPUs."""

    models: tuple[str, ...] = ("any", "large")

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        if model == "large" and configuration.gpu_type == "small":
            return 0.0
        alone = {"new": 2.0, "old": 1.0, "small": 0.75}[configuration.gpu_type]
        return float(alone * configuration.num_gpus**0.8 * (0.9 if configuration.num_nodes > 1 else 1.0))


@st.composite
def workloads(draw: st.DrawFn, cluster: ClusterSpec, most_jobs: int = 10) -> Workload:
    """Up to `most_jobs` jobs that all fit on the cluster, some elastic, many of them at once."""
    largest = int(cluster.node_gpus[[node.gpu_type != "small" for node in cluster.nodes]].sum())
    specs: list[JobSpec] = []
    for i in range(draw(st.integers(1, most_jobs))):
        gpus = draw(st.integers(1, largest))
        elastic = draw(st.booleans())
        specs.append(
            JobSpec(
                id=i,
                submit_time=draw(st.sampled_from([0.0, 0.5, 3.0, 7.25, 20.0])),
                num_gpus=gpus,
                work=draw(st.floats(0.5, 200.0)),
                model=draw(st.sampled_from(["any", "large"])),
                min_gpus=draw(st.integers(1, gpus)) if elastic else 0,
                max_gpus=draw(st.integers(gpus, largest)) if elastic else 0,
            )
        )
    return Workload.of(specs)


scenarios = st.builds(
    Scenario,
    start_delay=st.sampled_from([0.0, 0.5]),
    restart_delay=st.sampled_from([0.0, 1.5]),
    rounds=st.builds(Rounds, on_events=st.just(True), interval=st.sampled_from([None, 5.0])),
)
