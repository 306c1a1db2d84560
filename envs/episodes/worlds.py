"""A distribution of worlds, from which policies learn what holds on any cluster."""

from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from envs.cluster import NodeGroup, build_cluster
from envs.performance import Contention, CostBySize, DrawnModel
from envs.performance.gpus import gpu_types
from envs.simulation import Failures, Information, Rounds, Scenario, Setup, train_predictor
from envs.types import ClusterSpec, MurmurationError
from envs.workloads import SyntheticSource
from envs.workloads.calibration import JobStream
from envs.workloads.distributions import AllAtOnce, ArrivalProcess, Arrivals, LogNormal, MarkovModulated
from envs.workloads.fits import largest_job
from envs.workloads.habits import Habits

FIRST_DRAWN = 1_000  # worlds from this number on are trained on; those before it are stated
MOST_WORLDS = 1 << 40
ATTEMPTS = 50  # at a world in which its jobs can run
LINKS = (1.25, 3.125, 12.5)  # GB/s between nodes
MIX_NAMES = ("gavel", "synergy", "resources")
ARRIVALS: tuple[ArrivalProcess, ...] = (
    Arrivals(),
    Arrivals(cv=1.5, burst=0.3),
    MarkovModulated(busy_jobs=20.0),
    AllAtOnce(),
)


class DrawnWorld(NamedTuple):
    """A world: its name, its setup, and the source of its workloads."""

    name: str
    setup: Setup
    source: SyntheticSource


