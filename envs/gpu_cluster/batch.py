"""The environment for many episodes at once: observations and masks in preallocated arrays."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from envs.gpu_cluster import kernels
from envs.gpu_cluster.negotiation import Negotiation, Observation
from envs.gpu_cluster.reward import Elapsed, Reward, TeamReward
from envs.gpu_cluster.spec import DecisionRules, EnvSpec
from envs.performance import PerformanceModel
from envs.simulation import Scenario, SimulationView, SpeedTable, State
from envs.simulation.exact import ExactSpeeds
from envs.simulation.kernels import END, LOG_FULL
from envs.simulation.simulator import check_runnable
from envs.types import ClusterSpec, FloatArray, IntArray, MurmurationError
from envs.workloads import Workload


class GpuClusterBatch:
    """`batch_size` independent episodes on one cluster, stepped in one call.

    All random draws belong to `load`'s caller, except noisy estimates, which come from `rng`.

    Args:
        cluster: the nodes.
        performance: how fast jobs run.
        models: names of all models that workloads may hold.
        num_jobs: the most jobs of one episode.
        batch_size: episodes.
        scenario, rules, reward: as the world's rules have it.
        logging: whether events are logged (for one episode at a time).
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        performance: PerformanceModel,
        models: tuple[str, ...],
        num_jobs: int,
        batch_size: int = 1,
        scenario: Scenario | None = None,
        rules: DecisionRules | None = None,
        reward: Reward | None = None,
        logging: bool = False,
    ) -> None:
        if logging and batch_size > 1:
            raise MurmurationError(f"batch_size is {batch_size} with logging; events are logged for one episode only")
        self.cluster, self.performance = cluster, performance
        self.scenario = scenario or Scenario()
        self.rules = rules or DecisionRules()
        self.reward = reward or TeamReward()
        self.spec = EnvSpec.of(cluster, self.rules)
        self.batch_size = batch_size
        self.table = SpeedTable.build(cluster, performance, models, 8, self.scenario)
        self.exact = ExactSpeeds(performance, cluster, self.scenario.worker_shares)
        self.state = State.allocate(cluster, num_jobs, batch_size, self.scenario)
        if logging:
            self.state.grow_log()
        self.workloads: list[Workload | None] = [None] * batch_size
        self.negotiation = Negotiation(self.state, self.spec, self.rules, self.table)
        self._outcomes = np.zeros(batch_size, np.int64)

    @property
    def observation(self) -> Observation:
        """Arrays by name with a leading batch axis, overwritten by the next step: see `EnvSpec` for shapes."""
        return self.negotiation.observation

    @property
    def time(self) -> FloatArray:
        """float64[B]: simulated time of each episode."""
        time: FloatArray = self.state.episode["time"][:, 0].copy()
        return time

    def load(self, b: int, workload: Workload, rng: np.random.Generator) -> None:
        """Begin an episode: play `workload` from t = 0 to its first decision.

        Raises:
            MurmurationError: the workload has more jobs than the arrays, or a job that can never run.
        """
        if len(workload) > self.state.jobs.shape[1]:
            raise MurmurationError(
                f"workload {workload.name}: has {len(workload)} jobs, the environment holds "
                f"{self.state.jobs.shape[1]}; shorten its episodes"
            )
        largest = min(int(workload.jobs["max_gpus"].max()), self.cluster.num_gpus)
        if largest >= self.table.rates.shape[2] or not set(workload.models) <= set(self.table.models):
            models = tuple(dict.fromkeys((*self.table.models, *workload.models)))
            size = max(largest, self.table.rates.shape[2] - 1)
            self.table = SpeedTable.build(self.cluster, self.performance, models, size, self.scenario, self.table)
            self.negotiation.use_table(self.table)
        check_runnable(workload, self.cluster, self.table)
        self.workloads[b] = workload
        self.state.load(b, workload, self._bounded(workload), self.table, rng)
        self.negotiation.clear_counters(b)
        self._proceed(b)

    def _bounded(self, workload: Workload) -> Scenario:
        """The scenario with a finite horizon, up to which jobs left undone are charged.

        Unless one is set it lies where all jobs would be done one after the other, so leaving some undone never pays.
        """
        if np.isfinite(self.scenario.horizon):
            return self.scenario
        jobs = workload.jobs
        model = np.array([self.table.models.index(name) for name in workload.models])[jobs["model"]]
        gpus = np.minimum(jobs["num_gpus"], self.table.rates.shape[2] - 1)
        rate = np.maximum(self.table.reference()[model, gpus], 1e-9)
        start, restart = self.scenario.delays(workload.models)
        delays = (start + restart)[jobs["model"]].sum()
        horizon = float(jobs["submit_time"][-1] + (jobs["work"] / rate).sum() + delays)
        return replace(self.scenario, horizon=horizon)

    def step(self, actions: IntArray) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
        """Take a joint action int64[B, num_servers] in every episode.

        An episode that has ended must be loaded anew before the next step.

        Returns:
            rewards float64[B], simulated seconds that passed float64[B], ended bool[B].

        Raises:
            MurmurationError: the reward is not finite, or not one number for each episode.
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
        """bool[B]: episodes that have come to their end."""
        ended: npt.NDArray[np.bool_] = self._outcomes == END
        return ended

    def counters(self, b: int = 0) -> dict[str, int]:
        """Decisions, claims, conflicts and incomplete gangs of an episode so far."""
        return self.negotiation.counters(b)

    def view(self, b: int) -> SimulationView:
        """One episode as a scheduler sees it, at the beginning of a round."""
        workload = self.workloads[b]
        if workload is None:
            raise MurmurationError(f"episode {b} has not begun; load a workload first")
        return SimulationView(self.state.episode_view(b), self.cluster, workload, self.table, self.exact, self.scenario)

    def legal(self, actions: Iterable[int], b: int = 0) -> npt.NDArray[np.bool_]:
        """bool[num_servers]: whether the mask allows each server's action."""
        mask = self.negotiation.arrays.mask[b]
        index = np.fromiter(actions, np.int64)
        inside = (index >= 0) & (index < mask.shape[1])
        allowed: npt.NDArray[np.bool_] = inside & (mask[np.arange(len(index)), np.where(inside, index, 0)] > 0)
        return allowed

    def _totals(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        episode = self.state.episode[:, 0]
        return episode["time"].copy(), episode["job_seconds"].copy(), episode["busy_seconds"].copy()

    def _proceed(self, b: int) -> None:
        """Let a closed round take effect and time pass to the next choice."""
        while True:
            kernels.step(self.negotiation.arrays, b, b + 1, False, self._outcomes)
            if self._outcomes[b] != LOG_FULL:
                return
            self.state.grow_log()
            self.negotiation.use_log()
