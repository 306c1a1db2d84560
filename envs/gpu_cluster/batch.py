"""The environment for many episodes at once, with observations and masks in preallocated arrays."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from envs.gpu_cluster import kernels
from envs.gpu_cluster.negotiation import Negotiation, Observation
from envs.gpu_cluster.reward import Elapsed, Reward, TeamReward
from envs.gpu_cluster.spec import DecisionRules, EnvSpec
from envs.simulation import Scenario, Setup, SimulationView, State, ThroughputTable
from envs.simulation.exact import ExactThroughputs
from envs.simulation.kernels import END, LOG_FULL
from envs.simulation.simulator import check_runnable
from envs.types import FloatArray, IntArray, MurmurationError
from envs.workloads import Workload


class GpuClusterBatch:
    """`batch_size` independent episodes on one cluster, stepped in one call.

    It draws no random numbers except noisy estimates, which come from the `rng` given to `load`.

    Args:
        setup: the cluster, the performance model and the scenario.
        models: names of all models that workloads may contain.
        num_jobs: the largest number of jobs of one episode.
        batch_size: number of episodes.
        rules, reward: see their classes.
        logging: whether events are logged (only with one episode).
    """

    def __init__(
        self,
        setup: Setup,
        models: tuple[str, ...],
        num_jobs: int,
        batch_size: int = 1,
        rules: DecisionRules | None = None,
        reward: Reward | None = None,
        logging: bool = False,
    ) -> None:
        if logging and batch_size > 1:
            raise MurmurationError(f"batch_size is {batch_size} with logging; events are logged for one episode only")
        self.setup = setup
        self.cluster, self.scenario = setup.cluster, setup.scenario
        self.rules = rules or DecisionRules()
        self.reward = reward or TeamReward()
        self.spec = EnvSpec.of(self.cluster, self.rules)
        self.batch_size = batch_size
        self.table = ThroughputTable.build(setup, models, 8)
        self.exact = ExactThroughputs(setup)
        self.state = State.allocate(self.cluster, num_jobs, batch_size, self.scenario)
        if logging:
            self.state.grow_log()
        self.workloads: list[Workload | None] = [None] * batch_size
        self.negotiation = Negotiation(self.state, self.spec, self.rules, self.table)
        self._outcomes = np.zeros(batch_size, np.int64)

    @property
    def observation(self) -> Observation:
        """Arrays by name with a leading batch axis, overwritten by the next step. `EnvSpec` gives the shapes."""
        return self.negotiation.observation

    @property
    def time(self) -> FloatArray:
        """float64[B]: simulated time of each episode."""
        time: FloatArray = self.state.episode["time"][:, 0].copy()
        return time

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
        largest = min(int(workload.jobs["max_gpus"].max()), self.cluster.num_gpus)
        if largest >= self.table.throughputs.shape[2] or not set(workload.models) <= set(self.table.models):
            models = tuple(dict.fromkeys((*self.table.models, *workload.models)))
            size = max(largest, self.table.throughputs.shape[2] - 1)
            self.table = ThroughputTable.build(self.setup, models, size, self.table)
            self.negotiation.use_table(self.table)
        check_runnable(workload, self.cluster, self.table)
        self.workloads[b] = workload
        self.state.load(b, workload, self._bounded(workload), self.table, rng)
        self.negotiation.clear_counters(b)
        self._proceed(b)

    def _bounded(self, workload: Workload) -> Scenario:
        """Return the scenario with a finite horizon, up to which unfinished jobs are charged.

        The default is the time to run all jobs one after another, so leaving jobs unfinished never pays.
        """
        if np.isfinite(self.scenario.horizon):
            return self.scenario
        jobs = workload.jobs
        model = np.array([self.table.models.index(name) for name in workload.models])[jobs["model"]]
        gpus = np.minimum(jobs["num_gpus"], self.table.throughputs.shape[2] - 1)
        throughput = np.maximum(self.table.reference()[model, gpus], 1e-9)
        start, restart = self.scenario.delays(workload.models)
        delays = (start + restart)[jobs["model"]].sum()
        horizon = float(jobs["submit_time"][-1] + (jobs["work"] / throughput).sum() + delays)
        return replace(self.scenario, horizon=horizon)

    def step(self, actions: IntArray) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
        """Apply a joint action int64[B, num_nodes] in every episode.

        An episode that has ended must be loaded again before the next step.

        Returns:
            rewards float64[B], elapsed simulated seconds float64[B], ended bool[B].

        Raises:
            MurmurationError: the reward is not finite, or is not one number for each episode.
        """
        before = self._totals()
        self.negotiation.set_actions(actions)
        kernels.step(self.negotiation.arrays, 0, self.batch_size, True, self._outcomes)
        for b in np.flatnonzero(self._outcomes == LOG_FULL):
            self._proceed(int(b))
        elapsed = Elapsed(*(after - then for after, then in zip(self._totals(), before, strict=True)))
        reward = np.asarray(self.reward(elapsed))
        if reward.shape != (self.batch_size,) or not np.isfinite(reward).all():
            raise MurmurationError(
                f"reward {type(self.reward).__name__}: is {reward.tolist()}; "
                f"it must be {self.batch_size} finite numbers, one for each episode"
            )
        return reward, elapsed.seconds, self.ended

    @property
    def ended(self) -> npt.NDArray[np.bool_]:
        """bool[B]: which episodes have ended."""
        ended: npt.NDArray[np.bool_] = self._outcomes == END
        return ended

    def counters(self, b: int = 0) -> dict[str, int]:
        """Count decisions, claims, conflicts and incomplete gangs of an episode so far."""
        return self.negotiation.counters(b)

    def view(self, b: int) -> SimulationView:
        """Return the view that a scheduler gets of one episode at the beginning of a round."""
        workload = self.workloads[b]
        if workload is None:
            raise MurmurationError(f"episode {b} has not begun; load a workload first")
        return SimulationView(self.state.episode_view(b), self.setup, workload, self.table, self.exact)

    def legal(self, actions: Iterable[int], b: int = 0) -> npt.NDArray[np.bool_]:
        """Return bool[num_nodes]: whether the mask allows each node's action."""
        mask = self.negotiation.arrays.mask[b]
        index = np.fromiter(actions, np.int64)
        inside = (index >= 0) & (index < mask.shape[1])
        allowed: npt.NDArray[np.bool_] = inside & (mask[np.arange(len(index)), np.where(inside, index, 0)] > 0)
        return allowed

    def _totals(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        episode = self.state.episode[:, 0]
        return episode["time"].copy(), episode["job_seconds"].copy(), episode["busy_seconds"].copy()

    def _proceed(self, b: int) -> None:
        """Apply a closed round and advance time to the next choice."""
        while True:
            kernels.step(self.negotiation.arrays, b, b + 1, False, self._outcomes)
            if self._outcomes[b] != LOG_FULL:
                return
            self.state.grow_log()
            self.negotiation.use_log()
