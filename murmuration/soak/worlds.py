"""Random worlds with all faults on, random schedulers, and the counts of what was injected and checked.

Besides playing, a soak requests allocations that cannot be and kills processes while they write.
"""

import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from baselines import Fifo, Las, Packing, Random, Srtf
from envs.evaluation import files
from envs.evaluation.audit import Audit
from envs.performance import Contention, CostBySize, default_model
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import EventKind, Failures, Information, Rounds, RunResult, Scenario, Setup, Simulator, run_episode
from envs.types import (
    Allocation,
    AllocationError,
    ClusterSpec,
    Configuration,
    ExecutionPlan,
    JobId,
    NodeSpec,
    PerformanceError,
    Placement,
    Seconds,
)
from envs.workloads import SyntheticSource, Workload
from murmuration.config.errors import ChoiceError, RunFailedError

GPU_TYPES = ("V100", "P100", "K80")
PAGE = os.sysconf("SC_PAGE_SIZE")
MB = 2**20
TAMPERING = 0.05  # probability per round that an impossible allocation is requested first
LONGEST: Seconds = 1800.0  # of a world, in real time: most take a second, the first one compiles
KILLS_EVERY = 10  # worlds between processes that are killed while they write
NAMING = 0.3  # probability that a new placement names more than its GPUs
Hidden = Literal["exact", "profiled", "observed"]
HIDDEN: Mapping[int, Hidden] = {0: "observed", 1: "profiled"}  # by seed modulo 5
STOPPED_SHARE = 0.02  # probability per round that a running job is stopped for no reason
WARM_UP = 100  # jobs of the episode before a long one: it compiles and loads everything
LINES = 100_000  # of a file that a process is killed over
WRITER = """
import runpy, sys
from pathlib import Path
write_whole = runpy.run_path(sys.argv[1])["write_whole"]
for number in range(10**9):
    write_whole(Path(sys.argv[2]), f"{number}\\n" * int(sys.argv[3]))
    print(flush=True)
"""


