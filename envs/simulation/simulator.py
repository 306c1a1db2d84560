"""The simulator in Python: it yields rounds and applies allocations."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np

from envs.scheduling import ClusterView, Scheduler
from envs.simulation.compiled.jit import working_seconds
from envs.simulation.entries import find_jobs_present, find_seen, set_estimates
from envs.simulation.known.beliefs import Beliefs, Seen
from envs.simulation.known.predictions import Predictions
from envs.simulation.result import RunResult
from envs.simulation.seen.overriding import find_definer, find_override
from envs.simulation.seen.snapshot import SimulationView
from envs.simulation.setup import Setup
from envs.simulation.simulated_episode import SimulatedEpisode
from envs.simulation.watch import DecisionWatch
from envs.simulation.whole_episode import WholeEpisode
from envs.simulation.world.exact import ExactThroughputs
from envs.simulation.world.state import State
from envs.simulation.world.throughput import ThroughputTable
from envs.types import Allocation, AllocationError, ClusterError, ClusterSpec, Seconds, constraints_of
from envs.workloads import Workload

DECISION_LIMIT: Seconds = 600.0  # real time of one decision, after which a warning names the scheduler


class Simulator(WholeEpisode):
    """Event-driven, exact simulation of one workload on one cluster, independent of the scheduler.

    ```
    for view in simulator.rounds():
        simulator.apply(scheduler.schedule(view))
    ```

    Args:
        workload: the jobs.
        setup: the cluster, the performance model and the scenario.
        seed: for the scheduler, noisy estimates and node failures.
        logging: whether to log events; without a log, runs of millions of jobs need less memory.

    Raises:
        ClusterError: a job can never run on this cluster.
        PerformanceError: a model or GPU type has no figures.
    """

    def __init__(
        self,
        workload: Workload,
        setup: Setup,
        seed: int = 0,
        *,
        logging: bool = True,
    ) -> None:
        noise, scheduler_seed, outages, samples = np.random.SeedSequence(seed).spawn(4)
        largest = int(workload.jobs["max_gpus"].max())
        table = ThroughputTable.of(setup, workload.models, largest)
        check_runnable(workload, setup.cluster, table)
        if setup.scenario.information.work == "limit":
            workload.check_limits()
        state = State.allocate(setup.cluster, len(workload), scenario=setup.scenario)
        hides = setup.scenario.information.hides_throughput
        self.beliefs = Beliefs(setup, workload, table, samples) if hides else None
        exact = self.beliefs.exact if self.beliefs else ExactThroughputs(setup)
        super().__init__(workload, exact, setup, table, state, scheduler_seed)
        self._believed_view: SimulationView | None = None
        predicts = setup.scenario.information.work == "predicted"
        self.predictions = Predictions(setup, workload, table) if predicts else None
        self._present = np.zeros(len(workload) if predicts else 0, np.int64)
        self._done = np.zeros(len(self._present))
        self._sampled = np.full(len(workload), -1.0)  # when each job began in the placement that was seen last
        self._seen = np.zeros((2 * setup.cluster.num_gpus, len(Seen._fields)), np.int64)
        self.queue_limits.check_passable(workload)
        if logging:
            state.grow_log()
        generators = np.random.default_rng(noise), np.random.default_rng(outages)
        state.load(0, workload, setup.scenario, table, *generators)

    @property
    def view(self) -> SimulationView:
        """A view of the cluster at the present time; where throughputs are hidden, it shows beliefs."""
        if self.beliefs is None:
            return super().view
        known = self._believed_view
        if known is None or known.num_beliefs != self.beliefs.num_beliefs:
            seen = self.beliefs.workload, self.beliefs.table, self.beliefs.exact
            predicted = None if self.predictions is None else self.predictions.work
            known = SimulationView(self.state, self.beliefs.setup, *seen, self.plans, self.beliefs, predicted)
            self._believed_view = known
        return known

    def advance(self) -> bool:
        """Advance time until a decision is due, and see what running jobs show; return False at the end."""
        going = super().advance()
        if going and self.beliefs is not None:
            count = find_seen(self.world, self._sampled, self._seen)
            self.beliefs.look(int(self.state.episode[0, 0].next_job), map(Seen._make, self._seen[:count].tolist()))
        if going and self.predictions is not None:
            if self.beliefs is not None:
                self.predictions.believe(self.beliefs.table)
            count = find_jobs_present(self.world, self._present, self._done)
            present = self._present[:count]
            self.predictions.look(int(self.state.episode[0, 0].next_job), present, self._done[:count])
            set_estimates(self.world, present, self.predictions.work)
        return going


def check_runnable(workload: Workload, cluster: ClusterSpec, table: ThroughputTable) -> None:
    """Assert that every job has at least one placement on an empty cluster.

    Raises:
        ClusterError: names the first job without one, and the fix.
    """
    throughputs = table.consolidated()  # [model, type, gpus]
    runs = throughputs.max(axis=1) > 0  # [model, gpus]: on one type
    any_runs = table.throughputs.max(axis=(1, 3)) > 0  # spread over types
    columns = workload.jobs
    largest = np.minimum(columns["max_gpus"], runs.shape[1] - 1)
    for job in np.flatnonzero(columns["min_gpus"] > cluster.num_gpus)[:1]:
        raise ClusterError(
            f"workload {workload.name}: {workload.label(int(job))} needs {columns['min_gpus'][job]} GPUs, "
            f"cluster {cluster.name} has {cluster.num_gpus}; choose a larger cluster or set "
            f"workload.max_gpus={cluster.num_gpus}"
        )
    for model in np.unique(columns["model"]):
        able = np.cumsum(np.concatenate([[0], (runs | any_runs)[model, 1:]]))
        rows = np.flatnonzero(columns["model"] == model)
        stuck = rows[able[largest[rows]] - able[columns["min_gpus"][rows] - 1] == 0]
        asked = constraints_of(workload.models[model])
        fix = "or drop the model from the job mix" if not asked else "or set workload.constraints=none"
        if stuck.size:
            raise ClusterError(
                f"workload {workload.name}: job {stuck[0]} ({workload.models[model]}) runs on none of "
                f"{', '.join(cluster.gpu_types)} with {columns['min_gpus'][stuck[0]]} to "
                f"{columns['max_gpus'][stuck[0]]} GPUs; choose a cluster with larger GPUs {fix}"
            )
        if asked.demand_nodes(1):
            of_model = throughputs[table.models.index(workload.models[model])].max(axis=0)
            stuck = rows[of_model[np.minimum(columns["num_gpus"][rows], len(of_model) - 1)] == 0]
        if stuck.size:
            raise ClusterError(
                f"workload {workload.name}: job {stuck[0]} ({workload.models[model]}) asks for "
                f"{columns['num_gpus'][stuck[0]]} GPUs, which no GPU type divides among nodes as its constraints "
                f"demand; correct them {fix}"
            )


class Engine(Protocol):
    """Interface of a simulator: `Simulator` or the reference engine."""

    cluster: ClusterSpec

    @property
    def rng(self) -> np.random.Generator:
        """A fresh generator for the scheduler."""
        ...

    def rounds(self) -> Iterator[ClusterView]:
        """Yield the view at each round, until the episode ends."""
        ...

    def apply(self, allocation: Allocation) -> None:
        """Apply an allocation at the present time."""
        ...

    def result(
        self, scheduler: str, decision_seconds: float = 0.0, counters: dict[str, int] | None = None
    ) -> RunResult:
        """The result of the run so far."""
        ...


@runtime_checkable
class CompiledScheduler(Scheduler, Protocol):
    """A scheduler that can also run whole episodes in compiled code, on the engine's own arrays."""

    def play(self, simulator: SimulatedEpisode) -> bool:
        """Run an episode to its end, as `schedule` would; return False and change nothing if it cannot."""
        ...


