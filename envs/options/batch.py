"""Many episodes in which nodes choose options: the environment that training uses."""

from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from envs.episodes import EpisodeBatch, Reward
from envs.episodes.candidates import Features
from envs.options import kernels
from envs.options.arrays import COUNTERS, OPTION_NODE, OPTION_ROW, OptionArrays, allocate_options, fix_sizes
from envs.options.kernels import ROUND_OVER
from envs.options.rules import OptionRules
from envs.options.spec import OptionSpec
from envs.options.together import act_in
from envs.options.tuning import tunings_under
from envs.simulation import Setup
from envs.simulation.compiled.jit import RepeatedKernel
from envs.simulation.world.kernels import END, LOG_FULL, ROUND
from envs.simulation.world.state import Status
from envs.types import ClusterSpec, FloatArray, IntArray, MurmurationError, constraints_of
from envs.workloads import Workload

MOST_OPTIONS = 1 << 16  # room for the options of one decision, at most
MOST_TUNINGS = 40  # of a job: batch sizes are powers of two


class ListedOptions(NamedTuple):
    """The options of one decision of one episode, as copies.

    Attributes:
        what: int64[num_options, 4]: kind, row of the job (-1: none), node (-1: none), and GPUs there, the number of a
            tuning, or the job whose GPUs are shared.
        options: float32[num_options, option_features], see `OptionSpec`.
        job_ids: int64[num_jobs].
        jobs: float32[num_jobs, job_features].
        nodes: float32[num_nodes, NUM_NODE_COLUMNS].
        cluster: float32[NUM_CLUSTER_COLUMNS].
        turn: the node whose turn it is, -1 otherwise.
    """

    what: IntArray
    options: Features
    job_ids: IntArray
    jobs: Features
    nodes: Features
    cluster: Features
    turn: int = -1

    @property
    def node_of(self) -> IntArray:
        """int64[num_options]: the node that has each option, -1 for waiting."""
        return self.what[:, OPTION_NODE]

    @property
    def job_of(self) -> IntArray:
        """int64[num_options]: the row of `jobs` that each option is about, -1 for waiting."""
        return self.what[:, OPTION_ROW]


