"""The true side of episodes whose throughputs are hidden: time passes there, and decisions are taken on what is seen.

As for schedulers, each round is decided on a copy of the cluster that continues at believed throughputs
(`envs.simulation.Snapshot`). In a batch this copy is the state that environments show, with believed throughputs in its
tables. What a round has changed there is carried over to the true state, time passes in that, beliefs learn from it,
and the copy is made anew.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from envs.episodes.blocks import TableBlocks
from envs.simulation import Setup, SimulationView, State, ThroughputTable
from envs.simulation.compiled.jit import RepeatedKernel, kernel, part
from envs.simulation.known.beliefs import Beliefs, Seen, note_seen
from envs.simulation.seen.snapshot_kernels import copy_episode, use_own_throughputs
from envs.simulation.world.arrays import World, episode_of
from envs.simulation.world.clock import advance
from envs.simulation.world.kernels import END, LOG_FULL, settle
from envs.simulation.world.shares import clear_job, set_share
from envs.types import ExecutionPlan, FloatArray, IntArray
from envs.workloads import Workload

SAMPLES = 3  # of the four generators of `Simulator`, that of the errors of samples


@part
def carry_draft(source: World, target: World) -> None:
    """Give the jobs of a true state what the draft of a round gives them in the state that is seen."""
    count = source.episode[0].num_touched
    for i in range(count):  # all at first, so that GPUs that one job leaves are free for another
        if target.jobs[source.touched[i]].touched == 0:
            clear_job(target, source.touched[i])
    for i in range(count):
        j = source.touched[i]
        share = source.jobs[j].first_share
        while share >= 0:
            set_share(target, j, source.shares[share].node, source.shares[share].gpus)
            share = source.shares[share].next_of_job


@kernel
def reach_next_round(
    seen: World, true: World, b: int, carrying: bool, sampled: FloatArray, found: IntArray, count: IntArray
) -> int:
    """End a round as it was decided, advance the true state to the next one, and list what running jobs show.

    Args:
        seen, true: both sides.
        b: the episode.
        carrying: whether the true state takes over what was decided; not after LOG_FULL.
        sampled, found: see `note_seen`.
        count: int64[2], overwritten by the number of rows of `found` and that of submitted jobs.

    Returns:
        The result code; LOG_FULL asks for a longer log and for another call.
    """
    world = episode_of(true, b)
    if carrying:
        carry_draft(episode_of(seen, b), world)
    if settle(world) < 0:
        return LOG_FULL
    outcome = advance(world)
    count[0], count[1] = note_seen(world, sampled, found), world.episode[0].next_job
    return int(outcome)


@kernel
def show_round(true: World, seen: World, b: int, listed: IntArray, sizes: IntArray) -> None:
    """Copy the true state into the state that is seen, where running jobs continue at believed throughputs.

    Args:
        true, seen: both sides.
        b: the episode.
        listed, sizes: see `envs.simulation.seen.snapshot_kernels.copy_episode`.
    """
    source, target = episode_of(true, b), episode_of(seen, b)
    copy_episode(source, target, listed, listed[:0], sizes, source.episode[0].next_job, True)
    use_own_throughputs(target)


class Doubt(NamedTuple):
    """How much is known of each throughput, by the rows of the tables that are seen.

    Attributes:
        spread: float64[rows, num_gpu_types, max_gpus + 1, NUM_LEVELS], standard deviation of the logarithm.
        num_samples: int64 of the same shape, how often it was measured.
    """

    spread: FloatArray
    num_samples: IntArray


class HiddenEpisodes:
    """The true states of a batch, and the beliefs about each.

    Args:
        setup: hides throughputs.
        known: the measured curves of all models around which curves are drawn.
        num_jobs: the largest number of jobs of one episode.
        batch_size: number of episodes.
        rows: the most models of one episode.
        logging: whether events are logged.

    Attributes:
        state: the true states.
        true: their tables.
        seen: the tables of the states that are seen.
        doubt: how much is known of these.
        beliefs: by episode; None before it has begun.
    """

    def __init__(
        self, setup: Setup, known: ThroughputTable, num_jobs: int, batch_size: int, rows: int, logging: bool
    ) -> None:
        self.setup, self._known = setup, known
        self.state = State.allocate(setup.cluster, num_jobs, batch_size, setup.scenario)
        if logging:
            self.state.grow_log()
        self.beliefs: list[Beliefs | None] = [None] * batch_size
        self._listed = np.zeros((batch_size, num_jobs), np.int64)
        self._sizes = np.zeros((batch_size, 3), np.int64)
        self._sampled = np.zeros((batch_size, num_jobs))
        self._seen = np.zeros((2 * setup.cluster.num_gpus, len(Seen._fields)), np.int64)
        self._count = np.zeros(2, np.int64)
        self._reach, self._show = RepeatedKernel(reach_next_round), RepeatedKernel(show_round)
        self._allocate(rows)

    def _allocate(self, rows: int, max_gpus: int = 0) -> None:
        """Allocate empty tables."""
        count = len(self.beliefs)
        self.true, self.seen = (TableBlocks(self._known, count, rows, max_gpus) for _ in range(2))
        self.doubt = Doubt(np.zeros(self.seen.shape), np.zeros(self.seen.shape, np.int64))
        self._world = self.true.world(self.state, self._known)

    def make_room(self, rows: int, max_gpus: int) -> None:
        """Make room for more models or sizes in the rows of each episode."""
        self.state.jobs["model"] += np.arange(len(self.beliefs))[:, None] * (rows - self.true.rows)
        self._allocate(rows, max_gpus)
        for b, beliefs in enumerate(self.beliefs):
            if beliefs is not None:
                self._write(b, beliefs)

    def load(self, b: int, workload: Workload, table: ThroughputTable, rng: np.random.Generator) -> None:
        """Begin the beliefs about an episode that is in the true state; errors of samples are those of `Simulator`.

        Args:
            b: the episode.
            workload: its jobs.
            table: the true throughputs of its models.
            rng: the one with which it was loaded.
        """
        sequence = rng.bit_generator.seed_seq
        assert isinstance(sequence, np.random.SeedSequence)
        samples = np.random.SeedSequence(sequence.entropy, spawn_key=(*sequence.spawn_key, SAMPLES))
        self._world = self._world._replace(edges=self.state.edges)
        beliefs = self.beliefs[b] = Beliefs(self.setup, workload, table, samples)
        self._write(b, beliefs)
        self._sizes[b] = 0
        self._sampled[b] = -1.0

    def _write(self, b: int, beliefs: Beliefs) -> None:
        """Write all that is true and that is seen of an episode's throughputs into its rows."""
        self.true.write(b, beliefs.truth)
        self.seen.write(b, beliefs.table)
        first = self.seen.first(b)
        self.doubt.spread[first : first + self.seen.rows] = 0.0
        self.doubt.num_samples[first : first + self.seen.rows] = 0
        self._write_doubt(first, beliefs, np.arange(len(beliefs.truth.models)))

    def _write_doubt(self, first: int, beliefs: Beliefs, models: IntArray) -> None:
        sizes = slice(beliefs.spread.shape[2])
        self.doubt.spread[first + models, :, sizes] = beliefs.spread[models]
        self.doubt.num_samples[first + models, :, sizes] = beliefs.num_samples[models]

    def pass_time(self, b: int, seen: World) -> int:
        """End a round, advance to the next one, and show it in the state that is seen.

        Args:
            b: the episode.
            seen: the worlds in which the round was decided.

        Returns:
            The result code, END or ROUND. At the end, the state that is seen is not made anew.
        """
        beliefs = self.beliefs[b]
        assert beliefs is not None, "the episode has not begun"
        notes = self._sampled[b], self._seen, self._count
        outcome = self._reach(seen, self._world, b, True, *notes)
        while outcome == LOG_FULL:
            self.state.grow_log()
            self._world = self._world._replace(events=self.state.events, log_shares=self.state.log_shares)
            outcome = self._reach(seen, self._world, b, False, *notes)
        if outcome == END:
            return outcome
        count, submitted = self._count.tolist()
        learnt = beliefs.look(submitted, map(Seen._make, self._seen[:count].tolist()))
        if learnt.size:
            first = self.seen.first(b)
            self.seen.write_rows(first + learnt, *beliefs.rows(learnt))
            self._write_doubt(first, beliefs, learnt)
        self._show(self._world, seen, b, self._listed[b], self._sizes[b])
        return outcome

    def view(self, b: int, plans: list[ExecutionPlan]) -> SimulationView:
        """Return what a scheduler sees of an episode at the beginning of a round.

        Args:
            b: the episode.
            plans: those that placements have named so far.
        """
        beliefs = self.beliefs[b]
        assert beliefs is not None, "the episode has not begun"
        state = episode_alone(self.state, b, self.true.first(b))
        return SimulationView(state, beliefs.setup, beliefs.workload, beliefs.table, beliefs.exact, plans, beliefs)

    def copy_episodes(self, places: IntArray, other: "HiddenEpisodes", episodes: IntArray) -> None:
        """Copy running episodes of another batch; the copies write no log."""
        self.state.copy_episodes(places, other.state, episodes)
        for name in ("_listed", "_sizes", "_sampled"):
            getattr(self, name)[places] = getattr(other, name)[episodes]
        for place, episode in zip(places.tolist(), episodes.tolist(), strict=True):
            beliefs = other.beliefs[episode]
            if beliefs is not None:
                self.beliefs[place] = beliefs.copy()
                self._write(place, beliefs)
                self.state.jobs["model"][place] += self.true.first(place) - other.true.first(episode)


def episode_alone(state: State, b: int, first: int) -> State:
    """Return a copy of one episode whose models are numbered from 0, as in a table of its own.

    Args:
        state: a batch.
        b: the episode.
        first: row of its first model, see `TableBlocks`.
    """
    view = state.episode_view(b)
    alone = replace(view, jobs=view.jobs.copy())
    alone.jobs["model"] -= first
    return alone