class Disturber:
    """Wraps a scheduler: in some rounds it also stops running jobs, for no reason, and names more than their GPUs.

    Args:
        scheduler: decides about everything else.
        share: probability per round that one running job is stopped.
        names: probability that a new placement names a batch size, a plan, or cores and memory.
    """

    def __init__(self, scheduler: Scheduler, share: float, names: float = 0.0) -> None:
        self.scheduler, self.share, self.names = scheduler, share, names
        self.amounts = 0  # placements that named cores and memory

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode."""
        self._rng = np.random.default_rng(rng.integers(2**63))
        self.scheduler.reset(cluster, rng)

    def schedule(self, view: ClusterView) -> Allocation:
        """Stop a job now and then, and name more of others, after the scheduler has decided."""
        allocation = self.scheduler.schedule(view)
        if len(view.running) and self._rng.random() < self.share:
            allocation.stop(int(self._rng.choice(view.running)))
        for job, placement in allocation.changes.items() if self.names else ():
            if placement is not None and self._rng.random() < self.names:
                named = self._name(view, job, placement)
                if named is not None:
                    allocation.changes[job] = named
        return allocation

    def _name(self, view: ClusterView, job: JobId, placement: Placement) -> Placement | None:
        """Draw what else a placement on GPUs of one type names; None if the job would not run so."""
        nodes, count = {view.cluster.nodes[node] for node in placement.gpus}, placement.num_gpus
        if len({node.gpu_type for node in nodes}) > 1:
            return None
        gpu_type = view.cluster.nodes[min(placement.gpus)].gpu_type
        plain = asked = Configuration(gpu_type, count, len(placement.gpus))
        match int(self._rng.integers(3)):
            case 0:
                least, most = view.batch_range(job, gpu_type, count) or (0, 0)
                asked = replace(asked, batch_size=int(self._rng.integers(least, most + 1)) or None)
            case 1:
                tensor = int(self._rng.choice([size for size in (1, 2, 4) if count % size == 0]))
                asked = replace(asked, plan=ExecutionPlan(data=count // tensor, tensor=tensor))
            case _ if placement.beside is None:  # less than its part, so that there is room for jobs that name nothing
                part = float(self._rng.uniform(0.5, 0.9))
                least_cpus, least_memory = (
                    part * min(getattr(node, name) / node.num_gpus for node in nodes)
                    for name in ("cpu_cores", "memory")
                )
                asked = replace(asked, cpus_per_gpu=least_cpus, memory_per_gpu=least_memory)
        try:
            if asked == plain or not view.throughput(job, asked) > 0:
                return None
        except PerformanceError:  # the model has no such plan
            return None
        cpus, memory = (
            None if each is None else {node: each * held for node, held in placement.gpus.items()}
            for each in (asked.cpus_per_gpu, asked.memory_per_gpu)
        )
        self.amounts += asked.cpus_per_gpu is not None
        return Placement(placement.gpus, cpus, memory, asked.plan, asked.batch_size, placement.beside)


@dataclass(frozen=True)
class SoakWorld:
    """One episode: all of it follows from its seed."""

    seed: int
    setup: Setup
    workload: Workload
    scheduler: Disturber


@dataclass
class Tally:
    """Counts over all episodes; memory in MB."""

    long: bool = False  # whether the last episode is a long one
    worlds: int = 0
    jobs: int = 0
    finished: int = 0
    rounds: int = 0
    events: int = 0  # all of them checked
    outages: int = 0  # faults: nodes that failed, jobs that this interrupted, jobs that a scheduler stopped
    interruptions: int = 0
    preemptions: int = 0
    pairs: int = 0  # jobs that were placed beside others
    batches: int = 0  # placements that named batch sizes, plans, and cores and memory
    plans: int = 0
    amounts: int = 0
    hidden: int = 0  # worlds that hide throughputs
    refused: int = 0  # inputs: impossible allocations, each refused without any change
    kills: int = 0  # processes killed while they replaced a file, each of which left it whole
    placements: int = 0  # whose throughput was asked for independently of the engine
    cpu_seconds: Seconds = 0.0
    memory_before: float = 0.0  # after a tenth of the time; before a long episode
    memory_after: float = 0.0
    memory_known: float = 0.0  # what the arrays of the last episode take: jobs, records, event log and state

    def add(self, result: RunResult, placements: int) -> None:
        """Count one audited run."""
        found = result.log.events["kind"]
        self.worlds += 1
        self.jobs += len(result.records)
        self.finished += int(result.finished.sum())
        self.rounds += result.num_rounds
        self.events += len(found)
        self.outages += int((found == EventKind.DOWN).sum())
        self.interruptions += int((found == EventKind.INTERRUPT).sum())
        self.preemptions += int((found == EventKind.STOP).sum())
        self.pairs += int((result.log.events["beside"] >= 0).sum())
        self.batches += int((result.log.events["batch_size"] > 0).sum())
        self.plans += int((result.log.events["plan"] >= 0).sum())
        self.placements += placements
        log = result.log
        self.memory_known = sum(each.nbytes for each in (result.records, log.events, log.shares)) / MB

    def to_json(self) -> str:
        """Return all counts."""
        return json.dumps(asdict(self), indent=2) + "\n"

    def __str__(self) -> str:
        return (
            f"{self.worlds:,} worlds, {self.hidden:,} of them with hidden throughputs, {self.jobs:,} jobs "
            f"({self.finished:,} finished, the others declared unfinished), "
            f"{self.rounds:,} rounds in {self.cpu_seconds:,.0f} CPU-seconds\n"
            f"faults: {self.outages:,} outages, {self.interruptions:,} interrupted jobs, {self.preemptions:,} stops, "
            f"{self.pairs:,} pairs on shared GPUs\n"
            f"named: {self.batches:,} batch sizes, {self.plans:,} plans, {self.amounts:,} times cores and memory\n"
            f"inputs: {self.refused:,} impossible allocations refused; {self.kills:,} kills survived\n"
            f"checked: order, capacity, GPU-seconds and work of {self.events:,} events, with {self.placements:,} "
            f"throughputs asked for anew; nothing lost\n"
            f"memory: {self.memory_before:,.0f} MB after a {'short episode' if self.long else 'tenth'}, "
            f"{self.memory_after:,.0f} MB at the end"
            + f", of which {self.memory_known:,.0f} MB are the arrays of the long one"
            * self.long
        )


def draw_world(seed: int, num_jobs: int | None = None) -> SoakWorld:
    """Draw a world with failures, restart costs, contention, shared cores and memory, and hidden or estimated work.

    In every third one that draws its number of jobs, jobs may share GPUs; in every second one, placements name batch
    sizes, plans, or cores and memory; in two of five of the others throughputs are hidden.

    Args:
        seed: determines it.
        num_jobs: the number of jobs; None draws it, from 20 to 300.
    """
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 12)) if num_jobs is None else 16
    nodes = [NodeSpec(str(rng.choice(GPU_TYPES)), int(rng.choice([4, 8])), 24, 500) for _ in range(count)]
    cluster, performance = ClusterSpec(tuple(nodes), f"soak {seed}"), default_model()
    names = NAMING if num_jobs is None and seed % 2 else 0.0
    hidden: Hidden = HIDDEN.get(seed % 5, "exact") if num_jobs is None and not names else "exact"
    scenario = Scenario(
        cpu_memory="shared",
        contention=Contention(rng.choice(["measured", "worst_case", "max_min"])),
        reconfiguration=CostBySize(),
        failures=Failures(float(rng.uniform(1e5, 1e6)), 3600.0, float(rng.choice([0.0, 600.0, 7200.0]))),
        worker_shares=rng.choice(["proportional", "equal"]),
        batch_sizes="chosen" if names else "usual",
        rounds=Rounds(interval=None if rng.random() < 0.5 else float(rng.uniform(60.0, 3600.0))),
        information=Information(rng.choice(["exact", "estimate"]), throughput=hidden),
        sharing="pairs" if num_jobs is None and seed % 3 == 0 else "off",
    )
    source = SyntheticSource(
        cluster,
        performance,
        num_jobs=num_jobs or int(rng.integers(20, 300)),
        load=float(rng.uniform(0.3, 1.2)) if num_jobs is None else 0.5,
        stream=str(rng.choice(["demo", "bursty", "philly"])) if num_jobs is None else "philly",
        max_gpus=4,
        seed=seed,
    )
    schedulers: list[Scheduler] = [Random(), Fifo("skip"), Las(), Srtf()]
    chosen = schedulers[0] if num_jobs else schedulers[int(rng.integers(len(schedulers)))]
    if scenario.sharing == "pairs":
        chosen = Packing(chosen, least_gain=0.0)
    workload = source.episode(rng, "train")
    share = STOPPED_SHARE if num_jobs else float(rng.choice([0.0, STOPPED_SHARE]))
    return SoakWorld(seed, Setup(cluster, performance, scenario), workload, Disturber(chosen, share, names))


def play_world(world: SoakWorld, tally: Tally | None = None) -> Tally:
    """Play one world, audit its result, and count it; now and then also kill a process that writes.

    Raises:
        ImpossibleResultError: the result contradicts its event log.
        RunFailedError: an impossible allocation was accepted, or a killed process left a part of a file.
    """
    tally, began = tally or Tally(memory_before=memory()), time.process_time()
    tamper = np.random.default_rng([world.seed, 1])
    simulator = TamperedSimulator(TAMPERING, tamper, world.workload, world.setup, world.seed)
    result = run_episode(world.scheduler, simulator, f"world {world.seed}")
    tally.refused += simulator.refused
    if tally.worlds % KILLS_EVERY == 0:
        with tempfile.TemporaryDirectory() as folder:
            kill_a_writer(Path(folder) / "figures.json", tamper)
        tally.kills += 1
    tally.add(result, Audit(world.setup).check(result).placements)
    tally.amounts += world.scheduler.amounts
    tally.hidden += world.setup.scenario.information.hides_throughput
    tally.memory_known += (simulator.state.nbytes + world.workload.jobs.nbytes) / MB
    tally.cpu_seconds += time.process_time() - began
    tally.memory_after = memory()
    return tally


def worlds_until(minutes: float, seed: int, tally: Tally | None = None) -> Tally:
    """Play worlds back to back until the CPU time is up; print a line after each tenth of it.

    Args:
        minutes: the CPU time.
        seed: of the first world.
        tally: counts each world as soon as it is checked; None for a new one.

    Raises:
        ChoiceError: the time is not positive and finite, and all errors of `play_world`.
    """
    if isinstance(minutes, bool) or not (isinstance(minutes, int | float) and 0 < minutes < math.inf):
        raise ChoiceError(f"minutes is {minutes!r}; it must be a positive number, such as minutes=10")
    tally, tenth = tally or Tally(), 1
    while tally.cpu_seconds < 60.0 * minutes:
        number = seed + tally.worlds
        with end_if_hanging(f"world {number}, which python scripts/soak.py seed={number} plays"):
            play_world(draw_world(number), tally)
        if tally.cpu_seconds >= 6.0 * minutes * tenth:
            if tenth == 1:
                tally.memory_before = memory()
            print(f"{tally.worlds:,} worlds, {tally.events:,} events, {memory():,.0f} MB", flush=True)
            tenth = int(tally.cpu_seconds / (6.0 * minutes)) + 1
    return tally


@contextmanager
def end_if_hanging(what: str, limit: Seconds = LONGEST) -> Iterator[None]:
    """End the process, and say what hangs, if what is done here takes longer than a limit, in real time.

    Compiled code cannot be interrupted, but it lets other threads run.
    """

    def end() -> None:
        print(f"no end within {limit:g} s: {what}", flush=True)
        os._exit(1)

    watch = threading.Timer(limit, end)
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def long_episode(num_jobs: int, seed: int) -> Tally:
    """Play one long episode, after a short one.

    Raises:
        ChoiceError: the number of jobs is not a positive whole number, and all errors of `play_world`.
    """
    if not isinstance(num_jobs, int) or isinstance(num_jobs, bool) or num_jobs < 1:
        raise ChoiceError(f"jobs is {num_jobs!r}; it must be a whole number of at least 1, such as jobs=1000000")
    tally = play_world(draw_world(seed, WARM_UP))
    tally.long, tally.memory_before = True, memory()
    return play_world(draw_world(seed, num_jobs), tally)


def check_flat(tally: Tally, growth: float) -> None:
    """Assert that memory has not grown by more than this many MB, besides the arrays of the last episode.

    Raises:
        RunFailedError: it has.
    """
    grown = tally.memory_after - tally.memory_before - tally.memory_known
    if tally.worlds > 1 and grown > growth:
        raise RunFailedError(
            f"memory has grown by {grown:,.0f} MB over {tally.worlds:,} worlds, besides the arrays of the last one; "
            f"at most {growth:g} are allowed"
        )


def memory() -> float:
    """Return the memory of this process, in MB: what it holds now on Linux, elsewhere its peak."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * PAGE / MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (MB if sys.platform == "darwin" else 1024)


