"""Loaded clusters of three GPU types, from 64 GPUs to 100,000, and episodes under FIFO on them."""

from dataclasses import dataclass, replace

import numpy as np

from baselines.compiled.fifo import play_fifo
from baselines.compiled.gang import gangs_of
from envs.performance import Contention, CostBySize, default_model
from envs.simulation import Rounds, Scenario, Setup, Simulator, State, ThroughputTable
from envs.simulation.scenario import Failures
from envs.types import ClusterSpec, NodeSpec, Seconds
from envs.workloads import Workload
from envs.workloads.mixes import mix_named
from envs.workloads.workload import JOB_COLUMNS

MIX = mix_named("resources")  # as in the task full-64: a quarter of the jobs for each of what limits jobs
WORKLOAD_MODELS = tuple(MIX.models)
NODE_TYPES = ("V100", "P100", "K80")
MINUTE = 60.0
HORIZON = 1e9  # seconds: later than the end of every episode

# The two scenarios that are timed. The full model is that of the task full-64, with failures five times as frequent.
PLAIN = Scenario()  # GPUs are the only resource
FULL = Scenario(
    batch_sizes="usual",
    statistical_efficiency="measured",
    cpu_memory="shared",
    contention=Contention("measured"),
    reconfiguration=CostBySize(),
    failures=Failures(mtbf=30 * 86400.0),
)


def decide_in_rounds(scenario: Scenario, interval: Seconds) -> Scenario:
    """The same scenario with decisions at fixed intervals only."""
    return replace(scenario, rounds=Rounds(on_events=False, interval=interval))


@dataclass(frozen=True, slots=True)
class Size:
    """Nodes of eight GPUs each, and the jobs that are submitted to them."""

    nodes: int
    jobs: int
    load: float = 1.5  # relative to a cluster of the fastest type only; queues grow as long as jobs arrive
    elastic: bool = False  # from half to twice the requested GPUs

    def __str__(self) -> str:
        return f"{self.nodes:,}/{self.jobs:,}"

    def cluster(self) -> ClusterSpec:
        """Nodes of the three GPU types in turn, with 3 cores and 62.5 GB for each GPU, and 10 Gb/s between nodes."""
        gpu_types = (NODE_TYPES[i % len(NODE_TYPES)] for i in range(self.nodes))
        nodes = tuple(NodeSpec(gpu_type, 8, 24, 500, inter_node_bandwidth=1.25) for gpu_type in gpu_types)
        return ClusterSpec(nodes, str(self))

    def workload(self, seed: int = 0) -> Workload:
        """Gangs of 1 to 16 GPUs, log-normal durations, uniformly random arrivals."""
        rng, cluster = np.random.default_rng(seed), self.cluster()
        jobs = np.zeros(self.jobs, JOB_COLUMNS)
        jobs["num_gpus"] = gpus = rng.choice([1, 2, 4, 8, 16], self.jobs, p=[0.6, 0.15, 0.1, 0.1, 0.05])
        jobs["min_gpus"], jobs["max_gpus"] = ((gpus + 1) // 2, 2 * gpus) if self.elastic else (gpus, gpus)
        jobs["model"] = rng.choice(len(MIX.models), self.jobs, p=np.array(MIX.weights) / sum(MIX.weights))
        seconds = np.exp(rng.normal(np.log(3000), 1.2, self.jobs)).clip(60, 2e5)
        table = ThroughputTable.build(Setup(cluster, default_model()), WORKLOAD_MODELS, int(jobs["max_gpus"].max()))
        jobs["work"] = seconds * table.requested_throughput(jobs["model"], gpus)
        jobs["duration"] = np.nan
        span: Seconds = (seconds * gpus).sum() / (cluster.num_gpus * self.load)
        jobs["submit_time"] = np.sort(rng.uniform(0, span, self.jobs))
        return Workload(f"loaded {self}", jobs, WORKLOAD_MODELS)

    def simulator(self, scenario: Scenario, workload: Workload | None = None) -> Simulator:
        """A simulator at t = 0, without an event log, of other jobs than those of the size if some are given."""
        return Simulator(workload or self.workload(), Setup(self.cluster(), default_model(), scenario), logging=False)


class FifoEpisode:
    """An episode under FIFO in compiled code that can be played repeatedly from one instant.

    Args:
        size: its cluster and jobs.
        scenario: its rules.
        workload: other jobs than those of the size.
    """

    def __init__(self, size: Size, scenario: Scenario, workload: Workload | None = None) -> None:
        self.simulator = size.simulator(scenario, workload)
        gangs = gangs_of(self.simulator)
        assert gangs is not None, "every gang of these workloads fits on one type"
        self.gangs = gangs
        self.start = State.allocate(self.simulator.cluster, size.jobs, scenario=scenario)
        self.keep()

    def keep(self) -> None:
        """Make the present state the start of the episode."""
        self.start.copy_from(self.simulator.state)

    def rewind(self) -> None:
        """Return to the start."""
        self.simulator.state.copy_from(self.start)
        self.gangs.hopeless[:] = -1

    def play(self) -> None:
        """Play until the workload ends or the horizon is reached."""
        play_fifo(self.simulator.world, self.gangs, False)

    def load(self, job: int) -> None:
        """Play until just before a job is submitted, and make that instant the start."""
        self.set_horizon(float(np.nextafter(self.simulator.workload.jobs["submit_time"][job], 0.0)))
        self.play()
        self.simulator.state.episode["ended"] = 0
        self.set_horizon(np.inf)
        self.keep()

    def set_horizon(self, horizon: float) -> None:
        """Set the instant at which `play` ends."""
        self.simulator.state.episode["horizon"] = horizon
        self.start.episode["horizon"] = horizon

    @property
    def num_events(self) -> int:
        """Arrivals and completions since the start."""
        return int(self.simulator.state.episode["num_events"][0, 0] - self.start.episode["num_events"][0, 0])


def load_three_quarters(size: Size, scenario: Scenario) -> FifoEpisode:
    """An episode with elastic jobs that starts when FIFO has seen three quarters of the arrivals."""
    episode = FifoEpisode(replace(size, elastic=True), scenario)
    episode.load(3 * size.jobs // 4)
    return episode


def loaded_state(size: Size) -> State:
    """The state of the full model with elastic jobs when FIFO has seen three quarters of the arrivals."""
    episode = load_three_quarters(size, FULL)
    episode.set_horizon(HORIZON)
    return episode.start
