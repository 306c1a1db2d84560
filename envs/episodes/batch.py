"""Many episodes on one cluster in the arrays of one state: loading, reward, views. Environments add the decisions."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from envs.episodes.blocks import TableBlocks
from envs.episodes.hidden import HiddenEpisodes, episode_alone
from envs.episodes.predicted import PredictedEpisodes
from envs.episodes.reward import Elapsed, Reward, TeamReward
from envs.performance import DrawnModel, without_draw
from envs.simulation import EventLog, Scenario, Setup, SimulationView, State, ThroughputTable
from envs.simulation.simulator import check_runnable
from envs.simulation.world.arrays import World, batch_world
from envs.simulation.world.exact import ExactThroughputs
from envs.simulation.world.kernels import END
from envs.types import ExecutionPlan, FloatArray, MurmurationError
from envs.workloads import Workload


class EpisodeBatch(ABC):
    """`batch_size` independent episodes on one cluster.

    It draws no random numbers except noisy estimates, which come from the `rng` given to `load`. A derived class plays
    the episodes: it overrides `_use_table` and `_begin`, and calls `_pay` after each step.

    Where throughputs are hidden, `state` is what is seen at the present decision, and `hidden` has the rest
    (`envs.episodes.hidden`). Where they are hidden or drawn, each episode has rows of its own in the tables of `world`.

    Args:
        setup: the cluster, the performance model and the scenario.
        models: names of all models that workloads may contain.
        num_jobs: the largest number of jobs of one episode.
        batch_size: number of episodes.
        reward: see its class.
        logging: whether events are logged (only with one episode).
    """

    takes_own_curves: ClassVar[bool] = False  # whether episodes may have hidden or drawn throughputs

    def __init__(
        self,
        setup: Setup,
        models: tuple[str, ...],
        num_jobs: int,
        batch_size: int = 1,
        reward: Reward | None = None,
        logging: bool = False,
    ) -> None:
        if logging and batch_size > 1:
            raise MurmurationError(f"batch_size is {batch_size} with logging; events are logged for one episode only")
        predicts = setup.scenario.information.work == "predicted"
        hides = setup.scenario.information.hides_throughput
        if hides and not self.takes_own_curves:
            raise MurmurationError(
                f"information.throughput is {setup.scenario.information.throughput}: this environment cannot hide "
                "throughputs yet; train with env=options, or with information.throughput=exact and evaluate the policy "
                "as a scheduler"
            )
        if setup.scenario.queue_limits:
            raise MurmurationError(
                "scenario.queue_limits: environments do not know limits of queues yet; train without them, and "
                "evaluate the policy as a scheduler with queueing=limits"
            )
        if hides and predicts:
            raise MurmurationError(
                f"information.work is predicted and information.throughput {setup.scenario.information.throughput}: "
                "environments cannot hide both yet; train with information.throughput=exact and evaluate the policy as "
                "a scheduler"
            )
        self.setup = setup
        self.cluster, self.scenario = setup.cluster, setup.scenario
        self.reward = reward or TeamReward()
        self.batch_size = batch_size
        self.table = ThroughputTable.build(setup, models, 8)
        self.exact = ExactThroughputs(setup)
        self.plans: list[ExecutionPlan] = []  # those that placements have named so far
        self.state = State.allocate(self.cluster, num_jobs, batch_size, self.scenario)
        rows, drawn = max(num_jobs, len(models)), self.takes_own_curves and isinstance(setup.performance, DrawnModel)
        self.hidden = HiddenEpisodes(setup, self.table, num_jobs, batch_size, rows, logging) if hides else None
        self.predicted = PredictedEpisodes(setup, num_jobs, batch_size) if predicts else None
        self._drawn = TableBlocks(self.table, batch_size, rows) if drawn and not hides else None
        if logging and not hides:
            self.state.grow_log()
        self.workloads: list[Workload | None] = [None] * batch_size
        self._tables: list[ThroughputTable | None] = [None] * batch_size
        self._outcomes = np.zeros(batch_size, np.int64)

    @property
    def _blocks(self) -> TableBlocks | None:
        """The rows of each episode in the tables of `world`, if it has some of its own."""
        return self.hidden.seen if self.hidden else self._drawn

    @property
    def world(self) -> World:
        """The state and its tables for kernels; a new object whenever `_use_table` is called."""
        if self._blocks:
            return self._blocks.world(self.state, self.table)
        return batch_world(self.state, self.table)

    @property
    def time(self) -> FloatArray:
        """float64[B]: simulated time of each episode."""
        time: FloatArray = self.state.episode["time"][:, 0].copy()
        return time

    @property
    def ended(self) -> npt.NDArray[np.bool_]:
        """bool[B]: which episodes have ended."""
        ended: npt.NDArray[np.bool_] = self._outcomes == END
        return ended

    def load(self, b: int, workload: Workload, rng: np.random.Generator) -> None:
        """Begin an episode: simulate `workload` from t = 0 to its first decision.

        Raises:
            MurmurationError: the workload has more jobs than the arrays hold, or a job that can never run.
        """
        if len(workload) > self.state.jobs.shape[1]:
            raise MurmurationError(
                f"workload {workload.name}: has {len(workload)} jobs, the environment holds "
                f"{self.state.jobs.shape[1]}; shorten its episodes"
            )
        table = self._table_for(workload)
        check_runnable(workload, self.cluster, table)
        if self.scenario.information.work == "limit":
            workload.check_limits()
        state = self.hidden.state if self.hidden else self.state
        if state.make_room(len(workload.dependencies)):
            self._use_table()
        self.workloads[b], self._tables[b] = workload, table
        state.load(b, workload, self._bounded(workload, table), table, rng)
        if self._blocks:
            state.jobs["model"][b, : len(workload)] += self._blocks.first(b)
        if self._drawn:
            self._drawn.write(b, table)
        if self.hidden:
            self.state.forget_jobs(b)
            self.hidden.load(b, workload, table, rng)
        if self.predicted:
            self.predicted.load(b, workload, table)
        self._begin(b)

    def _table_for(self, workload: Workload) -> ThroughputTable:
        """Return a table that has the models and sizes of a workload; make room for it first."""
        largest = min(int(workload.jobs["max_gpus"].max()), self.cluster.num_gpus)
        if self._blocks:
            table = ThroughputTable.of(self.setup, workload.models, largest)
            self._make_room(len(table.models), table.throughputs.shape[2] - 1)
            return table
        if any(without_draw(model) != model for model in workload.models):
            raise MurmurationError(
                f"workload {workload.name}: its throughputs are drawn; "
                + ("set performance=drawn" if self.takes_own_curves else "this environment cannot play them yet")
            )
        if largest >= self.table.throughputs.shape[2] or not set(workload.models) <= set(self.table.models):
            models = tuple(dict.fromkeys((*self.table.models, *workload.models)))
            size = max(largest, self.table.throughputs.shape[2] - 1)
            self.table = ThroughputTable.build(self.setup, models, size, self.table)
            self._use_table()
        return self.table

    def _make_room(self, rows: int, max_gpus: int) -> None:
        """Make room for tables of so many models and sizes in the rows of each episode."""
        before = self._blocks
        assert before is not None
        if rows <= before.rows and max_gpus <= before.max_gpus:
            return
        rows, max_gpus = max(rows, before.rows), max(max_gpus, before.max_gpus)
        self.state.jobs["model"] += np.arange(self.batch_size)[:, None] * (rows - before.rows)
        if self.hidden:
            self.hidden.make_room(rows, max_gpus)
        else:
            self._drawn = TableBlocks(self.table, self.batch_size, rows, max_gpus)
            for b, table in enumerate(self._tables):
                if table is not None:
                    self._drawn.write(b, table)
        self._use_table()

    def stop(self, b: int) -> None:
        """End an episode where it is, before all its jobs are done; it stays so until another one is loaded."""
        self.state.episode[b, 0]["ended"] = 1
        self._outcomes[b] = END

    @abstractmethod
    def _use_table(self) -> None:
        """Use `table`, which is new: a workload with larger jobs or other models needs it."""

    @abstractmethod
    def _begin(self, b: int) -> None:
        """Play an episode from t = 0 to its first decision."""

    def _bounded(self, workload: Workload, table: ThroughputTable) -> Scenario:
        """Return the scenario with a finite horizon, up to which unfinished jobs are charged.

        The default is the time to run all jobs one after another, so leaving jobs unfinished never pays.
        """
        if np.isfinite(self.scenario.horizon):
            return self.scenario
        jobs = workload.jobs
        model = np.array([table.models.index(name) for name in workload.models])[jobs["model"]]
        gpus = np.minimum(jobs["num_gpus"], table.throughputs.shape[2] - 1)
        throughput = np.maximum(table.reference()[model, gpus], 1e-9)
        start, restart = self.scenario.delays(workload.models)
        delays = (start + restart)[jobs["model"]].sum()
        last = max(jobs["submit_time"][-1], jobs["begin_time"].max())
        horizon = float(last + (jobs["work"] / throughput).sum() + delays)
        return replace(self.scenario, horizon=horizon)

    def log(self, b: int = 0) -> EventLog:
        """Return the events of an episode so far; there are none without `logging`."""
        return (self.hidden.state if self.hidden else self.state).log(b, self.plans)

    def view(self, b: int) -> SimulationView:
        """Return the view that a scheduler gets of one episode at the beginning of a round."""
        workload = self.workloads[b]
        if workload is None:
            raise MurmurationError(f"episode {b} has not begun; load a workload first")
        if self.hidden:
            return self.hidden.view(b, self.plans)
        state, table = self.state.episode_view(b), self._tables[b]
        assert table is not None
        if self._drawn:
            state = episode_alone(state, 0, self._drawn.first(b))
        predicted = self.predicted.work(b) if self.predicted else None
        return SimulationView(state, self.setup, workload, table, self.exact, self.plans, predicted=predicted)

    def _totals(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Time, job-seconds and busy GPU-seconds of each episode so far; float64[B] each."""
        episode = self.state.episode[:, 0]
        return episode["time"].copy(), episode["job_seconds"].copy(), episode["busy_seconds"].copy()

    def _pay(self, before: tuple[FloatArray, FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Return the reward of a step and its simulated seconds, float64[B] each.

        Args:
            before: `_totals` when the step began.

        Raises:
            MurmurationError: the reward is not finite, or is not one number for each episode.
        """
        elapsed = Elapsed(*(after - then for after, then in zip(self._totals(), before, strict=True)))
        reward = np.asarray(self.reward(elapsed))
        if reward.shape != (self.batch_size,) or not np.isfinite(reward).all():
            raise MurmurationError(
                f"reward {type(self.reward).__name__}: is {reward.tolist()}; "
                f"it must be {self.batch_size} finite numbers, one for each episode"
            )
        return reward, elapsed.seconds
