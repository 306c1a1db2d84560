"""Rounds of options on a snapshot, with which a policy implements `Scheduler.schedule`."""

from collections.abc import Sequence

import numpy as np

from envs.episodes.hidden import Doubt
from envs.options import kernels
from envs.options.arrays import OptionArrays, allocate_options, fix_sizes
from envs.options.batch import ListedOptions, copy_options, most_options
from envs.options.rules import OptionRules
from envs.options.several import decide_likeliest
from envs.options.together import decide_together
from envs.options.tuning import tunings_under
from envs.simulation import SimulationView, Snapshot, State, ThroughputTable
from envs.simulation.known.predictions import QUARTILES, quantiles_left
from envs.simulation.world.arrays import batch_world
from envs.simulation.world.shares import NAMED_CPUS, NAMED_MEMORY
from envs.types import Allocation, ExecutionPlan, FloatArray, IntArray, JobId, NodeId, Placement


class OptionRound:
    """Rounds in which options are carried out on a copy of the cluster.

    Call `begin`, then, until the round is over, `options` and `step`, or any kernel that carries out options of
    episode 0 of `arrays`; then `fill`. The counters are those of all rounds since the first.

    Args:
        rules: see its class.
    """

    def __init__(self, rules: OptionRules) -> None:
        self.rules = rules
        self._snapshot: Snapshot | None = None
        self._arrays: OptionArrays | None = None
        self._table: ThroughputTable | None = None

    @property
    def arrays(self) -> OptionArrays:
        """The arrays that the kernels use, those of one episode; new ones after the snapshot had to grow."""
        assert self._arrays is not None, "call begin first"
        return self._arrays

    def begin(self, view: SimulationView) -> bool:
        """Take a snapshot at the beginning of a round; return whether there is an option besides waiting."""
        state = self._snapshot.state if self._snapshot else None
        self._snapshot = view.snapshot(into=self._snapshot)
        if self._arrays is None or self._snapshot.state is not state:
            self._allocate(view, self._snapshot)
        elif self._snapshot.table is not self._table:
            table = self._snapshot.table
            world = batch_world(self._snapshot.state, table)
            tunings = tunings_under(self.rules, self._snapshot.setup, table)
            self._arrays = self._arrays._replace(world=world, tunings=tunings)
        if view.doubt is not None and view.doubt[0] is not self.arrays.doubt.spread:
            self._arrays = self.arrays._replace(doubt=Doubt(*view.doubt))
        if self._snapshot.setup.scenario.information.work == "predicted":
            jobs = np.concatenate((view.queued, view.running))
            likely = np.zeros((1, self._snapshot.state.jobs.shape[1], len(QUARTILES)))
            likely[0, jobs] = quantiles_left(view.likely_work(jobs))
            self._arrays = self.arrays._replace(likely=likely)
        self._table = self._snapshot.table
        fix_sizes(self._snapshot.state.jobs[0], self.rules, view.cluster)
        self.arrays.refused[:] = 0
        return bool(kernels.open_round(self.arrays, 0))

    def options(self) -> ListedOptions:
        """Return the options of the present decision; the round must not be over."""
        return copy_options(self.arrays, 0)

    def step(self, option: int) -> bool:
        """Carry out an option by its place among all; return whether the round is over."""
        return bool(kernels.decide_option(self.arrays, 0, option))

    def act(self, chosen: IntArray, scores: FloatArray) -> bool:
        """Carry out what all nodes choose; return whether the round is over. See `OptionBatch.act`."""
        return bool(decide_together(self.arrays, 0, chosen, scores))

    @property
    def at_once(self) -> int:
        """Options that `step_likeliest` carries out, at most."""
        return int(self.arrays.rules[0, 0].at_once)

    def step_likeliest(self, scores: FloatArray) -> bool:
        """Carry out the options with the highest scores, float64[options]; return whether the round is over."""
        return bool(decide_likeliest(self.arrays, 0, scores))

    def fill(self, allocation: Allocation) -> Allocation:
        """Write the round's draft into a `keep_running` allocation."""
        assert self._snapshot is not None, "call begin first"
        state, plans = self._snapshot.state, self._snapshot.plans
        touched = np.sort(state.touched[0, : state.episode[0, 0].num_touched])
        for job in touched.tolist():  # all at first, so that GPUs that one job leaves are free for another
            allocation.stop(job)
        for job in touched[np.argsort(state.jobs["guest"][0][touched], kind="stable")].tolist():  # owners before guests
            placement = drafted_placement(state, 0, job, plans)
            if placement is not None:
                allocation.place(job, placement)
        return allocation

    def counters(self) -> dict[str, int]:
        """Count decisions, gangs that were given up, and how often each limit was reached, so far."""
        return kernels.count_events(self.arrays, 0)

    def _allocate(self, view: SimulationView, snapshot: Snapshot) -> None:
        before, capacity = self._arrays, most_options(self.rules, view.cluster)
        world = batch_world(snapshot.state, snapshot.table)
        self._arrays = allocate_options(snapshot.state, world, self.rules, snapshot.setup, snapshot.table, capacity)
        if before is not None:
            self._arrays.rules[:] = before.rules


def drafted_placement(state: State, b: int, job: JobId, plans: Sequence[ExecutionPlan] = ()) -> Placement | None:
    """Return what a job gets in the draft of an episode, with what the placement names; None for no GPUs.

    Args:
        state: the engine's arrays.
        b: the episode.
        job: a job that the draft has touched.
        plans: the execution plans to which placements refer.
    """
    record = state.jobs[b, job]
    gpus, cpus, memory = dict[NodeId, int](), dict[NodeId, float](), dict[NodeId, float]()
    share = record.first_share
    while share >= 0:
        part = state.shares[b, share]
        node = int(part.node)
        gpus[node], cpus[node], memory[node] = int(part.gpus), float(part.cpus), float(part.memory)
        share = part.next_of_job
    if not gpus:
        return None
    return Placement(
        gpus,
        cpus=cpus if record.named & NAMED_CPUS else None,
        memory=memory if record.named & NAMED_MEMORY else None,
        plan=plans[record.plan] if record.plan >= 0 else None,
        batch_size=int(record.batch_size) or None,
        beside=int(record.partner) if record.guest else None,
    )