class OptionBatch(EpisodeBatch):
    """`batch_size` independent episodes on one cluster, in which one option is carried out at a time.

    A round of an episode ends when waiting is chosen or nothing else is left; `OptionRules.turn` says how it ends where
    nodes take turns. Rounds without options are passed over.
    The other arguments are those of `EpisodeBatch`.

    Args:
        rules: see its class.
    """

    takes_own_curves: ClassVar[bool] = True

    def __init__(
        self,
        setup: Setup,
        models: tuple[str, ...],
        num_jobs: int,
        batch_size: int = 1,
        rules: OptionRules | None = None,
        reward: Reward | None = None,
        logging: bool = False,
    ) -> None:
        super().__init__(setup, models, num_jobs, batch_size, reward, logging)
        self.rules = rules or OptionRules()
        if setup.scenario.sharing != "off" and self._blocks:
            raise MurmurationError(
                f"scenario.sharing is {setup.scenario.sharing} where throughputs are hidden or drawn: here no such "
                "jobs can share GPUs yet; train with scenario.sharing=off and evaluate the policy as a scheduler"
            )
        self.num_candidates = self.rules.candidates(self.cluster)
        self._open = RepeatedKernel(kernels.open_round)
        capacity = most_options(self.rules, setup.cluster)
        self.arrays = allocate_options(self.state, self.world, self.rules, setup, self.table, capacity)
        if self.hidden or self.predicted:
            self.arrays.rules["pauses"] = 1
        if self.hidden:
            self.arrays = self.arrays._replace(doubt=self.hidden.doubt)
        if self.predicted:
            self.predicted.quartiles = True
            self.arrays = self.arrays._replace(likely=self.predicted.left)

    def load(self, b: int, workload: Workload, rng: np.random.Generator) -> None:
        """Begin an episode, see `EpisodeBatch.load`.

        Raises:
            MurmurationError: also if nodes are found by best fit or act together, and constraints demand a division
                among nodes, which neither offers.
        """
        divided = next((model for model in workload.models if constraints_of(model).demand_nodes(1)), None)
        for setting, value in (("placing", "best_fit"), ("turn", "together")):
            if getattr(self.rules, setting) == value and divided:
                raise MurmurationError(
                    f"workload {workload.name}: jobs ask for a division among nodes ({constraints_of(divided)}), which "
                    f"env.rules.{setting}={value} does not offer; set env.rules.placing=chosen and "
                    "env.rules.turn=auction, or workload.constraints=none"
                )
        super().load(b, workload, rng)

    @property
    def spec(self) -> OptionSpec:
        """Sizes of the rows."""
        return OptionSpec()

    @property
    def outcomes(self) -> IntArray:
        """int64[B]: the result code of the last step of each episode, see `AdvanceResult`; kernels write it."""
        return self._outcomes

    def options(self, b: int = 0) -> ListedOptions:
        """Return the options of the present decision of an episode."""
        return copy_options(self.arrays, b)

    def step(self, chosen: IntArray) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
        """Carry out one option in every episode.

        Args:
            chosen: int64[B], places in the lists of `options`; -1 leaves an episode as it is.

        Returns:
            rewards float64[B], elapsed simulated seconds float64[B], ended bool[B].
        """
        before = self._totals()
        kernels.step_all(self.arrays, chosen, self._outcomes)
        for b in np.flatnonzero((self._outcomes == LOG_FULL) | (self._outcomes == ROUND_OVER)):
            self.resume(int(b))
        return *self._pay(before), self.ended

    def step_together(
        self, chosen: IntArray, scores: FloatArray
    ) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_], IntArray]:
        """Carry out what the nodes of the first episode choose at the same time; see `act`.

        Returns:
            rewards float64[B], elapsed simulated seconds float64[B], ended bool[B], and what `act` returns.
        """
        before = self._totals()
        lost = self.act(0, chosen, scores)
        return *self._pay(before), self.ended, lost

    def act(self, b: int, chosen: IntArray, scores: FloatArray) -> IntArray:
        """Carry out what the nodes of an episode choose at the same time, where the rule of turn is "together".

        Args:
            b: the episode, which must not have ended.
            chosen: int64[num_nodes], for each node the place of one of its options in the list of `options`; -1 for a
                node without options.
            scores: float64[num_options], from which margins and next best options follow.

        Returns:
            int64[num_nodes], 1 for a node whose claim got nothing.
        """
        lost = np.zeros(self.cluster.num_nodes, np.int64)
        act_in(self.arrays, b, chosen, scores, self._outcomes, lost)
        self.resume(b)
        return lost

    def resume(self, b: int) -> None:
        """Go on with an episode whose log was full in the middle of a step, or whose round is over."""
        while self._outcomes[b] == LOG_FULL:
            self._grow_log()
            self._outcomes[b] = kernels.begin(self.arrays, b)
        while self._outcomes[b] == ROUND_OVER:
            if self._pass_time(b) == END:
                self._outcomes[b] = END
            elif self._open(self.arrays, b):
                self._outcomes[b] = ROUND

    def _pass_time(self, b: int) -> int:
        """End a round in which views are not told everything, and advance to the next one; return the result code."""
        if self.predicted:
            while (outcome := self.predicted.pass_time(b, self.arrays.world)) == LOG_FULL:
                self._grow_log()
            return outcome
        assert self.hidden is not None
        outcome = self.hidden.pass_time(b, self.arrays.world)
        if outcome == END:
            self.state.episode[b], self.state.jobs[b] = self.hidden.state.episode[b], self.hidden.state.jobs[b]
        return outcome

    def _grow_log(self) -> None:
        """Enlarge the event log."""
        self.state.grow_log()
        world = self.arrays.world._replace(events=self.state.events, log_shares=self.state.log_shares)
        self.arrays = self.arrays._replace(world=world)

    def copy_episodes(self, places: IntArray, other: "OptionBatch", episodes: IntArray) -> None:
        """Copy running episodes of another batch, in the middle of a round too; the copies write no log.

        Args:
            places: int64[n], indices of the copies.
            other: a batch with the same cluster, rules and throughput table, and as many jobs.
            episodes: int64[n], indices in the other batch.
        """
        self.state.copy_episodes(places, other.state, episodes)
        if self._blocks and other._blocks:
            change = self._blocks.rows * places - other._blocks.rows * episodes
            self.state.jobs["model"][places] += change[:, None]
        if self.hidden and other.hidden:
            self.hidden.copy_episodes(places, other.hidden, episodes)
        if self.predicted and other.predicted:
            self.predicted.copy_episodes(places, other.predicted, episodes)
        for name in ("rules", "refused", "waited"):
            getattr(self.arrays, name)[places] = getattr(other.arrays, name)[episodes]
        self._outcomes[places] = other.outcomes[episodes]
        for place, episode in zip(places.tolist(), episodes.tolist(), strict=True):
            self.workloads[place], self._tables[place] = other.workloads[episode], other._tables[episode]
            if self._drawn and (table := self._tables[place]):
                self._drawn.write(place, table)

    def counters(self, b: int = 0) -> dict[str, int]:
        """Count decisions, gangs that were given up, and how often each limit was reached, in an episode."""
        return kernels.count_events(self.arrays, b)

    def mean_jct(self, b: int) -> float:
        """Return the mean JCT of an ended episode's measured jobs, in s; unfinished ones count up to its end."""
        submit, finish = self._measured(b)
        return float((finish - submit).mean())

    def makespan(self, b: int = 0) -> float:
        """Return the makespan of an ended episode's measured jobs, in s, as `envs.metrics` defines it."""
        submit, finish = self._measured(b)
        return float(finish.max() - submit.min())

    def _measured(self, b: int) -> tuple[FloatArray, FloatArray]:
        """Return when the measured jobs of an ended episode were submitted, and when they finished, or its end."""
        workload = self.workloads[b]
        assert workload is not None, "the episode has not begun"
        assert self._outcomes[b] == END, "the episode has not ended"
        jobs = self.state.jobs[b][: len(workload)][workload.measured]
        finish = np.where(jobs["status"] == Status.DONE, jobs["finish"], self.state.episode[b, 0]["time"])
        return jobs["submit"], finish

    def _use_table(self) -> None:
        tunings = tunings_under(self.rules, self.setup, self.table)
        self.arrays = self.arrays._replace(world=self.world, tunings=tunings)
        if self.hidden:
            self.arrays = self.arrays._replace(doubt=self.hidden.doubt)

    def _begin(self, b: int) -> None:
        record = self.arrays.rules[b, 0]
        for name in ("decision", *COUNTERS):
            record[name] = 0
        record["gang"] = -1
        for state in (self.state, self.hidden.state if self.hidden else self.state):
            fix_sizes(state.jobs[b], self.rules, self.cluster)
        self.arrays.refused[b] = 0
        self._outcomes[b] = kernels.begin(self.arrays, b)
        self.resume(b)


def copy_options(arrays: OptionArrays, b: int) -> ListedOptions:
    """Return copies of the options of the present decision of an episode, which must not be over."""
    count = kernels.relist(arrays, b)
    rows = arrays.rules[b, 0].num_jobs
    return ListedOptions(
        arrays.what[:count].copy(),
        arrays.options[:count].copy(),
        arrays.job_ids[:rows].copy(),
        arrays.jobs[:rows].copy(),
        arrays.nodes.copy(),
        arrays.cluster.copy(),
        int(arrays.rules[b, 0].turn_of),
    )


def most_options(rules: OptionRules, cluster: ClusterSpec) -> int:
    """Return the room that is kept for the options of one decision: for all that there can be, within MOST_OPTIONS."""
    node_gpus = int(cluster.node_gpus.max())
    jobs = rules.candidates(cluster) + cluster.num_nodes * node_gpus
    tunings = MOST_TUNINGS if rules.tune else 0
    owners = cluster.num_gpus if rules.share else 0
    return min(1 + (1 + rules.share) * jobs * (cluster.num_nodes * (node_gpus + 1) + tunings + owners), MOST_OPTIONS)