def plays_compiled(scheduler: Scheduler) -> TypeGuard[CompiledScheduler]:
    """Return whether a scheduler may be asked to `play`: nothing for which that stands is overridden.

    `play` stands for what the class that defines it defines, inherits and sets. If a subclass, a mixin or the object
    itself has another `schedule`, helper method or attribute, its own rule is played, decision by decision. A subclass
    that overrides `play` too is compiled again.
    """
    owner = find_definer(scheduler, "play")
    return owner is not None and not find_override(scheduler, owner, "schedule")


def run_episode(
    scheduler: Scheduler,
    simulator: Engine,
    name: str = "",
    *,
    compiled: bool = True,
    decision_limit: Seconds = DECISION_LIMIT,
) -> RunResult:
    """Run one workload to its end under one scheduler, heuristic or trained policy.

    A `CompiledScheduler` runs the episode itself where it can (`plays_compiled`) and nothing is believed or predicted,
    unless `compiled` is False; its decision time is then that of the whole episode. Decision times are CPU time of the
    process without compiling and loading kernels, so that other programs and a first run hardly change them. A
    `SlowDecisionWarning` names a decision that takes longer than `decision_limit` seconds of real time (infinite: none
    does), while it still runs.

    Raises:
        AllocationError: an allocation does not fit; names scheduler, time, job, node and resource.
    """
    name = name or type(scheduler).__name__
    scheduler.reset(simulator.cluster, simulator.rng)
    began = working_seconds()
    if compiled and _play(scheduler, simulator):
        return simulator.result(name, working_seconds() - began)
    thought = 0.0
    with DecisionWatch(name, decision_limit) as watch:
        for view in simulator.rounds():
            began = working_seconds()
            with _blaming(name, view.time):
                watch.begin(view.time)
                allocation = scheduler.schedule(view)
                watch.end()
                thought += working_seconds() - began
                if not isinstance(allocation, Allocation):
                    raise AllocationError(
                        f"schedule() returned {type(allocation).__name__}; return what view.allocation() gave you"
                    )
                simulator.apply(allocation)
    counters = dict(getattr(scheduler, "counters", {}))
    return simulator.result(name, thought, counters)


def _play(scheduler: Scheduler, simulator: Engine) -> bool:
    """Play the episode in compiled code if the scheduler can and nothing is to be believed; return whether it was."""
    if not isinstance(simulator, SimulatedEpisode):
        return False
    if simulator.beliefs is not None or simulator.predictions is not None or simulator.workload.shapes:
        return False
    if simulator.scenario.queue_limits:  # `apply` checks them
        return False
    if simulator.scenario.preemption == "never" and getattr(scheduler, "preemptive", True):  # `apply` checks it
        return False
    return plays_compiled(scheduler) and scheduler.play(simulator)


@contextmanager
def _blaming(scheduler: str, now: Seconds) -> Iterator[None]:
    """Add scheduler and simulated time to an error."""
    try:
        yield
    except AllocationError as error:
        raise type(error)(f"scheduler {scheduler} at t = {now:g} s: {error}") from error
    except Exception as error:
        error.add_note(f"in scheduler {scheduler} at t = {now:g} s")
        raise