class TamperedSimulator(Simulator):
    """A simulator that is also asked for impossible allocations, each before a possible one.

    Args:
        share: probability per round that it is.
        rng: draws them.
        arguments: of `Simulator`.
    """

    def __init__(self, share: float, rng: np.random.Generator, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.share, self._rng = share, rng
        self.refused = 0  # impossible allocations

    def apply(self, allocation: Allocation) -> None:
        """Apply an allocation, now and then after an impossible one, which must be refused and change nothing.

        Raises:
            RunFailedError: the impossible one was accepted.
        """
        if self._rng.random() < self.share:
            try:
                super().apply(self._impossible())
            except AllocationError:
                self.refused += 1
            else:
                raise RunFailedError(f"{self.workload.name}: an impossible allocation was accepted")
        super().apply(allocation)

    def _impossible(self) -> Allocation:
        """Draw an allocation with one thing in it that cannot be; the rest of it can."""
        view, cluster = self.view, self.cluster
        allocation = view.allocation(keep_running=bool(self._rng.random() < 0.5))
        jobs, node = view.queued.tolist() + view.running.tolist(), int(self._rng.integers(cluster.num_nodes))
        job = int(self._rng.choice(jobs)) if jobs else 0
        too_many = int(cluster.node_gpus[node]) + int(self._rng.integers(1, 9))
        match int(self._rng.integers(7)):
            case 0:
                allocation.changes[len(view.submit_time)] = Placement({node: 1})  # a job that has not arrived
            case 1:
                allocation.changes[job] = Placement({cluster.num_nodes: 1})
            case 2:
                allocation.changes[job] = Placement({node: too_many})
            case 3:
                allocation.changes[job] = Placement({node: -1})
            case 4:
                allocation.changes[job] = Placement({})
            case 5:
                allocation.changes[job] = Placement({node: 1}, beside=job)
            case _:
                allocation.next_decision = view.time
        return allocation


def kill_a_writer(path: Path, rng: np.random.Generator) -> None:
    """Kill a process that replaces a file again and again, and check that the file is whole.

    Raises:
        RunFailedError: it is not.
    """
    command = [sys.executable, "-c", WRITER, str(files.__file__), str(path), str(LINES)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(float(rng.uniform(0.0, 0.02)))
        writer.send_signal(signal.SIGKILL)
    lines = path.read_text().splitlines()
    if len(lines) != LINES or len(set(lines)) != 1:
        raise RunFailedError(f"{path}: a process that was killed left a part of the file, {len(lines)} lines")