@dataclass(frozen=True, kw_only=True)
class WorldDistribution:
    """Worlds by number, each determined by it: cluster, throughputs, jobs and rules.

    Drawn are nodes, GPUs of a node, types and their shares; throughputs, measured or drawn around those; sizes, run
    times, elastic ranges, gangs, load and arrivals; restart costs, links, cores and memory, failures; rounds; and what
    is known of work and throughput. Run times are those of the reference type, the first one. Intervals, outages and
    checkpoints follow run times.

    Args:
        nodes: fewest and most nodes; log-uniform.
        gpus_of_node: GPUs of a node, one of these for each type.
        most_gpus: of the cluster, about.
        medians: shortest and longest median of run times, in s; log-uniform.
        loads: lowest and highest load.
        elastic: the widest factor of elastic ranges; log-uniform from 1, and 1 (rigid) in three of ten worlds.
        largest: the most GPUs of a job.
        for_bids: whether only worlds are drawn in which policies that bid can be trained: throughputs are told, and
            jobs of a model have one curve.
        num_evaluation: fixed workloads of each split.
        seed: of the distribution.
        validation: numbers of the worlds on which checkpoints are chosen.
        test: numbers of the worlds on which policies are compared in the end.
        number: the world of commands that play one; None for the first of validation.

    Raises:
        MurmurationError: worlds of validation and test overlap, or have numbers of worlds that are trained on.
    """

    nodes: tuple[int, int] = (2, 32)
    gpus_of_node: tuple[int, ...] = (1, 2, 4, 8)
    most_gpus: int = 256
    medians: tuple[float, float] = (60.0, 86_400.0)
    loads: tuple[float, float] = (0.5, 1.2)
    elastic: float = 16.0
    largest: int = 64
    for_bids: bool = False
    num_evaluation: int = 8
    seed: int = 0
    validation: tuple[int, ...] = tuple(range(20))
    test: tuple[int, ...] = tuple(range(20, 40))
    number: int | None = None

    def __post_init__(self) -> None:
        stated = [*self.validation, *self.test]
        if not self.validation or len({*stated}) < len(stated) or not all(0 <= each < FIRST_DRAWN for each in stated):
            raise MurmurationError(
                f"world: validation is {list(self.validation)} and test {list(self.test)}; give numbers from 0 to "
                f"{FIRST_DRAWN - 1}, each once, and at least one of validation"
            )

    def drawn(self, seed: int) -> DrawnWorld:
        """Return the training world of a random seed; none of validation or test."""
        return self.world(FIRST_DRAWN + seed % MOST_WORLDS)

    def world(self, number: int | None = None) -> DrawnWorld:
        """Return a world; None for `number`, or the first one of validation.

        Raises:
            MurmurationError: no world can be drawn in which its jobs run.
        """
        if number is None:
            number = self.validation[0] if self.number is None else self.number
        for attempt in range(ATTEMPTS):
            with suppress(MurmurationError):  # a job fits on no node, or on no GPU type
                return self._draw(number, np.random.default_rng((self.seed, number, attempt)))
        raise MurmurationError(
            f"world.number is {number}: in none of {ATTEMPTS} draws of it can its jobs run; widen the ranges of world"
        )

    def _draw(self, number: int, rng: np.random.Generator) -> DrawnWorld:
        name = f"world-{number}"
        cluster = self._cluster(name, rng)
        median = between(rng, self.medians)
        invented = bool(rng.random() < 0.5)
        performance = DrawnModel(type_spread=0.5 if invented else 0.0)
        scenario = draw_scenario(rng, median, hides=not self.for_bids)
        habits = Habits() if scenario.information.work == "predicted" else None
        num_jobs = 40 + int(0.8 * cluster.num_gpus)
        source = SyntheticSource(
            cluster,
            performance,
            num_jobs=num_jobs,
            load=float(rng.uniform(*self.loads)),
            stream=draw_stream(rng, median, min(largest_job(cluster), self.largest)),
            mix=str(rng.choice(MIX_NAMES)),
            elastic=1.0 if rng.random() < 0.3 else between(rng, (1.0, self.elastic)),
            seed=number,
            num_evaluation=self.num_evaluation,
            warm_up=num_jobs // 6,
            measured=num_jobs // 2,
            curves=self._curves(rng, invented),  # type: ignore[arg-type]
            name=name,
            habits=habits,
        )
        setup = Setup(cluster, performance, scenario)
        if habits:
            train_predictor(setup, source)
        source.episode(np.random.default_rng(0))  # it says whether jobs can run
        return DrawnWorld(name, setup, source)

    def _curves(self, rng: np.random.Generator, invented: bool) -> str:
        drawn = str(rng.choice(("by_model", "by_job"))) if invented else "measured"
        return "measured" if self.for_bids else drawn

    def _cluster(self, name: str, rng: np.random.Generator) -> ClusterSpec:
        """Draw nodes of one to three types."""
        count = round(between(rng, self.nodes))
        num_types = int(rng.integers(1, min(3, count) + 1))
        types = rng.permutation(list(gpu_types()))[:num_types].tolist()
        shares = 1 + rng.multinomial(count - num_types, rng.dirichlet(np.ones(num_types)))
        link, cores, memory = (
            float(rng.choice(LINKS)),
            float(rng.uniform(2.0, 12.0)),
            float(rng.uniform(30.0, 130.0)),
        )
        groups = []
        for gpu_type, nodes in zip(types, shares.tolist(), strict=True):
            gpus = min(int(rng.choice(self.gpus_of_node)), max(self.most_gpus // count, 1))
            groups.append(
                NodeGroup(
                    gpu_type,
                    nodes,
                    gpus,
                    float(max(round(cores * gpus), 1)),
                    memory * gpus,
                    gpu_types()[gpu_type].intra_node_gb_s,
                    link,
                )
            )
        return build_cluster(name, groups)


def between(rng: np.random.Generator, limits: tuple[float, float]) -> float:
    """Draw a log-uniform number."""
    return float(np.exp(rng.uniform(*np.log(limits))))


def draw_stream(rng: np.random.Generator, median: float, most: int) -> JobStream:
    """Draw sizes that are powers of two up to `most`, run times about a median in s, and arrivals."""
    falling = between(rng, (0.3, 0.9))
    sizes = {1 << i: falling**i for i in range(most.bit_length())}
    durations = LogNormal(median, float(rng.uniform(0.8, 2.2)), low=median / 50.0, high=median * 50.0)
    arrivals = ARRIVALS[int(rng.choice(len(ARRIVALS), p=(0.3, 0.2, 0.4, 0.1)))]
    return JobStream(sizes, {1: durations}, arrivals, "drawn for a distribution of worlds")


def draw_scenario(rng: np.random.Generator, median: float, *, hides: bool = True) -> Scenario:
    """Draw the rules of a world whose run times have a median in s; it hides throughputs only if it may."""
    work = str(rng.choice(("exact", "estimate", "predicted", "none"), p=(0.5, 0.2, 0.15, 0.15)))
    hidden = work != "predicted" and rng.random() < 0.2
    information = Information(work, throughput="observed" if hidden and hides else "exact")  # type: ignore[arg-type]
    by_time = Rounds(on_events=False, interval=min(max(median / between(rng, (2.0, 20.0)), 10.0), 3600.0))
    failures = Failures(
        mtbf=median * between(rng, (50.0, 1000.0)),
        repair_time=median * between(rng, (0.1, 2.0)),
        checkpoint_interval=median * between(rng, (0.05, 1.0)),
    )
    return Scenario(
        restart_delay=median * between(rng, (0.001, 0.1)),
        reconfiguration=CostBySize() if median > 600.0 and rng.random() < 0.4 else None,
        cpu_memory="shared" if rng.random() < 0.5 else "unlimited",
        contention=Contention(str(rng.choice(("off", "measured", "max_min")))),  # type: ignore[arg-type]
        failures=failures if rng.random() < 0.3 else None,
        batch_sizes="usual",
        rounds=by_time if rng.random() < 0.3 else Rounds(),
        information=information,
    )
